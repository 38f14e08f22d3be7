//! Access to fields, items and map values.
//!
//! Access through an optional value returns an optional value. Independent of expression trees.

use crate::cel::value::{Fault, Outcome, Value, shown};

/// Returns the value under a key; an optional value if `of` or the access is optional.
pub(super) fn part_of<'a>(of: &Value<'a>, key: &Value<'_>, optional: bool) -> Outcome<'a> {
    let (of, optional) = match of {
        Value::Optional(None) => return Ok(Value::Optional(None)),
        Value::Optional(Some(inner)) => (&**inner, true),
        of => (of, optional),
    };
    let found = match of {
        Value::Map(map) => map.find(key)?,
        Value::List(list) => match index(key) {
            Some(at) => usize::try_from(at)
                .ok()
                .and_then(|at| list.get(at))
                .transpose()?,
            None => return Err(Fault::Told(format!("unsupported index: {}", shown(key)))),
        },
        _ => None,
    };
    match (found, optional) {
        (Some(found), true) => Ok(Value::some(found)),
        (Some(found), false) => Ok(found),
        (None, true) => Ok(Value::Optional(None)),
        (None, false) => Err(Fault::Told(match of {
            Value::List(_) => format!("index out of bounds: {}", shown(key)),
            _ => format!("no such key: {}", shown(key)),
        })),
    }
}

/// Converts a number to a list index.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::float_cmp,
    reason = "only a float that is whole is a place"
)]
fn index(key: &Value<'_>) -> Option<i64> {
    match key {
        Value::Int(at) => Some(*at),
        Value::Uint(at) => i64::try_from(*at).ok(),
        Value::Double(at) if (*at as i64) as f64 == *at => Some(*at as i64),
        _ => None,
    }
}
