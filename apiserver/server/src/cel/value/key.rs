//! The keys of maps that expressions create.
//!
//! Numeric keys match regardless of their type. Independent of maps.

use super::{Fault, Value};

/// A key of a map that an expression creates.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Text(String),
}

// === impl Key ===

impl Key {
    pub(in crate::cel) fn of(value: &Value<'_>) -> Result<Self, Fault> {
        Ok(match value {
            Value::Bool(truth) => Self::Bool(*truth),
            Value::Int(number) => Self::Int(*number),
            Value::Uint(number) => Self::Uint(*number),
            Value::Text(text) => Self::Text(text.to_string()),
            other => {
                let why = format!("unsupported key type: {}", other.type_name());
                return Err(Fault::Told(why));
            }
        })
    }

    /// Returns the keys that a value may match: a number matches keys of all numeric types.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::float_cmp,
        clippy::cast_precision_loss,
        reason = "only a number that comes through whole is one"
    )]
    pub(super) fn found(value: &Value<'_>) -> Vec<Self> {
        let whole = |number: i64| {
            let positive = u64::try_from(number).ok().map(Self::Uint);
            [Some(Self::Int(number)), positive]
                .into_iter()
                .flatten()
                .collect()
        };
        match value {
            Value::Int(number) => whole(*number),
            Value::Uint(number) => match i64::try_from(*number) {
                Ok(number) => whole(number),
                Err(_) => vec![Self::Uint(*number)],
            },
            Value::Double(number) if (*number as i64) as f64 == *number => whole(*number as i64),
            other => Self::of(other).into_iter().collect(),
        }
    }

    pub(super) fn value<'a>(self) -> Value<'a> {
        match self {
            Self::Bool(truth) => Value::Bool(truth),
            Self::Int(number) => Value::Int(number),
            Self::Uint(number) => Value::Uint(number),
            Self::Text(text) => Value::text(text),
        }
    }
}
