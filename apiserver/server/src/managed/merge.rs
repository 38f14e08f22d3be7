//! Merges an applied configuration into an object, and removes fields from objects.
//!
//! Guarantees that applied values win and that fields which the configuration does not name stay. Must not depend on managers.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::outline::{Form, Outline, boxed};
use super::set::Set;

/// A mistake in an object, and its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flaw {
    pub(crate) place: String,
    pub(crate) why: String,
}

// === impl Flaw ===

impl Flaw {
    /// Returns the message with the path.
    pub(crate) fn told(&self) -> String {
        match self.place.as_str() {
            "" => self.why.clone(),
            place => format!("{place}: {}", self.why),
        }
    }

    fn here(why: String) -> Self {
        Self {
            place: String::new(),
            why,
        }
    }

    fn under(mut self, way: &str) -> Self {
        self.place.insert_str(0, way);
        self
    }
}

/// Validates an object: undeclared fields, values of the wrong type, list items without a valid key. `twice` allows
/// duplicate items.
pub(crate) fn flaws(outline: Outline<'_>, object: &Map<String, Value>, twice: bool) -> Vec<Flaw> {
    let mut found = Vec::new();
    for (name, value) in object {
        let child = outline.child(name);
        if matches!(child, Outline::Undeclared) {
            found.push(Flaw {
                place: format!(".{name}"),
                why: "field not declared in schema".to_owned(),
            });
            continue;
        }
        let below = flaws_of(child, value, twice).into_iter();
        found.extend(below.map(|flaw| flaw.under(&format!(".{name}"))));
    }
    found
}

fn flaws_of(outline: Outline<'_>, value: &Value, twice: bool) -> Vec<Flaw> {
    let wrong = |wanted: &str| {
        vec![Flaw::here(format!(
            "expected {wanted}, got {}",
            boxed(value)
        ))]
    };
    match (outline.form(value), value) {
        (Form::Scalar(scalar), value) => scalar.misfit(value).into_iter().map(Flaw::here).collect(),
        (_, Value::Null) => Vec::new(),
        // An atomic map must still match its type.
        (Form::Map | Form::WholeMap, Value::Object(map)) => flaws(outline, map, twice),
        (Form::Map | Form::WholeMap, _) => wrong("map"),
        (Form::WholeList, Value::Array(items)) => {
            let of_item = |(at, item): (usize, &Value)| {
                let below = flaws_of(outline.item(), item, twice);
                let under = move |flaw: Flaw| flaw.under(&format!("[{at}]"));
                below.into_iter().map(under).collect::<Vec<Flaw>>()
            };
            items.iter().enumerate().flat_map(of_item).collect()
        }
        (form, Value::Array(items)) => flaws_of_items(outline, &form, items, twice),
        (Form::WholeList | Form::Set | Form::Keyed(_), _) => wrong("list"),
    }
}

/// Validates the items of an associative list; stops at the first item without a valid key.
fn flaws_of_items(
    outline: Outline<'_>,
    form: &Form<'_>,
    items: &[Value],
    twice: bool,
) -> Vec<Flaw> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for (at, item) in items.iter().enumerate() {
        match outline.item_name(form, item) {
            Ok(name) => {
                let shown = super::set::shown(&name);
                if !seen.insert(name) && !twice {
                    found.push(Flaw::here(format!("duplicate entries for key {shown}")));
                }
                let below = flaws_of(outline.item(), item, twice);
                found.extend(below.into_iter().map(|flaw| flaw.under(&shown)));
            }
            Err(why) => {
                found.push(Flaw::here(format!("element {at}: {why}")));
                break;
            }
        }
    }
    found
}

/// Returns the object with the configuration merged into it.
pub(crate) fn merge(
    outline: Outline<'_>,
    live: &Map<String, Value>,
    applied: &Map<String, Value>,
) -> Map<String, Value> {
    let mut merged = live.clone();
    for (name, value) in applied {
        let value = match merged.get(name) {
            Some(before) => values(outline.child(name), before, value),
            None => value.clone(),
        };
        merged.insert(name.clone(), value);
    }
    merged
}

fn values(outline: Outline<'_>, live: &Value, applied: &Value) -> Value {
    let form = outline.form(applied);
    match (&form, live, applied) {
        (Form::Map, Value::Object(old), Value::Object(new)) => {
            Value::Object(merge(outline, old, new))
        }
        (Form::Set | Form::Keyed(_), Value::Array(old), Value::Array(new))
            if !(old.is_empty() && new.is_empty()) =>
        {
            lists(outline, &form, old, new)
        }
        // Applying null to a map or list that has parts leaves the parts.
        (Form::Map, Value::Object(old), Value::Null) if !old.is_empty() => live.clone(),
        (Form::Set | Form::Keyed(_), Value::Array(old), Value::Null) if !old.is_empty() => {
            live.clone()
        }
        _ => applied.clone(),
    }
}

/// Merges two associative lists in the applied order; the other items keep their place relative to their neighbours.
fn lists(outline: Outline<'_>, form: &Form<'_>, live: &[Value], applied: &[Value]) -> Value {
    let name = |item: &Value| outline.item_name(form, item).unwrap_or_default();
    let old: Vec<(String, &Value)> = live.iter().map(|item| (name(item), item)).collect();
    let new: Vec<(String, &Value)> = applied.iter().map(|item| (name(item), item)).collect();
    let mut of_old: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for (name, item) in &old {
        of_old.entry(name).or_default().push(item);
    }
    let in_new: BTreeSet<&str> = new.iter().map(|(name, _)| name.as_str()).collect();
    let mut shared = new
        .iter()
        .map(|(name, _)| name.as_str())
        .filter(|name| of_old.contains_key(name));
    let mut next = shared.next();
    let merged = |name: &str, item: &Value| match of_old.get(name).map(Vec::as_slice) {
        Some([before]) => values(outline.item(), before, item),
        _ => item.clone(),
    };
    let mut out = Vec::with_capacity(live.len().max(applied.len()));
    let (mut at_old, mut at_new) = (0, 0);
    while at_old < old.len() || at_new < new.len() {
        if let (Some((left, _)), Some((right, item))) = (old.get(at_old), new.get(at_new)) {
            if left == right {
                out.push(merged(right, item));
                (at_old, at_new) = (at_old + 1, at_new + 1);
                next = shared.next();
                continue;
            }
            // The item is in both lists, but the applied order puts another one first.
            if in_new.contains(left.as_str()) && next.is_some_and(|next| next != left) {
                at_old += 1;
                continue;
            }
        }
        if let Some((left, item)) = old.get(at_old) {
            at_old += 1;
            if !in_new.contains(left.as_str()) {
                out.push((*item).clone());
                continue;
            }
            if new[..at_new].iter().all(|(name, _)| name != left) {
                at_old -= 1;
            }
        }
        if let Some((right, item)) = new.get(at_new) {
            out.push(merged(right, item));
            at_new += 1;
            if next == Some(right.as_str()) {
                next = shared.next();
            }
        }
    }
    Value::Array(out)
}

/// Returns the object without the fields of a set.
pub(crate) fn remove(
    outline: Outline<'_>,
    object: &Map<String, Value>,
    set: &Set,
) -> Map<String, Value> {
    let mut rest = Map::new();
    for (name, value) in object {
        let Some(part) = set.parts.get(&format!("f:{name}")) else {
            rest.insert(name.clone(), value.clone());
            continue;
        };
        if part.member {
            continue;
        }
        rest.insert(
            name.clone(),
            remove_of(outline.child(name), value, &part.below),
        );
    }
    rest
}

fn remove_of(outline: Outline<'_>, value: &Value, set: &Set) -> Value {
    match (outline.form(value), value) {
        (Form::Map, Value::Object(map)) => {
            let rest = remove(outline, map, set);
            if rest.is_empty() {
                Value::Null
            } else {
                Value::Object(rest)
            }
        }
        (form @ (Form::Set | Form::Keyed(_)), Value::Array(items)) => {
            let kept: Vec<Value> = items
                .iter()
                .filter_map(|item| {
                    let name = outline.item_name(&form, item).unwrap_or_default();
                    match set.parts.get(&name) {
                        Some(part) if part.member => None,
                        Some(part) => Some(remove_of(outline.item(), item, &part.below)),
                        None => Some(item.clone()),
                    }
                })
                .collect();
            if kept.is_empty() {
                Value::Null
            } else {
                Value::Array(kept)
            }
        }
        (Form::Scalar(_), value) => value.clone(),
        _ => Value::Null,
    }
}
