//! Reads JSON of an object as a type of the user's.
//!
//! A value that does not fit is a permanent error which names the path inside the object.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::handler::error::{HandlerError, PermanentError};

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

/// Deserialize what stands at `path`.
pub(crate) fn read<T: DeserializeOwned>(
    path: &str,
    value: Option<&Value>,
    absent: Absent,
) -> Result<T, HandlerError> {
    match (value, absent) {
        (Some(value), _) => deserialize(path, value),
        (None, Absent::Null) => deserialize(path, &Value::Null),
        (None, Absent::Empty) => match T::deserialize(&Value::Null) {
            Ok(value) => Ok(value),
            Err(_) => deserialize(path, &Value::Object(Map::new())),
        },
    }
}

fn deserialize<T: DeserializeOwned>(path: &str, value: &Value) -> Result<T, HandlerError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let inside = error.path().to_string();
        let place = match (path, inside.as_str()) {
            ("", ".") => "the object".to_owned(),
            (path, ".") => path.to_owned(),
            ("", inside) => inside.to_owned(),
            (path, inside) => format!(
                "{path}{}{inside}",
                if inside.starts_with('[') { "" } else { "." }
            ),
        };
        let complaint = plain_words(&error.inner().to_string());
        PermanentError::new(format!("{place}: {complaint}")).into()
    })
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
