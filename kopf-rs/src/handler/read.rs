//! Deserializes the JSON of an object into a user's type, and writes such types as JSON.
//!
//! A mismatch is a permanent error that names the path inside the object; in a deletion, `engine::invoke` changes
//! that. For a Secret, the error redacts the value, since errors go to logs and annotations.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::handler::error::{HandlerError, PermanentError};
use crate::object::body::Body;
use crate::object::essence::is_secret;

/// A position in an object.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    pub(crate) body: &'a Body,
    /// Dotted path; empty for the whole object.
    pub(crate) path: &'a str,
}

/// The value that stands in for an absent datum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// `null`, or an empty map for types that reject `null`. As in Kopf, a missing stanza is an empty one.
    Empty,
    /// Only `null`.
    Null,
}

/// Returns the stanza if it is present.
pub(crate) fn stanza(value: &Value) -> Option<&Value> {
    (!value.is_null()).then_some(value)
}

/// Writes a value of the user as JSON. `what` names it in the error.
pub(super) fn to_json<T: Serialize>(value: &T, what: &str) -> Result<Value, PermanentError> {
    serde_json::to_value(value)
        .map_err(|error| PermanentError::new(format!("{what} cannot be written as JSON: {error}")))
}

/// Deserializes the value at this position.
pub(crate) fn read<T: DeserializeOwned>(
    at: At<'_>,
    value: Option<&Value>,
    absent: Absent,
) -> Result<T, HandlerError> {
    match (value, absent) {
        (Some(value), _) => deserialize(at, value),
        (None, Absent::Null) => deserialize(at, &Value::Null),
        (None, Absent::Empty) => match T::deserialize(&Value::Null) {
            Ok(value) => Ok(value),
            Err(_) => deserialize(at, &Value::Object(Map::new())),
        },
    }
}

fn deserialize<T: DeserializeOwned>(at: At<'_>, value: &Value) -> Result<T, HandlerError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let inside = error.path().to_string();
        let place = match (at.path, inside.as_str()) {
            ("", ".") => "the object".to_owned(),
            (path, ".") => path.to_owned(),
            ("", inside) => inside.to_owned(),
            (path, inside) => format!("{path}{}{inside}", if inside.starts_with('[') { "" } else { "." }),
        };
        let mut complaint = error.inner().to_string();
        if is_secret(at.body) {
            complaint = without_value(&complaint);
        }
        PermanentError::unfit(format!("{place}: {}", plain_words(&complaint))).into()
    })
}

/// Redacts the value in the message. The name of a missing field stays, since it belongs to the type rather than to
/// the object.
fn without_value(complaint: &str) -> String {
    const FOUND: &str = "a value that is not shown, since the object is a Secret";
    if complaint.starts_with("missing field ") {
        return complaint.to_owned();
    }
    match complaint.rsplit_once(", expected ") {
        Some((_, expected)) => format!("expected {expected}, found {FOUND}"),
        None => format!("found {FOUND}, which does not fit"),
    }
}

/// Reorders serde's "invalid type: integer `5`, expected a string" to "expected a string, found integer `5`".
fn plain_words(complaint: &str) -> String {
    let found =
        complaint.strip_prefix("invalid type: ").or_else(|| complaint.strip_prefix("invalid value: "));
    match found.and_then(|rest| rest.split_once(", expected ")) {
        Some((found, expected)) => format!("expected {expected}, found {found}"),
        None => complaint.to_owned(),
    }
}
