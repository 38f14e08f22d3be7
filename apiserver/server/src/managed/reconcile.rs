//! Reads managed fields again before a write: merges duplicate entries, and adapts the fields to the current type of the object.
//!
//! Guarantees that the manager of a part owns the whole value once the value has become atomic. Must not depend on objects.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::entry::Managed;
use super::outline::{Form, Outline};
use super::set::{Part, Set};
use super::track::Author;
use super::versions::{Failure, Versions};
use crate::object::Body;

/// Adapts the managed fields to the current type, which changes only for custom kinds. Of duplicate entries, the last one counts;
/// entries of a version that no longer exists are dropped.
///
/// # Errors
///
/// The reason why the object, which is in the author's version, cannot be converted to the version of a manager.
pub(super) fn settle(
    versions: &mut dyn Versions<'_>,
    author: &Author,
    live: &Body,
    managed: &mut Managed,
) -> Result<(), Failure> {
    let mut once = std::mem::take(managed).once().entries;
    let mut others: BTreeSet<String> = BTreeSet::new();
    others.extend(once.iter().map(|entry| entry.api_version.clone()));
    others.remove(&author.api_version);
    for version in others {
        match versions.view(live, &author.api_version, &version) {
            Ok(_) => {}
            Err(Failure::Missing) => once.retain(|entry| entry.api_version != version),
            Err(failure) => return Err(failure),
        }
    }
    managed.entries = once;
    for entry in &mut managed.entries {
        let outline = versions.outline(&entry.api_version);
        if !matches!(outline, Outline::Root(_)) {
            continue;
        }
        let settled = below(outline, &entry.fields);
        if settled != *entry.fields {
            entry.fields = Arc::new(settled);
        }
    }
    Ok(())
}

fn below(outline: Outline<'_>, set: &Set) -> Set {
    let part_of = |(name, found): (&String, &Part)| {
        let child = match name.split_at(2) {
            ("f:", field) => outline.child(field),
            _ => outline.item(),
        };
        (name.clone(), part(child, found))
    };
    Set {
        parts: set.parts.iter().map(part_of).collect(),
    }
}

fn part(outline: Outline<'_>, found: &Part) -> Part {
    let form = outline.form(&Value::Null);
    if matches!(form, Form::Map | Form::WholeMap) && outline.is_free() {
        return found.clone();
    }
    let is_leaf = found.member && found.below.is_empty();
    match form {
        Form::WholeList if !is_leaf => Part::leaf(),
        Form::WholeMap if !found.below.is_empty() => Part::leaf(),
        Form::Map | Form::Set | Form::Keyed(_) => Part {
            member: found.member,
            below: below(outline, &found.below),
        },
        Form::WholeList | Form::WholeMap | Form::Scalar(_) => found.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn parts_of_what_became_one_value_are_that_value() {
        let set = json!({"f:spec": {"f:a": {".": {}, "f:b": {}}, "f:l": {"v:1": {}}, "f:free": {"f:x": {}}}});
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "a": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"b": {"type": "string"}}},
            "l": {"type": "array", "items": {"type": "integer"}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }}}});
        let found = below(Outline::Root(&schema), &Set::from_json(&set).unwrap());
        let expected = json!({"f:spec": {"f:a": {}, "f:l": {}, "f:free": {"f:x": {}}}});
        assert_eq!(found.to_json(), expected);
    }
}
