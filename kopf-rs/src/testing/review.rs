//! Calls admission handlers in the order of the API server: first the mutating handlers one after the other, then the
//! validating ones.
//!
//! This module does not depend on clusters.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::admission::review::ConnectionFacts;
use crate::cluster::typed::plural_of;
use crate::handler::denial::FieldError;
use crate::handler::operation::Operation;
use crate::handler::webhook::AdmissionKind;
use crate::operator::run::Operator;
use crate::operator::run::reviewing::Reviews;

/// An admission request for handlers under test: [`review`].
#[derive(Clone, Debug)]
#[must_use = "a review does nothing until it is sent to handlers: `.by(registry).await`"]
pub struct TestReview {
    object: Value,
    old: Option<Value>,
    operation: Operation,
    plural: String,
    subresource: Option<String>,
    userinfo: Value,
    is_dry_run: bool,
}

/// The response that the sender of the request sees.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Reviewed {
    /// True if all handlers allow the request.
    pub is_allowed: bool,
    /// The HTTP code of the denial or failure; 200 if there is none.
    pub code: u16,
    /// The message of the response.
    pub message: String,
    /// The invalid fields.
    pub causes: Vec<FieldError>,
    /// All warnings, in order.
    pub warnings: Vec<String>,
    /// The object after all mutating handlers.
    pub object: Value,
}

/// The longest time that the API server waits for a webhook.
const DEADLINE: Duration = Duration::from_secs(29);

/// Creates an admission request for handlers under test, without a cluster.
///
/// ```
/// use kopf_rs::Registry;
/// use kopf_rs::prelude::*;
/// use kopf_rs::testing::review;
///
/// #[on_mutate("kopfexamples")]
/// async fn with_a_size(spec: &Value, patch: &mut Patch) {
///     if spec["size"].is_null() {
///         patch.set("spec.size", 1);
///     }
/// }
///
/// #[on_validate("kopfexamples")]
/// async fn valid(#[from(spec.size)] size: u32, userinfo: UserInfo) -> HandlerResult {
///     if size > 100 && userinfo.username != "admin" {
///         return Err(AdmissionError::new("too large").code(403));
///     }
///     Ok(())
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let object = json!({"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "one"}, "spec": {}});
/// let reviewed = review(object.clone()).create().by(Registry::collected().unwrap()).await;
/// assert!(reviewed.is_allowed);
/// assert_eq!(reviewed.object["spec"]["size"], 1);
///
/// let mut large = object.clone();
/// large["spec"]["size"] = json!(200);
/// let update = review(large).update(object);
/// let reviewed = update.clone().as_user("me", ["developers"]).by(Registry::collected().unwrap()).await;
/// assert_eq!((reviewed.code, reviewed.message.as_str()), (403, "too large"));
/// let reviewed = update.as_user("admin", ["admins"]).by(Registry::collected().unwrap()).await;
/// assert!(reviewed.is_allowed);
/// # });
/// ```
///
/// By default, an anonymous user creates the object. Mutating handlers that change the object are called a second
/// time with the result, as the API server may do, and must then change nothing.
pub fn review(object: Value) -> TestReview {
    let plural = plural_of(object["kind"].as_str().unwrap_or_default());
    TestReview {
        object,
        old: None,
        operation: Operation::Create,
        plural,
        subresource: None,
        userinfo: json!({"username": "tester", "groups": []}),
        is_dry_run: false,
    }
}

impl TestReview {
    /// The request creates the object.
    pub fn create(self) -> Self {
        Self { operation: Operation::Create, old: None, ..self }
    }

    /// The request updates the object from the state `old`.
    pub fn update(self, old: Value) -> Self {
        Self { operation: Operation::Update, old: Some(old), ..self }
    }

    /// The request deletes the object.
    pub fn delete(self) -> Self {
        Self { operation: Operation::Delete, old: None, ..self }
    }

    /// The request addresses a subresource, such as `status`.
    pub fn subresource(self, name: impl Into<String>) -> Self {
        Self { subresource: Some(name.into()), ..self }
    }

    /// Sets the plural name of the resource. Default: the one that `kube::CustomResource` gives to the kind, such as `policies` for `Policy`.
    pub fn plural(self, plural: impl Into<String>) -> Self {
        Self { plural: plural.into(), ..self }
    }

    /// Sets the user who sends the request, with the user's groups.
    pub fn as_user<G: Into<String>>(
        self,
        name: impl Into<String>,
        groups: impl IntoIterator<Item = G>,
    ) -> Self {
        let groups: Vec<String> = groups.into_iter().map(Into::into).collect();
        let name: String = name.into();
        Self { userinfo: json!({"username": name, "groups": groups}), ..self }
    }

    /// Makes the request a dry run.
    pub fn dry_run(self) -> Self {
        Self { is_dry_run: true, ..self }
    }

    /// Sends the request to the admission handlers of a registry, or of an operator with the values that they
    /// require. The handlers get no client.
    ///
    /// # Panics
    /// Panics if the registry has problems, or if a handler is not idempotent.
    pub async fn by(mut self, operator: impl Into<Operator>) -> Reviewed {
        let reviews = operator.into().reviews();
        let reviews = reviews.unwrap_or_else(|error| panic!("{error}"));
        let mut warnings = Vec::new();
        let mut is_changed = false;
        for (kind, path) in &reviews.paths {
            if *kind == AdmissionKind::Mutate {
                match self.ask(&reviews, path, &mut warnings).await {
                    Ok(changed) => is_changed |= changed,
                    Err(denied) => return *denied,
                }
            }
        }
        for (kind, path) in &reviews.paths {
            if is_changed && *kind == AdmissionKind::Mutate {
                let before = self.object.clone();
                if let Err(denied) = self.ask(&reviews, path, &mut Vec::new()).await {
                    return *denied;
                }
                let after = &self.object;
                assert_eq!(before, *after, "the handler at {path} changes its own result again");
            }
        }
        for (kind, path) in &reviews.paths {
            if *kind == AdmissionKind::Validate
                && let Err(denied) = self.ask(&reviews, path, &mut warnings).await
            {
                return *denied;
            }
        }
        Reviewed {
            is_allowed: true,
            code: 200,
            message: String::new(),
            causes: Vec::new(),
            warnings,
            object: self.object,
        }
    }

    /// Calls the handlers at one path; returns whether they changed the object.
    async fn ask(
        &mut self,
        reviews: &Reviews,
        path: &str,
        warnings: &mut Vec<String>,
    ) -> Result<bool, Box<Reviewed>> {
        let body = self.body().to_string();
        let connection = ConnectionFacts::default();
        let reply = reviews.reviewer.review(path, body.as_bytes(), connection, DEADLINE).await;
        let answer: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        if reply.status == 503 {
            // The handlers are for other resources; an API server would not call them.
            return Ok(false);
        }
        let response = &answer["response"];
        let told = response["warnings"].as_array().into_iter().flatten();
        warnings.extend(told.filter_map(Value::as_str).map(str::to_owned));
        let is_allowed = reply.status == 200 && response["allowed"] == true;
        if !is_allowed {
            let status = match reply.status {
                200 => &response["status"],
                _ => &answer,
            };
            return Err(Box::new(self.denied(status, warnings)));
        }
        let encoded = response["patch"].as_str().map(|it| STANDARD.decode(it));
        let document = encoded.and_then(Result::ok);
        let document: Value =
            document.map_or(Value::Null, |it| serde_json::from_slice(&it).unwrap_or_default());
        let operations = document.as_array().into_iter().flatten();
        let mut is_changed = false;
        for operation in operations {
            apply(&mut self.object, operation);
            is_changed = true;
        }
        Ok(is_changed)
    }

    fn denied(&self, status: &Value, warnings: &[String]) -> Reviewed {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let causes = status["details"]["causes"].as_array().into_iter().flatten();
        let causes = causes.map(|it| FieldError {
            reason: text(&it["reason"]),
            field: text(&it["field"]),
            message: text(&it["message"]),
        });
        let code = status["code"].as_u64().and_then(|it| it.try_into().ok());
        Reviewed {
            is_allowed: false,
            code: code.unwrap_or(500),
            message: text(&status["message"]),
            causes: causes.collect(),
            warnings: warnings.to_vec(),
            object: self.object.clone(),
        }
    }

    fn body(&self) -> Value {
        let api_version = self.object["apiVersion"].as_str().unwrap_or_default();
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let (object, old) = match self.operation {
            Operation::Delete => (None, Some(&self.object)),
            _ => (Some(&self.object), self.old.as_ref()),
        };
        let metadata = &self.object["metadata"];
        json!({
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "00000000-0000-0000-0000-000000000000",
                "kind": {"group": group, "version": version, "kind": self.object["kind"]},
                "resource": {"group": group, "version": version, "resource": self.plural},
                "subResource": self.subresource,
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "operation": self.operation,
                "userInfo": self.userinfo,
                "object": object,
                "oldObject": old,
                "dryRun": self.is_dry_run,
            },
        })
    }
}

/// Applies one operation of a JSON patch.
fn apply(object: &mut Value, operation: &Value) {
    let path = operation["path"].as_str().unwrap_or_default();
    let (parent, name) = path.rsplit_once('/').unwrap_or_default();
    let name = name.replace("~1", "/").replace("~0", "~");
    let parent = object.pointer_mut(parent).and_then(Value::as_object_mut);
    let Some(parent): Option<&mut Map<String, Value>> = parent else {
        return;
    };
    if operation["op"] == "remove" {
        parent.remove(&name);
    } else {
        parent.insert(name, operation["value"].clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::registry::Registry;
    use crate::handler::registry::callback::handler;

    fn object(size: u32) -> Value {
        json!({
            "apiVersion": "kopf.dev/v1",
            "kind": "KopfExample",
            "metadata": {"name": "one", "namespace": "default"},
            "spec": {"size": size},
        })
    }

    #[test]
    fn the_plural_is_that_of_derived_kinds() {
        for (kind, plural) in [("Policy", "policies"), ("Box", "boxes"), ("Demo", "demos")] {
            assert_eq!(review(json!({"kind": kind})).plural, plural);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn mutating_handlers_come_first_and_see_earlier_changes() {
        let registry = Registry::new()
            .on_validate(
                "kopfexamples",
                handler("v", |cause| async move {
                    cause.warnings().push(format!("{}", cause.body().spec()));
                    Ok(())
                }),
            )
            .on_mutate(
                "kopfexamples",
                handler("first", |cause| async move {
                    cause.patch(|patch| patch.set("metadata.labels.a.b/c", "x"));
                    Ok(())
                }),
            )
            .on_mutate(
                "kopfexamples",
                handler("second", |cause| async move {
                    let label = cause.labels().get("a.b/c").is_some();
                    cause.patch(|patch| patch.set("spec.labelled", label));
                    Ok(())
                }),
            )
            .on_validate(
                "pods",
                handler("other", |cause| async move {
                    assert!(cause.name().is_empty(), "not asked");
                    Ok(())
                }),
            );
        let reviewed = review(object(1)).by(registry).await;
        assert!(reviewed.is_allowed, "{reviewed:?}");
        assert_eq!(reviewed.object["spec"], json!({"size": 1, "labelled": true}));
        assert_eq!(reviewed.warnings, [r#"{"labelled":true,"size":1}"#]);
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "the handler at /mutate/more changes its own result again")]
    async fn a_handler_that_is_not_idempotent_is_reported() {
        let more = handler("more", |cause| async move {
            let size = cause.body().spec()["size"].as_u64().unwrap_or_default();
            cause.patch(|patch| patch.set("spec.size", size + 1));
            Ok(())
        });
        let registry = Registry::new().on_mutate("kopfexamples", more);
        review(object(1)).by(registry).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_reported_with_the_name_of_the_handler() {
        let panics = handler("v", |cause| async move {
            assert!(cause.name().is_empty(), "oops");
            Ok(())
        });
        let registry = Registry::new().on_validate("kopfexamples", panics);
        let deletion = review(object(1)).delete().dry_run();
        let reviewed = deletion.by(registry).await;
        assert_eq!((reviewed.is_allowed, reviewed.code), (false, 500));
        assert!(reviewed.message.contains("'v' has panicked"), "{reviewed:?}");
    }
}
