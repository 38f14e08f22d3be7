//! Equality and order of values.
//!
//! Numbers of different types compare by their numeric value. Independent of functions.

use std::cmp::Ordering;

use serde_json::Value as Json;

use super::{Fault, List, Map, Value, given};

/// Returns true if two values are equal.
pub(in crate::cel) fn equal(one: &Value<'_>, other: &Value<'_>) -> Result<bool, Fault> {
    Ok(match (one, other) {
        (Value::Null, Value::Null) => true,
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::Bool(one), Value::Bool(other)) => one == other,
        (
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
        ) => numbers(one, other) == Some(Ordering::Equal),
        (Value::Text(one), Value::Text(other)) => one == other,
        (Value::Bytes(one), Value::Bytes(other)) => one == other,
        (Value::Timestamp(one), Value::Timestamp(other)) => one.at == other.at,
        (Value::Duration(one), Value::Duration(other)) => one == other,
        (Value::Type(one), Value::Type(other)) => one == other,
        (Value::List(one), Value::List(other)) => return lists(one, other),
        (Value::Map(one), Value::Map(other)) => return maps(one, other),
        (Value::Optional(one), Value::Optional(other)) => match (one, other) {
            (None, None) => true,
            (Some(one), Some(other)) => return equal(one, other),
            _ => false,
        },
        (Value::Quantity(one), Value::Quantity(other)) => one == other,
        (Value::Ip(one), Value::Ip(other)) => one == other,
        (Value::Cidr(one, bits), Value::Cidr(other, others)) => one == other && bits == others,
        (Value::Url(one), Value::Url(other)) => one == other,
        (Value::Semver(one), Value::Semver(other)) => one.compare(other) == Ordering::Equal,
        (Value::Format(one), Value::Format(other)) => one.name == other.name,
        (Value::Unknown(one), Value::Unknown(other)) => one == other,
        (Value::List(list), _) if !list.is_made() => return Err(Fault::told("no such overload")),
        (Value::Map(map), _) if !map.is_made() => return Err(Fault::told("no such overload")),
        (Value::Quantity(_) | Value::Ip(_) | Value::Cidr(..), _) => {
            return Err(Fault::told("no such overload"));
        }
        _ => false,
    })
}

fn lists(one: &List<'_>, other: &List<'_>) -> Result<bool, Fault> {
    if one.len() != other.len() {
        return Ok(false);
    }
    let by = one.list_type();
    if by == "set" || by == "map" {
        let (items, keys) = (one.values()?, one.key_fields());
        for item in other.iter() {
            let item = item?;
            let Some(at) = position(&items, &item, by, &keys)? else {
                return Ok(false);
            };
            if by == "map" && !equal(&items[at], &item)? {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    for (one, other) in one.iter().zip(other.iter()) {
        if !equal(&one?, &other?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn maps(one: &Map<'_>, other: &Map<'_>) -> Result<bool, Fault> {
    if one.len() != other.len() {
        return Ok(false);
    }
    if let (
        Map::Given {
            map,
            schema: Some(schema),
            whole,
        },
        Map::Given { map: others, .. },
    ) = (one, other)
    {
        let unseen = |name: &&String| given::part(schema, *whole, name).is_none();
        // Fields that are missing from the schema count only if both objects have them.
        let differ = |name: &String| others.get(name).is_some_and(|found| found != &map[name]);
        if map.keys().filter(unseen).any(differ) {
            return Ok(false);
        }
    }
    for key in one.keys() {
        match (one.find(&key)?, other.find(&key)?) {
            (None, None) => {}
            (Some(one), Some(other)) if equal(&one, &other)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// Returns the index of the item that equals `wanted`, by its keys in a list of type `map`, else as a whole.
pub(super) fn position(
    items: &[Value<'_>],
    wanted: &Value<'_>,
    by: &str,
    keys: &[&str],
) -> Result<Option<usize>, Fault> {
    for (at, item) in items.iter().enumerate() {
        let same = match (by, item, wanted) {
            ("map", Value::Map(item), Value::Map(wanted)) => {
                let raw = |map: &Map<'_>, key: &str| match map {
                    Map::Given { map, .. } => map.get(key).cloned().unwrap_or(Json::Null),
                    Map::Made(_) => Json::Null,
                };
                keys.iter().all(|key| raw(item, key) == raw(wanted, key))
            }
            _ => equal(item, wanted)?,
        };
        if same {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// Compares two numbers; returns `None` if one of them is NaN or not a number.
#[expect(clippy::cast_precision_loss, reason = "as cel-go compares them")]
fn numbers(one: &Value<'_>, other: &Value<'_>) -> Option<Ordering> {
    match (one, other) {
        (Value::Int(one), Value::Int(other)) => Some(one.cmp(other)),
        (Value::Uint(one), Value::Uint(other)) => Some(one.cmp(other)),
        (Value::Int(one), Value::Uint(other)) => Some(i128::from(*one).cmp(&i128::from(*other))),
        (Value::Uint(one), Value::Int(other)) => Some(i128::from(*one).cmp(&i128::from(*other))),
        (Value::Double(one), Value::Double(other)) => one.partial_cmp(other),
        (Value::Double(one), Value::Int(other)) => one.partial_cmp(&(*other as f64)),
        (Value::Double(one), Value::Uint(other)) => one.partial_cmp(&(*other as f64)),
        (Value::Int(one), Value::Double(other)) => (*one as f64).partial_cmp(other),
        (Value::Uint(one), Value::Double(other)) => (*one as f64).partial_cmp(other),
        _ => None,
    }
}

/// Compares two values; returns `None` if they have no order.
pub(in crate::cel) fn compare(
    one: &Value<'_>,
    other: &Value<'_>,
) -> Result<Option<Ordering>, Fault> {
    Ok(Some(match (one, other) {
        (
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
        ) => match numbers(one, other) {
            Some(order) => order,
            None => return Err(Fault::told("NaN values cannot be ordered")),
        },
        (Value::Bool(one), Value::Bool(other)) => one.cmp(other),
        (Value::Text(one), Value::Text(other)) => one.as_bytes().cmp(other.as_bytes()),
        (Value::Bytes(one), Value::Bytes(other)) => one.cmp(other),
        (Value::Timestamp(one), Value::Timestamp(other)) => one.at.cmp(&other.at),
        (Value::Duration(one), Value::Duration(other)) => one.cmp(other),
        _ => return Ok(None),
    }))
}
