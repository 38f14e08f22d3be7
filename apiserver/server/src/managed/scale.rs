//! The managers of an object's replica count after a write to its scale.
//!
//! Guarantees the real server's translation of managers between an object and its scale, in which entries of updates lose their
//! version and timestamp. Must not depend on requests.

use std::sync::Arc;

use super::entry::{Entry, Managed, Operation};
use super::set::Set;
use super::track::Author;

/// The change of an object's replica count by a write to its scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scaled {
    /// The count is unchanged.
    Not,
    /// The count became zero. A scale omits a zero, so the field has no manager.
    ToZero,
    To,
}

/// Returns the managers after a write to the scale of an object whose replica count is at `replicas`.
pub(crate) fn scaled(managed: &Managed, author: &Author, replicas: &Set, how: Scaled) -> Managed {
    let has = |entry: &Entry| !entry.fields.shared(replicas).is_empty();
    if !managed.entries.iter().any(has) {
        return managed.clone();
    }
    let mut after = Managed::default();
    for entry in &managed.entries {
        if !has(entry) || (how == Scaled::Not && entry.operation == Operation::Apply) {
            after.entries.push(entry.clone());
            continue;
        }
        let rest = entry.fields.without(replicas);
        if !rest.is_empty() {
            after.entries.push(Entry {
                fields: Arc::new(rest),
                ..entry.clone()
            });
        }
        if how == Scaled::Not {
            after.entries.push(Entry {
                time: None,
                fields: Arc::new(replicas.clone()),
                ..entry.clone()
            });
        }
    }
    if how == Scaled::To {
        after
            .entries
            .push(author.entry(Operation::Update, replicas.clone()));
    }
    after.sort();
    after
}

/// Returns the managers of a scale, which are those of the object's replica count.
pub(crate) fn of_scale(managed: &Managed, replicas: &Set) -> Managed {
    let has = |entry: &&Entry| !entry.fields.shared(replicas).is_empty();
    let number = Arc::new(Set::of_fields(&[&["spec", "replicas"]]));
    let managed = managed.clone().once();
    let entries = managed.entries.iter().filter(has).map(|entry| Entry {
        api_version: "autoscaling/v1".to_owned(),
        fields: number.clone(),
        ..entry.clone()
    });
    Managed {
        entries: entries.collect(),
    }
}

/// Returns the managers of an object in its version `api_version` after an apply to its scale.
pub(crate) fn to_object(
    before: &Managed,
    scale: &Managed,
    replicas: &Set,
    api_version: &str,
) -> Managed {
    let number = Set::of_fields(&[&["spec", "replicas"]]);
    let has = |fields: &Set, wanted: &Set| !fields.shared(wanted).is_empty();
    let mut scalers: Vec<&Entry> = scale.entries.iter().collect();
    let mut after = Managed::default();
    for entry in &before.clone().once().entries {
        if !has(&entry.fields, replicas) {
            after.entries.push(entry.clone());
            continue;
        }
        let still = scalers.iter().position(|scaler| scaler.is_same(entry));
        if let Some(at) = still {
            scalers.remove(at);
            after.entries.push(entry.clone());
            continue;
        }
        let rest = entry.fields.without(replicas);
        if !rest.is_empty() {
            after.entries.push(Entry {
                fields: Arc::new(rest),
                ..entry.clone()
            });
        }
    }
    for scaler in scalers {
        if !has(&scaler.fields, &number) {
            continue;
        }
        let entry = Entry {
            api_version: api_version.to_owned(),
            time: None,
            fields: Arc::new(replicas.clone()),
            ..scaler.clone()
        };
        // An update entry from the scale has another version, so the manager's existing update entry for the object stays.
        after.entries.retain(|other| !other.is_same(scaler));
        after.entries.push(entry);
    }
    after.sort();
    after
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_change_hands_by_table() {
        let replicas = Set::of_fields(&[&["spec", "replicas"]]);
        let author = Author::server("g/v1", "2020-01-01T00:00:00Z".to_owned());
        let mut entry = author.entry(Operation::Update, replicas.clone());
        entry.manager = "one".to_owned();
        let managed = Managed {
            entries: vec![entry],
        };
        for (how, expected) in [
            (Scaled::Not, vec!["one"]),
            (Scaled::ToZero, vec![]),
            (Scaled::To, vec!["kube-apiserver"]),
        ] {
            let after = scaled(&managed, &author, &replicas, how);
            let names: Vec<&str> = after
                .entries
                .iter()
                .map(|entry| entry.manager.as_str())
                .collect();
            assert_eq!(names, expected, "{how:?}");
        }
    }
}
