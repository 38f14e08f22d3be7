//! Who manages the number of an object after a write to its scale.
//!
//! Promise: the real server's way of translating managers between an object and its scale, where those that update lose
//! the version they wrote in, and the moment. Must not know requests.

use std::sync::Arc;

use super::entry::{Entry, Managed, Operation};
use super::set::Set;
use super::track::Author;

/// How a scale changed the number of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scaled {
    /// It is as it was.
    Not,
    /// A scale leaves out a zero: nobody has it.
    ToZero,
    To,
}

/// The managers after a write to the scale of an object whose number is at `replicas`.
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

/// The managers of a scale: whoever has the number of its object.
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

/// The managers of an object, of a version, after somebody applied to its scale.
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
        // Who updates is somebody else here, since the version is another: what else they have stays theirs.
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
