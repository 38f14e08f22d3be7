//! Calls functions by name.
//!
//! A function that does not take the given operands is an error. Independent of expression trees and costs.

use super::{convert, kubernetes, lists, operator, texts, times};
use crate::cel::value::{Fault, List, Outcome, Value};

/// Applies a function to its operands.
pub(super) fn apply<'a>(name: &str, method: bool, mut operands: Vec<Value<'a>>) -> Outcome<'a> {
    if let ("_+_", [Value::List(_), Value::List(other)]) = (name, operands.as_slice()) {
        let other: List<'a> = other.clone();
        let Value::List(list) = operands.swap_remove(0) else {
            return Err(Fault::overload(name, &operands));
        };
        return list.joined(&other);
    }
    if name == "cel.@mapInsert" && matches!(operands.first(), Some(Value::Map(_))) {
        return inserted(operands);
    }
    let given = operands.as_slice();
    let found = operator::call(name, given)
        .or_else(|| convert::call(name, method, given))
        .or_else(|| texts::call(name, given))
        .or_else(|| lists::call(name, given))
        .or_else(|| times::call(name, given))
        .or_else(|| kubernetes::call(name, given));
    found.unwrap_or_else(|| Err(Fault::overload(name, given)))
}

/// Returns the map with one more entry, or with the entries of another map.
fn inserted(operands: Vec<Value<'_>>) -> Outcome<'_> {
    let mut operands = operands.into_iter();
    match (operands.next(), operands.next(), operands.next()) {
        (Some(Value::Map(map)), Some(key), Some(of)) => map.insert(&key, of),
        (Some(mut map), Some(Value::Map(more)), None) => {
            for key in more.keys() {
                let of = more.find(&key)?.unwrap_or(Value::Null);
                if let Value::Map(known) = map {
                    map = known.insert(&key, of)?;
                }
            }
            Ok(map)
        }
        _ => Err(Fault::told("no such overload")),
    }
}
