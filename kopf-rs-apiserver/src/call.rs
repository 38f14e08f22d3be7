//! One HTTP request, understood: verb, target, query, accepted form, body.
//!
//! Promise: no I/O and no store; the same request always becomes the same call. Must not know whether the target exists.

pub(crate) mod go;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use bytes::Bytes;
use http::{HeaderMap, Method, header, request::Parts};
use serde_json::Value;

use crate::object::Body;
use crate::status::{Cause, Refusal, options};
use crate::typed::proto;

/// How Go's clients send objects of kinds that come with the server.
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// What a request wants, in Kubernetes' words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// Read one object, or a page that is no object.
    Get,
    /// Read a collection.
    List,
    /// Follow a collection.
    Watch,
    /// `POST` to a collection.
    Create,
    /// `PUT` to an object.
    Update,
    /// `PATCH` to an object.
    Patch,
    /// `DELETE` of one object.
    Delete,
    /// `DELETE` of a collection.
    DeleteCollection,
    /// Anything else: discovery, health, unknown paths.
    Other,
}

/// Where a request goes, if it goes to a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
}

/// The form the answer is wanted in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    #[default]
    Whole,
    Table,
    Partial,
    /// Aggregated discovery, `v2` or `v2beta1`.
    Aggregated(&'static str),
}

/// What to do about fields that nobody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnknownFields {
    Warn,
    Ignore,
    Refuse,
}

/// A body that is an object, and the fields that are in it more than once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Document {
    pub(crate) body: Body,
    pub(crate) twice: Vec<String>,
}

/// The type a body should have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) builtin: bool,
}

// === impl UnknownFields ===

impl UnknownFields {
    /// The warnings for such complaints, or why they are a refusal.
    pub(crate) fn judge(self, complaints: Vec<String>) -> Result<Vec<String>, String> {
        match self {
            Self::Ignore => Ok(Vec::new()),
            Self::Refuse if !complaints.is_empty() => {
                Err(format!("strict decoding error: {}", complaints.join(", ")))
            }
            Self::Warn | Self::Refuse => Ok(complaints),
        }
    }
}

/// A request, understood.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) raw_path: String,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) verb: Verb,
    /// The segments of the path, decoded.
    pub(crate) segments: Vec<String>,
    pub(crate) path: Option<Path>,
    pub(crate) form: Option<Form>,
    pub(crate) content_type: Option<String>,
    pub(crate) user_agent: Option<String>,
    pub(crate) authorization: Option<String>,
    pub(crate) body: Bytes,
}

// === impl Call ===

impl Call {
    pub(crate) fn new(parts: &Parts, body: Bytes) -> Self {
        let raw_path = parts.uri.path().to_owned();
        let mut segments: Vec<String> = raw_path
            .split('/')
            .filter(|part| !part.is_empty())
            .map(|part| decode(part, false))
            .collect();
        let query = parse_query(parts.uri.query().unwrap_or_default());
        let watched = legacy_watch(&mut segments);
        let path = resource_path(&segments);
        let wants_watch = watched
            || query
                .iter()
                .any(|(key, value)| key == "watch" && !matches!(value.as_str(), "false" | "0"));
        Self {
            verb: verb_of(&parts.method, path.as_ref(), wants_watch, watched),
            method: parts.method.clone(),
            raw_path,
            query,
            segments,
            path,
            form: accepted(&parts.headers),
            content_type: header_text(&parts.headers, &header::CONTENT_TYPE),
            user_agent: header_text(&parts.headers, &header::USER_AGENT),
            authorization: header_text(&parts.headers, &header::AUTHORIZATION),
            body,
        }
    }

    /// A query parameter, empty if absent.
    pub(crate) fn param(&self, key: &str) -> &str {
        self.query
            .iter()
            .find(|(found, _)| found == key)
            .map_or("", |(_, value)| value)
    }

    /// A query parameter that is a switch.
    pub(crate) fn switch(&self, key: &str) -> bool {
        let given = self.query.iter().find(|(found, _)| found == key);
        given.is_some_and(|(_, value)| !matches!(value.as_str(), "false" | "0"))
    }

    /// The media type of the body, without parameters.
    pub(crate) fn media_type(&self) -> &str {
        let given = self.content_type.as_deref().unwrap_or_default();
        given.split(';').next().unwrap_or_default().trim()
    }

    /// The body as a JSON map, from JSON, YAML or (for kinds that come with the server) protobuf.
    pub(crate) fn object(&self, wanted: Wanted<'_>) -> Result<Document, Refusal> {
        let word = wanted.kind;
        let (value, twice) = match self.media_type() {
            "" | "application/json" | "*/*" => go::parse_noting(&self.body).map_err(|why| {
                let why = format!("couldn't get version/kind; json parse error: {why}");
                self.unrecognised(word, &why)
            })?,
            "application/yaml" => (self.yaml()?, Vec::new()),
            PROTOBUF if wanted.builtin => {
                let body = proto::decode(&self.body, wanted.api_version, word)
                    .map_err(|why| self.unrecognised(word, &why.to_string()))?;
                (Value::Object(body), Vec::new())
            }
            _ => {
                // The real server names all three for custom kinds too.
                return Err(Refusal::unsupported_media(&[
                    "application/json",
                    "application/yaml",
                    PROTOBUF,
                ]));
            }
        };
        match value {
            Value::Object(body) => Ok(Document { body, twice }),
            Value::Null => Ok(Document::default()),
            other => {
                let found = crate::rules::go_type(&other);
                Err(self.unrecognised(word, &format!(
                    "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go value of type struct {{ \
                     APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
                )))
            }
        }
    }

    /// What there is to say of unknown fields and of those that are there twice, in the order of the body.
    pub(crate) fn complaints(&self, mut unknown: Vec<String>, twice: &[String]) -> Vec<String> {
        let told = |what: &str, path: &str| format!("{what} field {path:?}");
        if unknown.is_empty() {
            return twice.iter().map(|path| told("duplicate", path)).collect();
        }
        let mut complaints = Vec::new();
        // A patch says nothing of the order of the object it makes.
        if self.verb != Verb::Patch && !self.media_type().ends_with("yaml") {
            let mut seen = BTreeSet::new();
            for path in go::paths(&self.body) {
                let first = seen.insert(path.clone());
                if unknown.contains(&path) {
                    if first {
                        complaints.push(told("unknown", &path));
                    }
                } else if !first && twice.contains(&path) {
                    complaints.push(told("duplicate", &path));
                }
            }
            unknown.retain(|path| !seen.contains(path));
        }
        unknown.sort();
        complaints.extend(unknown.iter().map(|path| told("unknown", path)));
        complaints
    }

    /// A body that is no object of that kind, with its beginning for the reader.
    pub(crate) fn unrecognised(&self, word: &str, reason: &str) -> Refusal {
        let start = &self.body[..self.body.len().min(30)];
        let more = if start.len() < self.body.len() {
            " ..."
        } else {
            ""
        };
        let shown = match start.first() {
            None => "<empty>".to_owned(),
            Some(b'{') => format!("{}{more}", String::from_utf8_lossy(start)),
            Some(_) => {
                let mut hex = String::with_capacity(64);
                for byte in start {
                    // Writing to a String cannot fail.
                    let _infallible = write!(hex, "{byte:02x}");
                }
                hex + more
            }
        };
        Refusal::bad_request(format!(
            "the object provided is unrecognized (must be of type {word}): {reason} ({shown})"
        ))
    }

    /// The body as YAML.
    pub(crate) fn yaml(&self) -> Result<Value, Refusal> {
        let text = std::str::from_utf8(&self.body)
            .map_err(|error| Refusal::bad_request(format!("error decoding YAML: {error}")))?;
        // Not strict: the real server takes `y` and `no` for booleans, as YAML 1.1 does.
        let options = serde_saphyr::options! {
            duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
        };
        serde_saphyr::from_str_with_options(text, options)
            .map_err(|error| Refusal::bad_request(format!("error decoding YAML: {error}")))
    }

    /// Whether nothing is to be persisted.
    pub(crate) fn dry_run(&self) -> Result<bool, Refusal> {
        match self.param("dryRun") {
            "" => Ok(false),
            "All" => Ok(true),
            other => Err(self.unsupported("dryRun", &format!("[{other:?}]"), "\"All\"")),
        }
    }

    /// Who says to write, else what the client calls itself.
    pub(crate) fn manager(&self) -> Result<String, Refusal> {
        let given = self.param("fieldManager");
        if given.is_empty() {
            let agent = self.user_agent.as_deref().unwrap_or_default();
            let name = agent.split('/').next().unwrap_or_default();
            let printable = name.chars().filter(|letter| !letter.is_control());
            return Ok(printable.take(128).collect());
        }
        let wrong = given.chars().position(char::is_control);
        let cause = if given.len() > 128 {
            let message = "Too long: may not be more than 128 bytes";
            Cause::new("FieldValueTooLong", "fieldManager", message)
        } else if let Some(at) = wrong {
            let letter = given.chars().nth(at).map_or(0, u32::from);
            let message = format!("invalid character U+{letter:04X} (at position {at})");
            Cause::invalid("fieldManager", &given.into(), &message)
        } else {
            return Ok(given.to_owned());
        };
        Err(self.bad_options(&[cause]))
    }

    /// What to do about fields that nobody knows.
    pub(crate) fn unknown_fields(&self) -> Result<UnknownFields, Refusal> {
        match self.param("fieldValidation") {
            "" | "Warn" => Ok(UnknownFields::Warn),
            "Ignore" => Ok(UnknownFields::Ignore),
            "Strict" => Ok(UnknownFields::Refuse),
            other => Err(self.unsupported(
                "fieldValidation",
                &format!("{other:?}"),
                "\"\", \"Ignore\", \"Strict\", \"Warn\"",
            )),
        }
    }

    fn unsupported(&self, field: &str, given: &str, supported: &str) -> Refusal {
        let message = format!("Unsupported value: {given}: supported values: {supported}");
        self.bad_options(&[Cause::new("FieldValueNotSupported", field, message)])
    }

    /// What is wrong with the options of a request.
    pub(crate) fn bad_options(&self, causes: &[Cause]) -> Refusal {
        let word = match self.verb {
            Verb::Create => "CreateOptions",
            Verb::Update => "UpdateOptions",
            Verb::Patch => "PatchOptions",
            _ => "DeleteOptions",
        };
        Refusal::invalid(options(word), causes)
    }
}

fn header_text(headers: &HeaderMap, name: &header::HeaderName) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}

/// Take out the `watch` of paths like `/api/v1/watch/pods`.
fn legacy_watch(segments: &mut Vec<String>) -> bool {
    let at = match segments.first().map(String::as_str) {
        Some("api") => 2,
        Some("apis") => 3,
        _ => return false,
    };
    let found = segments.get(at).is_some_and(|word| word == "watch") && segments.len() > at + 1;
    if found {
        segments.remove(at);
    }
    found
}

fn resource_path(segments: &[String]) -> Option<Path> {
    let (group, version, rest) = match segments {
        [api, version, rest @ ..] if api == "api" => ("", version, rest),
        [apis, group, version, rest @ ..] if apis == "apis" => (group.as_str(), version, rest),
        _ => return None,
    };
    let mut path = Path {
        group: group.to_owned(),
        version: version.clone(),
        ..Path::default()
    };
    let rest = match rest {
        [word, namespace, plural, rest @ ..]
            if word == "namespaces" && !is_namespace_subresource(group, plural, rest) =>
        {
            path.namespace = Some(namespace.clone());
            path.plural.clone_from(plural);
            rest
        }
        [plural, rest @ ..] => {
            path.plural.clone_from(plural);
            rest
        }
        [] => return None,
    };
    match rest {
        [] => {}
        [name] => path.name = Some(name.clone()),
        [name, sub @ ..] => {
            path.name = Some(name.clone());
            path.subresource = Some(sub.join("/"));
        }
    }
    Some(path)
}

fn is_namespace_subresource(group: &str, word: &str, rest: &[String]) -> bool {
    group.is_empty() && rest.is_empty() && matches!(word, "status" | "finalize")
}

/// A named object is watched only by the path that says so; elsewhere the parameter means nothing.
fn verb_of(method: &Method, path: Option<&Path>, watch: bool, legacy: bool) -> Verb {
    let Some(path) = path else {
        return Verb::Other;
    };
    let named = path.name.is_some();
    match (method.as_str(), named) {
        ("GET" | "HEAD", true) if legacy && path.subresource.is_none() => Verb::Watch,
        ("GET" | "HEAD", true) => Verb::Get,
        ("GET" | "HEAD", false) if watch => Verb::Watch,
        ("GET" | "HEAD", false) => Verb::List,
        ("POST", _) => Verb::Create,
        ("PUT", true) => Verb::Update,
        ("PATCH", true) => Verb::Patch,
        ("DELETE", true) => Verb::Delete,
        ("DELETE", false) => Verb::DeleteCollection,
        _ => Verb::Other,
    }
}

fn parse_query(text: &str) -> Vec<(String, String)> {
    text.split('&')
        .filter(|part| !part.is_empty())
        .map(|part| {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            (decode(key, true), decode(value, true))
        })
        .collect()
}

/// Undo percent encoding; in queries `+` is a space.
fn decode(text: &str, query: bool) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        let code = bytes
            .get(at + 1..at + 3)
            .filter(|_| byte == b'%')
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        if let Some(code) = code {
            decoded.push(code);
            at += 3;
        } else {
            decoded.push(if query && byte == b'+' { b' ' } else { byte });
            at += 1;
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// The first accepted form this server can give; `None` if there is none.
fn accepted(headers: &HeaderMap) -> Option<Form> {
    let Some(accept) = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()) else {
        return Some(Form::Whole);
    };
    accept.split(',').find_map(form_of)
}

fn form_of(media: &str) -> Option<Form> {
    let mut parts = media.split(';').map(str::trim);
    if !matches!(parts.next()?, "application/json" | "*/*" | "application/*") {
        return None;
    }
    let params: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
    let get = |key: &str| params.iter().find(|(k, _)| *k == key).map(|(_, v)| *v);
    match (get("as"), get("g"), get("v")) {
        (None, _, _) => Some(Form::Whole),
        (Some("Table"), Some("meta.k8s.io"), Some("v1" | "v1beta1")) => Some(Form::Table),
        (
            Some("PartialObjectMetadata" | "PartialObjectMetadataList"),
            Some("meta.k8s.io"),
            Some("v1" | "v1beta1"),
        ) => Some(Form::Partial),
        (Some("APIGroupDiscoveryList"), Some("apidiscovery.k8s.io"), Some("v2")) => {
            Some(Form::Aggregated("v2"))
        }
        (Some("APIGroupDiscoveryList"), Some("apidiscovery.k8s.io"), Some("v2beta1")) => {
            Some(Form::Aggregated("v2beta1"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(method: &str, uri: &str) -> Call {
        let request = http::Request::builder()
            .method(method)
            .uri(uri)
            .body(())
            .unwrap();
        Call::new(&request.into_parts().0, Bytes::new())
    }

    #[test]
    fn paths_by_table() {
        for line in [
            "GET /api/v1/pods List pods - - -",
            "GET /api/v1/pods?watch=1 Watch pods - - -",
            "GET /api/v1/watch/pods Watch pods - - -",
            "GET /api/v1/namespaces/a Get namespaces - a -",
            "PUT /api/v1/namespaces/a/status Update namespaces - a status",
            "POST /api/v1/namespaces/a/pods Create pods a - -",
            "PATCH /apis/g/v1/namespaces/a/ws/n%2Dm/status Patch ws a n-m status",
            "DELETE /apis/g/v1/ws DeleteCollection ws - - -",
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            let call = call(words[0], words[1]);
            let path = call.path.unwrap();
            let shown = |part: Option<String>| part.unwrap_or_else(|| "-".to_owned());
            let found = [
                format!("{:?}", call.verb),
                path.plural,
                shown(path.namespace),
                shown(path.name),
                shown(path.subresource),
            ];
            assert_eq!(found.as_slice(), &words[2..], "{line}");
        }
        assert_eq!(call("GET", "/apis/g/v1").path, None);
    }

    #[test]
    fn the_first_form_that_can_be_given_is_given() {
        assert_eq!(form_of("application/vnd.kubernetes.protobuf"), None);
        assert_eq!(
            form_of(" application/json;as=Table;v=v1;g=meta.k8s.io"),
            Some(Form::Table)
        );
        assert_eq!(form_of("application/json"), Some(Form::Whole));
    }
}
