//! Reads JSON of an object as a type of the user's.
//!
//! A value that does not fit is a permanent error which names the path inside the object. Of a Secret, the error does not repeat the value: it
//! goes to logs and annotations.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::handler::error::{HandlerError, PermanentError};
use crate::object::body::Body;
use crate::object::essence::is_secret;

/// A place in an object.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    pub(crate) body: &'a Body,
    /// With dots; empty for the whole object.
    pub(crate) path: &'a str,
}

/// What an absent datum is read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// `null`, or an empty map for types that refuse `null`: a missing stanza is an empty one, as in Kopf.
    Empty,
    /// Only `null`.
    Null,
}

/// A stanza, if it is there.
pub(crate) fn stanza(value: &Value) -> Option<&Value> {
    (!value.is_null()).then_some(value)
}

/// Deserialize what stands there.
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
            (path, inside) => format!(
                "{path}{}{inside}",
                if inside.starts_with('[') { "" } else { "." }
            ),
        };
        let mut complaint = error.inner().to_string();
        if is_secret(at.body) {
            complaint = without_value(&complaint);
        }
        PermanentError::new(format!("{place}: {}", plain_words(&complaint))).into()
    })
}

/// The complaint without what was found. The name of a missing field is one of the type, not of the object.
fn without_value(complaint: &str) -> String {
    const FOUND: &str = "a value that is not shown, since the object is a Secret";
    if complaint.starts_with("missing field ") {
        return complaint.to_owned();
    }
    match complaint.rsplit_once(", expected ") {
        Some((_, expected)) => format!("expected {expected}, found {FOUND}"),
        None => format!("found {FOUND}, and that does not fit"),
    }
}

/// serde's "invalid type: integer `5`, expected a string" the other way round: "expected a string, found integer `5`".
fn plain_words(complaint: &str) -> String {
    let found = complaint
        .strip_prefix("invalid type: ")
        .or_else(|| complaint.strip_prefix("invalid value: "));
    match found.and_then(|rest| rest.split_once(", expected ")) {
        Some((found, expected)) => format!("expected {expected}, found {found}"),
        None => complaint.to_owned(),
    }
}
