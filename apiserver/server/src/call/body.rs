//! Parses the body of a request as an object, and collects complaints about its text.
//!
//! Guarantees the real server's messages. Must not depend on the meaning of objects.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::Value;

use super::{Call, Verb, go, yaml};
use crate::object::Body;
use crate::status::Refusal;
use crate::typed::proto;

/// The format in which Go clients send built-in kinds.
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// A body that is an object, and its duplicate fields: their paths, or the complete messages for YAML.
#[derive(Clone, Debug, Default)]
pub(crate) struct Document {
    pub(crate) body: Body,
    pub(crate) twice: Vec<String>,
}

/// The type that a body must have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) builtin: bool,
}

// === impl Call ===

impl Call {
    /// Returns the media type of the body without parameters.
    pub(crate) fn media_type(&self) -> &str {
        let given = self.content_type.as_deref().unwrap_or_default();
        given.split(';').next().unwrap_or_default().trim()
    }

    /// Returns the body as a JSON map; reads JSON, YAML and, for built-in kinds, protobuf.
    pub(crate) fn object(&self, wanted: Wanted<'_>) -> Result<Document, Refusal> {
        let word = wanted.kind;
        let media = self.media_type().to_ascii_lowercase();
        let (value, twice) = match media.as_str() {
            "" | "application/json" => go::parse_noting(&self.body).map_err(|why| {
                let why = format!("couldn't get version/kind; json parse error: {why}");
                self.unrecognised(word, &why)
            })?,
            "application/yaml" => self.yaml()?,
            PROTOBUF if wanted.builtin => {
                let body = proto::decode(&self.body, wanted.api_version, word)
                    .map_err(|why| self.unrecognised(word, &why.to_string()))?;
                (Value::Object(body), Vec::new())
            }
            _ => {
                // The real server names all three for custom kinds, too.
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

    /// Returns the complaints about unknown and duplicate fields: in the order of the body for built-in kinds, in the order of discovery
    /// for others.
    pub(crate) fn complaints(
        &self,
        mut unknown: Vec<String>,
        twice: &[String],
        builtin: bool,
    ) -> Vec<String> {
        let told = |what: &str, path: &str| format!("{what} field {path:?}");
        if self.media_type().eq_ignore_ascii_case("application/yaml") {
            unknown.sort();
            let unknown = unknown.iter().map(|path| told("unknown", path));
            return twice.iter().cloned().chain(unknown).collect();
        }
        if unknown.is_empty() || !builtin {
            let twice = twice.iter().map(|path| told("duplicate", path));
            return twice
                .chain(unknown.iter().map(|path| told("unknown", path)))
                .collect();
        }
        let mut complaints = Vec::new();
        // The order of a patch says nothing about the order of the patched object.
        if self.verb != Verb::Patch {
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

    /// Returns the refusal of a body that is not an object of this kind; quotes its beginning.
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
                    // Writing to a `String` cannot fail.
                    let _infallible = write!(hex, "{byte:02x}");
                }
                hex + more
            }
        };
        Refusal::bad_request(format!(
            "the object provided is unrecognized (must be of type {word}): {reason} ({shown})"
        ))
    }

    /// Parses the body as YAML; also returns the messages about duplicate fields.
    pub(crate) fn yaml(&self) -> Result<(Value, Vec<String>), Refusal> {
        let text = std::str::from_utf8(&self.body)
            .map_err(|error| Refusal::bad_request(format!("error decoding YAML: {error}")))?;
        yaml::parse(text)
            .map_err(|error| Refusal::bad_request(format!("error decoding YAML: {error}")))
    }
}
