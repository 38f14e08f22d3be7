//! Computes the fields of an object, and the differences between two objects.
//!
//! Guarantees a result for any object, with or without a schema. Must not depend on managers.
//!
//! Follows structured merge (<https://kubernetes.io/docs/reference/using-api/server-side-apply/>) as the real server implements it:
//! an empty map or list is a field of its own; a filled one is owned by its parts, and also as a whole if it did not exist before.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::outline::{Form, Outline};
use super::set::{Part, Set};

/// The differences between two objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) added: Set,
    pub(crate) modified: Set,
    pub(crate) removed: Set,
}

/// The differences at one place.
#[derive(Default)]
struct Change {
    added: Part,
    modified: Part,
    removed: Part,
}

// === impl Change ===

impl Change {
    fn take(&mut self, name: &str, part: Self) {
        for (into, from) in [
            (&mut self.added, part.added),
            (&mut self.modified, part.modified),
            (&mut self.removed, part.removed),
        ] {
            if !from.is_empty() {
                into.below.insert(name.to_owned(), from);
            }
        }
    }

    /// Adds all members of another change.
    fn add(&mut self, other: &Self) {
        for (into, from) in [
            (&mut self.added, &other.added),
            (&mut self.modified, &other.modified),
            (&mut self.removed, &other.removed),
        ] {
            into.member |= from.member;
            into.below.add(&from.below);
        }
    }

    /// Marks the place itself.
    fn mark(mut self, old: Option<&Value>, new: Option<&Value>) -> Self {
        match (old, new) {
            (None, _) => self.added.member = true,
            (_, None) => self.removed.member = true,
            (Some(old), Some(new)) => self.modified.member |= !equal(old, new),
        }
        self
    }
}

/// Compares the new object with the old one.
pub(crate) fn compare(
    outline: Outline<'_>,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
) -> Difference {
    let change = maps(outline, Some(old), Some(new));
    Difference {
        added: change.added.below,
        modified: change.modified.below,
        removed: change.removed.below,
    }
}

fn values(outline: Outline<'_>, old: Option<&Value>, new: Option<&Value>) -> Change {
    let (mut change, is_leaf) = match (old, new) {
        (Some(old), Some(new)) if old == new => return Change::default(),
        (Some(before), Some(after)) if !outline.alike(before, after) => {
            // The old value is removed and the new one added, each in its own form.
            let (was, _) = parts(outline, &outline.form(before), old, new);
            let (mut is, is_leaf) = parts(outline, &outline.form(after), old, new);
            is.add(&was);
            (is, is_leaf)
        }
        (_, Some(guide)) | (Some(guide), None) => parts(outline, &outline.form(guide), old, new),
        (None, None) => return Change::default(),
    };
    if !is_leaf {
        change.added.member |= old.is_none();
        change.removed.member |= old.is_some() && new.is_none();
    }
    change
}

/// Compares two values in the given form; also returns whether they were compared as a whole.
fn parts(
    outline: Outline<'_>,
    form: &Form<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
) -> (Change, bool) {
    let whole = || (Change::default().mark(old, new), true);
    let (before, after) = (
        old.and_then(Value::as_object),
        new.and_then(Value::as_object),
    );
    let hollow = before.is_none_or(Map::is_empty) && after.is_none_or(Map::is_empty);
    match form {
        // If both are empty, the place is a field of its own.
        Form::Map if !hollow => (maps(outline, before, after), false),
        Form::Set | Form::Keyed(_) if !(items(old).is_empty() && items(new).is_empty()) => {
            (lists(outline, form, items(old), items(new)), false)
        }
        _ => whole(),
    }
}

fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn maps(
    outline: Outline<'_>,
    old: Option<&Map<String, Value>>,
    new: Option<&Map<String, Value>>,
) -> Change {
    let mut change = Change::default();
    for (name, value) in old.into_iter().flatten() {
        let other = new.and_then(|map| map.get(name));
        if other != Some(value) {
            let part = values(outline.child(name), Some(value), other);
            change.take(&format!("f:{name}"), part);
        }
    }
    for (name, value) in new.into_iter().flatten() {
        if old.is_none_or(|map| !map.contains_key(name)) {
            let part = values(outline.child(name), None, Some(value));
            change.take(&format!("f:{name}"), part);
        }
    }
    change
}

fn lists(outline: Outline<'_>, form: &Form<'_>, old: &[Value], new: &[Value]) -> Change {
    let (old, new) = (by_name(outline, form, old), by_name(outline, form, new));
    let of = outline.item();
    let mut change = Change::default();
    let names: Vec<&String> = old
        .keys()
        .chain(new.keys().filter(|name| !old.contains_key(*name)))
        .collect();
    for name in names {
        let before = old.get(name).map_or(&[][..], Vec::as_slice);
        let after = new.get(name).map_or(&[][..], Vec::as_slice);
        let mut part = match (before, after) {
            (before, after) if before.len() <= 1 && after.len() <= 1 => {
                values(of, before.first().copied(), after.first().copied())
            }
            // Duplicate items count as one field together.
            (before, after) if before.len() > 1 && after.len() > 1 => {
                let mut part = Change::default();
                part.modified.member = before != after;
                part
            }
            (_, []) | ([], _) => Change::default(),
            (before, [after]) if before.len() > 1 => values(of, None, Some(after)),
            ([before], _) => values(of, Some(before), None),
            _ => Change::default(),
        };
        if before.len() > 1 && after.len() <= 1 {
            part.removed.member = true;
        }
        if after.len() > 1 && before.len() <= 1 {
            part.added.member = true;
        }
        change.take(name, part);
    }
    change
}

/// Groups the items of a list by name; drops items without a valid name.
fn by_name<'v>(
    outline: Outline<'_>,
    form: &Form<'_>,
    items: &'v [Value],
) -> BTreeMap<String, Vec<&'v Value>> {
    let mut named: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for item in items {
        if let Ok(name) = outline.item_name(form, item) {
            named.entry(name).or_default().push(item);
        }
    }
    named
}

/// Compares values; numbers are equal if their values are.
fn equal(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Number(old), Value::Number(new)) => old == new || old.as_f64() == new.as_f64(),
        (Value::Array(old), Value::Array(new)) => {
            old.len() == new.len() && old.iter().zip(new).all(|(old, new)| equal(old, new))
        }
        (Value::Object(old), Value::Object(new)) => {
            let same =
                |(name, old): (&String, &Value)| new.get(name).is_some_and(|new| equal(old, new));
            old.len() == new.len() && old.iter().all(same)
        }
        _ => old == new,
    }
}

/// Returns the fields of an object.
pub(crate) fn fields(outline: Outline<'_>, object: &Map<String, Value>) -> Set {
    let mut set = Set::default();
    for (name, value) in object {
        let child = outline.child(name);
        let mut part = fields_of(child, value);
        let hollow = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        part.member |= hollow || !outline.names(name);
        set.insert(format!("f:{name}"), part);
    }
    set
}

fn fields_of(outline: Outline<'_>, value: &Value) -> Part {
    match (outline.form(value), value) {
        (Form::Map, Value::Object(map)) => Part {
            member: false,
            below: fields(outline, map),
        },
        (Form::Map | Form::Set | Form::Keyed(_), Value::Null) => Part::default(),
        (form @ (Form::Set | Form::Keyed(_)), Value::Array(items)) => {
            let of = outline.item();
            let mut below = Set::default();
            for (name, items) in by_name(outline, &form, items) {
                let mut part = match items.as_slice() {
                    [item] => fields_of(of, item),
                    _ => Part::default(),
                };
                part.member = true;
                below.insert(name, part);
            }
            Part {
                member: false,
                below,
            }
        }
        _ => Part::leaf(),
    }
}

/// Returns the set with each declared field as a member if something below it is in the set.
pub(crate) fn with_named(outline: Outline<'_>, set: &Set) -> Set {
    let parts = set.parts.iter().map(|(name, part)| {
        let (child, named) = match name.split_at(2) {
            ("f:", field) => (outline.child(field), outline.names(field)),
            _ => (outline.item(), false),
        };
        let part = Part {
            member: part.member || (named && !part.below.is_empty()),
            below: with_named(child, &part.below),
        };
        (name.clone(), part)
    });
    Set {
        parts: parts.collect(),
    }
}
