//! Parses the body of a review, or explains why it is invalid.
//!
//! This module must not depend on the selection of handlers or the response.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::handler::operation::Operation;
use crate::handler::review::ReviewFacts;
use crate::handler::subject::Sides;
use crate::object::body::Body;
use crate::object::reference::Reference;
use crate::object::resource::Resource;

/// Facts about the connection of a call.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionFacts {
    pub(crate) headers: Vec<(String, String)>,
    /// The certificate that the client has presented, if any.
    pub(crate) sslpeer: Option<Value>,
}

/// A request under review.
#[derive(Clone, Debug)]
pub(crate) struct Review {
    /// The uid of the review, not of the object.
    pub(crate) uid: String,
    /// The resource, with the fields that the review contains.
    pub(crate) resource: Resource,
    pub(crate) facts: Arc<ReviewFacts>,
    /// The new state of the object, or the current state for a deletion.
    pub(crate) body: Arc<Body>,
    pub(crate) sides: Arc<Sides>,
}

/// The reason why a body is not a review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadReview(pub(crate) String);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Posted {
    api_version: Option<String>,
    kind: Option<String>,
    request: Option<Request>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    #[serde(default)]
    uid: String,
    kind: Option<Kind>,
    resource: Option<Plural>,
    sub_resource: Option<String>,
    name: Option<String>,
    namespace: Option<String>,
    operation: Option<Operation>,
    user_info: Option<Map<String, Value>>,
    object: Option<Value>,
    old_object: Option<Value>,
    dry_run: Option<bool>,
}

#[derive(Deserialize)]
struct Kind {
    kind: String,
}

#[derive(Deserialize)]
struct Plural {
    #[serde(default)]
    group: String,
    version: String,
    resource: String,
}

const VERSION: &str = "admission.k8s.io/v1";

// === impl ===

impl Review {
    /// Parses the body of a POST request.
    pub(crate) fn parse(body: &[u8], connection: ConnectionFacts) -> Result<Self, BadReview> {
        let posted: Posted = serde_json::from_slice(body).map_err(|_| unreadable(body))?;
        if posted.kind.as_deref() != Some("AdmissionReview") {
            return Err(expected("kind", "AdmissionReview", posted.kind.as_deref()));
        }
        if posted.api_version.as_deref() != Some(VERSION) {
            let found = posted.api_version.as_deref();
            return Err(expected("apiVersion", VERSION, found));
        }
        let request = posted.request.ok_or_else(|| missing("request"))?;
        request.review(connection)
    }

    /// Returns the reference to the object under review for log lines.
    pub(crate) fn about(&self) -> Reference {
        Reference {
            api_version: self.resource.api_version(),
            kind: self.resource.kind.clone(),
            name: either(self.body.name(), self.facts.name.as_deref()),
            namespace: self.body.namespace().map(str::to_owned).or_else(|| self.facts.namespace.clone()),
            uid: self.body.uid().to_owned(),
        }
    }
}

impl Request {
    fn review(self, connection: ConnectionFacts) -> Result<Review, BadReview> {
        let present = |text: Option<String>| text.filter(|it| !it.is_empty());
        if self.uid.is_empty() {
            return Err(missing("request.uid"));
        }
        let operation = self.operation.ok_or_else(|| missing("request.operation"))?;
        let userinfo = self.user_info.ok_or_else(|| missing("request.userInfo"))?;
        let plural = self.resource.ok_or_else(|| missing("request.resource"))?;
        let kind = self.kind.ok_or_else(|| missing("request.kind"))?.kind;
        let (old, new) = (self.old_object, self.object);
        let [old, new] = [old, new].map(|side| side.filter(|it| !it.is_null()));
        let is_deletion = new.is_none();
        let (whole, before) = match new {
            Some(new) => (new, old),
            None => (old.ok_or_else(|| missing("request.object"))?, None),
        };
        if !whole.is_object() || before.as_ref().is_some_and(|it| !it.is_object()) {
            return Err(BadReview("request.object: expected an object".to_owned()));
        }
        let sides = Sides { is_deletion, before, ..Sides::default() };
        // For namespaces, the API server sends the name of the object as its namespace.
        let is_namespace = plural.group.is_empty() && plural.resource == "namespaces";
        let namespace = present(self.namespace).filter(|_| !is_namespace);
        let resource = Resource {
            group: plural.group,
            version: plural.version,
            plural: plural.resource,
            singular: kind.to_lowercase(),
            kind,
            namespaced: namespace.is_some(),
            // The API server converts objects to the requested version.
            preferred: true,
            ..Resource::default()
        };
        let facts = ReviewFacts {
            operation,
            subresource: present(self.sub_resource),
            dryrun: self.dry_run.unwrap_or(false),
            name: present(self.name),
            namespace,
            userinfo: Value::Object(userinfo),
            headers: headers(connection.headers),
            sslpeer: connection.sslpeer.unwrap_or_else(|| Map::new().into()),
        };
        Ok(Review {
            uid: self.uid,
            resource,
            facts: Arc::new(facts),
            body: Arc::new(Body::new(whole)),
            sides: Arc::new(sides),
        })
    }
}

/// Returns headers by lower-case name; several values of one name are joined, as HTTP allows.
fn headers(all: Vec<(String, String)>) -> Value {
    let mut headers = Map::new();
    for (name, value) in all {
        let found = headers.entry(name.to_lowercase()).or_insert(Value::Null);
        *found = match found.as_str() {
            Some(former) => format!("{former}, {value}").into(),
            None => value.into(),
        };
    }
    Value::Object(headers)
}

fn either(own: &str, other: Option<&str>) -> String {
    let found = Some(own).filter(|own| !own.is_empty());
    found.or(other).unwrap_or_default().to_owned()
}

fn missing(what: &str) -> BadReview {
    BadReview(format!("the review has no {what}"))
}

fn expected(what: &str, wanted: &str, found: Option<&str>) -> BadReview {
    let found = found.map_or_else(|| "nothing".to_owned(), |it| format!("{it:?}"));
    let found: String = found.chars().take(100).collect();
    BadReview(format!("{what}: expected {wanted}, found {found}"))
}

/// Builds an error that does not quote the body, which may be long and secret.
fn unreadable(body: &[u8]) -> BadReview {
    let mut json = serde_json::Deserializer::from_slice(body);
    let read = serde_path_to_error::deserialize::<_, Posted>(&mut json);
    let message = match read {
        Err(error) if error.inner().is_data() => {
            let (path, line) = (error.path(), error.inner().line());
            format!("{path}: the value is not of the expected type, in line {line}")
        }
        Err(error) => {
            let (line, column) = (error.inner().line(), error.inner().column());
            format!("the body is not JSON, at line {line} column {column}")
        }
        Ok(_) => "the body is not JSON: it continues after its end".to_owned(),
    };
    BadReview(message)
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the review of a creation.
    pub(crate) fn creation(object: &Value) -> Value {
        json!({
            "apiVersion": VERSION,
            "kind": "AdmissionReview",
            "request": {
                "uid": "r-1",
                "kind": {"group": "kopf.dev", "version": "v1", "kind": "KopfExample"},
                "resource": {"group": "kopf.dev", "version": "v1", "resource": "kopfexamples"},
                "name": "one",
                "namespace": "default",
                "operation": "CREATE",
                "userInfo": {"username": "me"},
                "object": object,
                "oldObject": null,
                "dryRun": false,
            },
        })
    }

    fn parse(value: &Value) -> Result<Review, BadReview> {
        Review::parse(value.to_string().as_bytes(), ConnectionFacts::default())
    }

    #[test]
    fn a_review_is_read() {
        let object = json!({"metadata": {"name": "one", "namespace": "default"}, "spec": {}});
        let mut posted = creation(&object);
        posted["request"]["dryRun"] = json!(true);
        posted["request"]["subResource"] = json!("status");
        let connection = ConnectionFacts {
            headers: [("X-A", "1"), ("x-a", "2"), ("B", "")]
                .map(|(name, value)| (name.into(), value.into()))
                .into(),
            sslpeer: None,
        };
        let review = Review::parse(posted.to_string().as_bytes(), connection).unwrap();
        let ReviewFacts { operation, subresource, dryrun, headers, sslpeer, .. } = &*review.facts;
        assert_eq!((*operation, *dryrun), (Operation::Create, true));
        assert_eq!(subresource.as_deref(), Some("status"));
        assert_eq!(*headers, json!({"x-a": "1, 2", "b": ""}));
        assert_eq!(*sslpeer, json!({}));
        assert_eq!(review.resource.to_string(), "kopfexamples.v1.kopf.dev");
        let (whole, sides): (&Value, _) = (&review.body, &review.sides);
        assert_eq!((whole, &sides.before, sides.is_deletion), (&object, &None, false));
    }

    #[test]
    fn a_deletion_is_about_the_object_that_is_there() {
        // As in deletecollection, where the request has no name.
        let mut posted = creation(&json!(null));
        let request = &mut posted["request"];
        request["operation"] = json!("DELETE");
        request["name"] = json!("");
        request["oldObject"] = json!({"metadata": {"name": "one", "namespace": "a"}});
        let review = parse(&posted).unwrap();
        let about = review.about();
        assert_eq!((about.name.as_str(), about.namespace.as_deref()), ("one", Some("a")));
        assert!(review.sides.is_deletion && review.sides.before.is_none());
    }

    #[test]
    fn an_object_without_a_name_has_that_of_the_request() {
        let mut posted = creation(&json!({"kind": "PodExecOptions", "command": ["sh"]}));
        posted["request"]["operation"] = json!("CONNECT");
        let about = parse(&posted).unwrap().about();
        assert_eq!((about.name.as_str(), about.namespace.as_deref()), ("one", Some("default")));
    }

    #[test]
    fn an_invalid_review_is_refused_with_the_reason() {
        let object = json!({"metadata": {}});
        let without = |path: &str| {
            let mut posted = creation(&object);
            posted["request"].as_object_mut().unwrap().remove(path);
            posted
        };
        let with = |path: &str, value: Value| {
            let mut posted = creation(&object);
            *posted.pointer_mut(path).unwrap() = value;
            posted
        };
        for (posted, expected) in [
            (json!("text"), "expected type"),
            (json!({}), "kind: expected AdmissionReview, found nothing"),
            (with("/kind", json!("Pod")), "found \"Pod\""),
            (with("/apiVersion", json!("admission.k8s.io/v1beta1")), "v1beta1"),
            (with("/request", json!(null)), "the review has no request"),
            (with("/request", json!(5)), "request: the value is not of the expected type"),
            (without("uid"), "no request.uid"),
            (without("userInfo"), "no request.userInfo"),
            (with("/request/userInfo", json!("me")), "request.userInfo: "),
            (without("resource"), "no request.resource"),
            (without("kind"), "no request.kind"),
            (without("operation"), "no request.operation"),
            (with("/request/operation", json!("PATCH")), "request.operation: "),
            (with("/request/object", json!(null)), "no request.object"),
            (with("/request/object", json!("text")), "expected an object"),
        ] {
            let BadReview(message) = parse(&posted).unwrap_err();
            assert!(message.contains(expected), "{message}, not {expected}");
        }
        for junk in ["", "{", "junk", "\u{0}", &"{\"a\":".repeat(100_000)] {
            let parsed = Review::parse(junk.as_bytes(), ConnectionFacts::default());
            let BadReview(message) = parsed.unwrap_err();
            assert!(message.starts_with("the body is not JSON"), "{message}");
        }
        let trailing = format!("{} junk", creation(&object));
        let parsed = Review::parse(trailing.as_bytes(), ConnectionFacts::default());
        assert!(parsed.is_err());
    }
}
