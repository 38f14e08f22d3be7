//! Operators, including `in`.
//!
//! An arithmetic overflow is an error. Independent of variables.

use std::cmp::Ordering;

use crate::cel::value::{Fault, Outcome, Value, compare, equal};

/// Applies an operator, or returns `None` if it is not one or does not take these operands.
pub(super) fn call<'a>(name: &str, given: &[Value<'a>]) -> Option<Outcome<'a>> {
    let overflow = || Fault::told("integer overflow");
    Some(match (name, given) {
        ("!_", [Value::Bool(truth)]) => Ok(Value::Bool(!truth)),
        ("-_", [Value::Int(number)]) => number.checked_neg().map(Value::Int).ok_or_else(overflow),
        ("-_", [Value::Double(number)]) => Ok(Value::Double(-number)),
        ("-_", [Value::Duration(nanos)]) => nanos
            .checked_neg()
            .map(Value::Duration)
            .ok_or_else(overflow),
        ("_==_", [one, other]) => equal(one, other).map(Value::Bool),
        // A comparison that fails counts as unequal.
        ("_!=_", [one, other]) => Ok(Value::Bool(equal(one, other) != Ok(true))),
        ("_<_" | "_<=_" | "_>_" | "_>=_", [one, other]) => match compare(one, other) {
            Ok(order) => Ok(Value::Bool(ordered(name, order?))),
            Err(why) => Err(why),
        },
        ("@in", [item, list @ (Value::List(_) | Value::Map(_))]) => contains(item, list),
        (_, [one, other]) => return arithmetic(name, one, other),
        _ => return None,
    })
}

fn ordered(name: &str, order: Ordering) -> bool {
    match name {
        "_<_" => order.is_lt(),
        "_<=_" => order.is_le(),
        "_>_" => order.is_gt(),
        _ => order.is_ge(),
    }
}

/// Returns true if the list contains the item, or the map the key.
pub(super) fn contains<'a>(item: &Value<'_>, of: &Value<'_>) -> Outcome<'a> {
    let list = match of {
        Value::List(list) => list,
        Value::Map(map) => return Ok(Value::Bool(map.find(item)?.is_some())),
        _ => return Err(Fault::told("no such overload")),
    };
    let mut fault = None;
    for found in list.iter() {
        match found.and_then(|found| equal(&found, item)) {
            Ok(true) => return Ok(Value::Bool(true)),
            Ok(false) => {}
            Err(why) => fault = fault.or(Some(why)),
        }
    }
    fault.map_or(Ok(Value::Bool(false)), Err)
}

fn arithmetic<'a>(name: &str, one: &Value<'a>, other: &Value<'a>) -> Option<Outcome<'a>> {
    Some(match (one, other) {
        (Value::Int(one), Value::Int(other)) => ints(name, *one, *other)?.map(Value::Int),
        (Value::Uint(one), Value::Uint(other)) => uints(name, *one, *other)?.map(Value::Uint),
        (Value::Double(one), Value::Double(other)) => Ok(Value::Double(match name {
            "_+_" => one + other,
            "_-_" => one - other,
            "_*_" => one * other,
            "_/_" => one / other,
            _ => return None,
        })),
        (Value::Text(one), Value::Text(other)) if name == "_+_" => {
            Ok(Value::text(format!("{one}{other}")))
        }
        (Value::Bytes(one), Value::Bytes(other)) if name == "_+_" => {
            Ok(Value::Bytes([&one[..], &other[..]].concat().into()))
        }
        _ => return times(name, one, other),
    })
}

fn ints(name: &str, one: i64, other: i64) -> Option<Result<i64, Fault>> {
    let made = match name {
        "_+_" => one.checked_add(other),
        "_-_" => one.checked_sub(other),
        "_*_" => one.checked_mul(other),
        "_/_" if other == 0 => return Some(Err(Fault::told("division by zero"))),
        "_/_" => one.checked_div(other),
        "_%_" if other == 0 => return Some(Err(Fault::told("modulus by zero"))),
        "_%_" => one.checked_rem(other),
        _ => return None,
    };
    Some(made.ok_or_else(|| Fault::told("integer overflow")))
}

fn uints(name: &str, one: u64, other: u64) -> Option<Result<u64, Fault>> {
    let made = match name {
        "_+_" => one.checked_add(other),
        "_-_" => one.checked_sub(other),
        "_*_" => one.checked_mul(other),
        "_/_" if other == 0 => return Some(Err(Fault::told("division by zero"))),
        "_/_" => Some(one / other),
        "_%_" if other == 0 => return Some(Err(Fault::told("modulus by zero"))),
        "_%_" => Some(one % other),
        _ => return None,
    };
    Some(made.ok_or_else(|| Fault::told("unsigned integer overflow")))
}

fn times<'a>(name: &str, one: &Value<'a>, other: &Value<'a>) -> Option<Outcome<'a>> {
    let late = || Fault::told("timestamp overflow");
    let long = || Fault::told("integer overflow");
    Some(match (name, one, other) {
        ("_+_", Value::Duration(one), Value::Duration(other)) => one
            .checked_add(*other)
            .map(Value::Duration)
            .ok_or_else(long),
        ("_-_", Value::Duration(one), Value::Duration(other)) => one
            .checked_sub(*other)
            .map(Value::Duration)
            .ok_or_else(long),
        ("_+_", Value::Timestamp(moment), Value::Duration(nanos))
        | ("_+_", Value::Duration(nanos), Value::Timestamp(moment)) => {
            moment.plus(*nanos).map(Value::Timestamp).ok_or_else(late)
        }
        ("_-_", Value::Timestamp(moment), Value::Duration(nanos)) => match nanos.checked_neg() {
            Some(nanos) => moment.plus(nanos).map(Value::Timestamp).ok_or_else(late),
            None => Err(long()),
        },
        ("_-_", Value::Timestamp(one), Value::Timestamp(other)) => {
            one.since(*other).map(Value::Duration).ok_or_else(long)
        }
        _ => return None,
    })
}
