//! Functions of lists, sets and optional values.
//!
//! Never changes a list; returns a new one. Independent of strings.

use std::cmp::Ordering;
use std::rc::Rc;

use super::operator;
use crate::cel::value::{Fault, List, Outcome, Value, compare, equal};

/// Applies a function of lists or optional values, or returns `None` if it belongs to another module.
pub(super) fn call<'a>(name: &str, given: &[Value<'a>]) -> Option<Outcome<'a>> {
    if let Some(made) = optional(name, given) {
        return Some(made);
    }
    Some(match (name, given) {
        ("lists.range", [Value::Int(count)]) => {
            Ok(Value::list((0..*count).map(Value::Int).collect()))
        }
        ("sets.contains", [Value::List(list), Value::List(part)]) => has_all(list, part),
        ("sets.equivalent", [Value::List(one), Value::List(other)]) => match has_all(one, other) {
            Ok(Value::Bool(true)) => has_all(other, one),
            found => found,
        },
        ("sets.intersects", [Value::List(one), Value::List(other)]) => intersects(one, other),
        (_, [Value::List(list), rest @ ..]) => {
            let found = ordered(name, list, rest);
            return found.or_else(|| shaped(name, list, rest));
        }
        _ => return None,
    })
}

fn optional<'a>(name: &str, given: &[Value<'a>]) -> Option<Outcome<'a>> {
    Some(Ok(match (name, given) {
        ("optional.ofNonZeroValue", [of]) if of.is_zero() => Value::Optional(None),
        ("optional.of" | "optional.ofNonZeroValue", [of]) => Value::some(of.clone()),
        ("optional.none", []) => Value::Optional(None),
        ("hasValue", [Value::Optional(of)]) => Value::Bool(of.is_some()),
        ("value", [Value::Optional(Some(of))]) => (**of).clone(),
        ("value", [Value::Optional(None)]) => {
            return Some(Err(Fault::told("optional.none() dereference")));
        }
        ("optional.unwrap" | "unwrapOpt", [Value::List(list)]) => {
            let there = |item: Outcome<'a>| match item {
                Ok(Value::Optional(None)) => None,
                Ok(Value::Optional(Some(of))) => Some(Ok(Rc::unwrap_or_clone(of))),
                other => Some(other),
            };
            let items: Result<Vec<Value<'a>>, Fault> = list.iter().filter_map(there).collect();
            return Some(items.map(Value::list));
        }
        ("first" | "last", [Value::List(list)]) => {
            let at = if name == "first" {
                Some(0)
            } else {
                list.len().checked_sub(1)
            };
            match at.and_then(|at| list.get(at)) {
                Some(Ok(item)) => Value::some(item),
                Some(why) => return Some(why),
                None => Value::Optional(None),
            }
        }
        _ => return None,
    }))
}

fn has_all<'a>(list: &List<'a>, part: &List<'a>) -> Outcome<'a> {
    let whole = Value::List(list.clone());
    for item in part.iter() {
        match operator::contains(&item?, &whole) {
            Ok(Value::Bool(true)) => {}
            other => return other,
        }
    }
    Ok(Value::Bool(true))
}

fn intersects<'a>(one: &List<'a>, other: &List<'a>) -> Outcome<'a> {
    let whole = Value::List(other.clone());
    for item in one.iter() {
        if let Ok(found @ Value::Bool(true)) = operator::contains(&item?, &whole) {
            return Ok(found);
        }
    }
    Ok(Value::Bool(false))
}

/// Applies a function of the order, the sum or the positions of items.
fn ordered<'a>(name: &str, list: &List<'a>, rest: &[Value<'a>]) -> Option<Outcome<'a>> {
    let place =
        |at: Option<usize>| Value::Int(at.map_or(-1, |at| i64::try_from(at).unwrap_or(i64::MAX)));
    let is = |wanted: &Value<'a>, at: &usize| match list.get(*at) {
        Some(Ok(item)) => equal(&item, wanted) == Ok(true),
        _ => false,
    };
    Some(match (name, rest) {
        ("isSorted", []) => list.values().and_then(|items| is_sorted(&items)),
        ("sum", []) => list.values().and_then(sum),
        ("min", []) => list
            .values()
            .and_then(|items| extreme(items, name, Ordering::Less)),
        ("max", []) => list
            .values()
            .and_then(|items| extreme(items, name, Ordering::Greater)),
        ("indexOf", [wanted]) => Ok(place((0..list.len()).find(|at| is(wanted, at)))),
        ("lastIndexOf", [wanted]) => Ok(place((0..list.len()).rev().find(|at| is(wanted, at)))),
        _ => return None,
    })
}

fn order(one: &Value<'_>, other: &Value<'_>) -> Result<Ordering, Fault> {
    compare(one, other)?.ok_or_else(|| Fault::told("no such overload"))
}

fn is_sorted<'a>(items: &[Value<'a>]) -> Outcome<'a> {
    for pair in items.windows(2) {
        if order(&pair[0], &pair[1])?.is_gt() {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

fn sum(items: Vec<Value<'_>>) -> Outcome<'_> {
    let mut items = items.into_iter();
    let Some(mut total) = items.next() else {
        return Ok(Value::Int(0));
    };
    for item in items {
        let given = [total, item];
        let made = operator::call("_+_", &given);
        total = made.unwrap_or_else(|| Err(Fault::told("no such overload")))?;
    }
    Ok(total)
}

fn extreme<'a>(items: Vec<Value<'a>>, name: &str, wanted: Ordering) -> Outcome<'a> {
    let mut items = items.into_iter();
    let Some(mut found) = items.next() else {
        return Err(Fault::Told(format!("{name} called on empty list")));
    };
    for item in items {
        if order(&item, &found)? == wanted {
            found = item;
        }
    }
    Ok(found)
}

/// Applies a function that returns a new list.
fn shaped<'a>(name: &str, list: &List<'a>, rest: &[Value<'a>]) -> Option<Outcome<'a>> {
    let made = match (name, rest) {
        ("reverse", []) => list.values().map(|mut items| {
            items.reverse();
            items
        }),
        ("distinct", []) => distinct(list),
        ("flatten", []) => flat(list, 1),
        ("flatten", [Value::Int(depth)]) if *depth < 0 => {
            Err(Fault::told("level must be non-negative"))
        }
        ("flatten", [Value::Int(depth)]) => flat(list, *depth),
        ("slice", [Value::Int(from), Value::Int(to)]) => slice(list, *from, *to),
        ("sort", []) => sorted(list, list),
        ("@sortByAssociatedKeys", [Value::List(keys)]) => sorted(list, keys),
        _ => return None,
    };
    Some(made.map(Value::list))
}

type Items<'a> = Result<Vec<Value<'a>>, Fault>;

fn distinct<'a>(list: &List<'a>) -> Items<'a> {
    let mut kept: Vec<Value<'a>> = Vec::new();
    for item in list.iter() {
        let item = item?;
        if !kept.iter().any(|known| equal(&item, known) == Ok(true)) {
            kept.push(item);
        }
    }
    Ok(kept)
}

fn flat<'a>(list: &List<'a>, depth: i64) -> Items<'a> {
    let mut made = Vec::new();
    for item in list.iter() {
        match item? {
            Value::List(inner) if depth > 0 => made.extend(flat(&inner, depth - 1)?),
            other => made.push(other),
        }
    }
    Ok(made)
}

fn slice<'a>(list: &List<'a>, from: i64, to: i64) -> Items<'a> {
    let refused = |why: &str| Err(Fault::Told(format!("cannot slice({from}, {to}), {why}")));
    let (Ok(start), Ok(end)) = (usize::try_from(from), usize::try_from(to)) else {
        return refused("negative indexes not supported");
    };
    if start > end {
        return refused("start index must be less than or equal to end index");
    }
    if list.len() < end {
        return refused(&format!("list is length {}", list.len()));
    }
    list.iter().skip(start).take(end - start).collect()
}

/// Returns the items of a list, sorted by their keys.
fn sorted<'a>(list: &List<'a>, keys: &List<'a>) -> Items<'a> {
    let (items, keys) = (list.values()?, keys.values()?);
    if items.len() != keys.len() {
        return Err(Fault::Told(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} elements respectively",
            items.len(),
            keys.len()
        )));
    }
    let Some(first) = keys.first() else {
        return Ok(items);
    };
    if compare(first, first)?.is_none() {
        return Err(Fault::told("list elements must be comparable"));
    }
    if keys.iter().any(|key| key.type_name() != first.type_name()) {
        return Err(Fault::told("list elements must have the same type"));
    }
    let mut pairs: Vec<(Value<'a>, Value<'a>)> = keys.into_iter().zip(items).collect();
    pairs.sort_by(|one, other| order(&one.0, &other.0).unwrap_or(Ordering::Equal));
    Ok(pairs.into_iter().map(|(_, item)| item).collect())
}
