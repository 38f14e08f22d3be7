//! The actual costs of calls, as the real server counts them; they can differ from its estimates.
//!
//! A function that is not listed here costs one. Independent of expression trees.

use crate::cel::value::Value;

/// The cost of creating a list or a map.
pub(super) const LIST: u64 = 10;
pub(super) const MAP: u64 = 30;

const CALL: u64 = 1;
/// The cost of each traversed character.
const LETTER: f64 = 0.1;
/// The cost of each character of a pattern.
const PATTERN: f64 = 0.25;

/// Functions that traverse a string once.
const ONCE_THROUGH: [&str; 16] = [
    "url",
    "lowerAscii",
    "upperAscii",
    "substring",
    "trim",
    "cidr",
    "isIP",
    "isCIDR",
    "quantity",
    "isQuantity",
    "semver",
    "isSemver",
    "startsWith",
    "endsWith",
    "strings.quote",
    "format",
];

/// Returns true if the value has a type that Kubernetes adds.
fn is_special(of: &Value<'_>) -> bool {
    of.type_name().starts_with("kubernetes.") || of.type_name().starts_with("net.")
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the real server does the same"
)]
fn up(size: u64, each: f64) -> u64 {
    (size as f64 * each).ceil() as u64
}

/// Returns the cost of a call that follows from its operands.
pub(super) fn before(name: &str, given: &[Value<'_>]) -> u64 {
    let size = |at: usize| given.get(at).map_or(0, Value::size);
    let letters = |at: usize| up(size(at), LETTER);
    match (name, given) {
        ("join" | "slice" | "reverse", _) => 0,
        ("lists.range", [Value::Int(count)]) => allocated(u64::try_from(*count).unwrap_or(0), 1),
        ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", [of, ..]) => traversed(of),
        (name, _) if ONCE_THROUGH.contains(&name) => letters(0),
        ("ip" | "bytes", [Value::Text(_)]) | ("string", [Value::Bytes(_)]) => letters(0),
        ("replace" | "split" | "ip.isCanonical", _) => up(size(0), 2.0 * LETTER),
        ("find" | "findAll" | "matches", _) => searched(size(0), size(1)),
        ("validate", [Value::Format(format), _]) => searched(size(1), format.pattern),
        ("containsIP", [Value::Cidr(..), other]) => up(2 * size(0), LETTER) + parsed(other),
        ("containsCIDR", [Value::Cidr(..), other]) => {
            up(2 * size(0), LETTER) + letters(0) + 1 + parsed(other)
        }
        ("contains", _) => letters(0).saturating_mul(letters(1)),
        ("@in", [_, Value::List(_)]) => size(1),
        ("_==_", [one, _]) if is_special(one) => CALL,
        ("_==_" | "_!=_", _)
        | ("_<_" | "_<=_" | "_>_" | "_>=_", [Value::Text(_) | Value::Bytes(_), _]) => {
            up(size(0).min(size(1)), LETTER)
        }
        ("_+_", [Value::Text(_) | Value::Bytes(_), _]) => up(size(0) + size(1), LETTER),
        ("flatten", [_, Value::Int(depth)]) => {
            allocated(size(0), u64::try_from(*depth).unwrap_or(0))
        }
        ("flatten", _) => allocated(size(0), 1),
        ("distinct" | "sort", [Value::List(_)]) => compared(&given[0]),
        ("@sortByAssociatedKeys", [_, keys]) => compared(keys),
        ("sets.contains" | "sets.intersects", _) => CALL + size(0).saturating_mul(size(1)),
        ("sets.equivalent", _) => CALL + size(0).saturating_mul(size(1)).saturating_mul(2),
        _ => CALL,
    }
}

/// Returns the additional cost of a call that follows from its result.
pub(super) fn after(name: &str, made: &Value<'_>) -> u64 {
    match name {
        "join" => up(made.size(), 2.0 * LETTER),
        "slice" | "reverse" => allocated(made.size(), 1),
        _ => 0,
    }
}

fn allocated(size: u64, each: u64) -> u64 {
    size.saturating_mul(each).saturating_add(CALL + LIST)
}

/// Returns the cost of comparing all items of a list with each other.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the real server does the same"
)]
fn compared(list: &Value<'_>) -> u64 {
    let Value::List(items) = list else {
        return CALL;
    };
    let long = matches!(items.get(0), Some(Ok(Value::Text(_) | Value::Bytes(_))));
    let each = if long { 2.0 + LETTER } else { 2.0 };
    let pairs = list.size().saturating_mul(list.size());
    (pairs as f64 * each) as u64 + CALL + LIST
}

/// Returns the cost of traversing a value, including nested values.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the real server does the same"
)]
fn traversed(of: &Value<'_>) -> u64 {
    match of {
        Value::Text(text) => (text.len() as f64 * LETTER) as u64,
        Value::Bytes(octets) => (octets.len() as f64 * LETTER) as u64,
        Value::List(list) => list.iter().flatten().map(|item| traversed(&item)).sum(),
        Value::Map(map) => {
            let keys = map.keys().into_iter();
            let of = |key: &Value<'_>| map.find(key).ok().flatten();
            keys.map(|key| traversed(&key) + of(&key).map_or(0, |of| traversed(&of)))
                .sum()
        }
        _ => CALL,
    }
}

fn searched(text: u64, pattern: u64) -> u64 {
    up(text.saturating_add(1), LETTER).saturating_mul(up(pattern, PATTERN))
}

/// Returns the cost of parsing an operand that is given as a string.
fn parsed(other: &Value<'_>) -> u64 {
    match other {
        Value::Text(_) => up(other.size(), LETTER),
        _ => 0,
    }
}
