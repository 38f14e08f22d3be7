//! Server-side apply: what an applier says is merged into the object, what it no longer says goes, others' fields are theirs.
//!
//! Promise: pure; conflicts are told in the real server's words. Must not know requests.

use std::sync::Arc;

use serde_json::Value;

use super::entry::{Entry, Managed, Operation};
use super::merge::{merge, remove};
use super::outline::Outline;
use super::reconcile;
use super::set::Set;
use super::track::{self, Author};
use super::walk;
use crate::object::{Body, at_path};

/// Who is said to have what was there before anybody applied.
const BEFORE: &str = "before-first-apply";

/// The annotation of kubectl's client-side apply.
pub(crate) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A field that somebody else manages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    pub(crate) manager: String,
    pub(crate) field: String,
}

/// What comes of applying.
#[derive(Clone, Debug)]
pub(crate) struct Applied {
    pub(crate) body: Body,
    pub(crate) managed: Managed,
}

/// What is applied, to what, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Application<'a> {
    pub(crate) outline: Outline<'a>,
    pub(crate) author: &'a Author,
    /// The object as it is; what an object is when nothing is set, if there is none.
    pub(crate) live: &'a Body,
    pub(crate) exists: bool,
    /// What an object is when nothing is set.
    pub(crate) empty: &'a Body,
    pub(crate) managed: &'a Managed,
    pub(crate) config: &'a Body,
}

// === impl Application ===

impl Application<'_> {
    /// Apply.
    ///
    /// # Errors
    ///
    /// The fields that others have with another value, unless forced.
    pub(crate) fn apply(&self, force: bool) -> Result<Applied, Vec<Conflict>> {
        let result = self.try_apply(force);
        match result {
            Err(conflicts) if self.author.manager == "kubectl" => {
                let allowed = self.last_applied_fields();
                let left: Vec<Conflict> = conflicts
                    .into_iter()
                    .filter(|conflict| !allowed.contains(&conflict.field))
                    .collect();
                if left.is_empty() {
                    self.try_apply(true)
                } else {
                    Err(left)
                }
            }
            result => result,
        }
    }

    fn try_apply(&self, force: bool) -> Result<Applied, Vec<Conflict>> {
        let mut managed = self.before();
        reconcile::settle(self.outline, &mut managed);
        let set = self.author.open(&walk::fields(self.outline, self.config));
        let mut mine = self.author.entry(Operation::Apply, set);
        let last = managed
            .entries
            .iter()
            .position(|entry| entry.is_same(&mine));
        let last = last.map(|at| managed.entries.swap_remove(at));
        managed.entries.push(mine.clone());
        let merged = merge(self.outline, self.live, self.config);
        let body = match &last {
            Some(last) => self.prune(&merged, &managed, last),
            None => merged,
        };
        let difference = self.author.compare(self.outline, self.live, &body);
        let changed = difference.added.union(&difference.modified);
        let conflicts = conflicts(&managed, &mine, &changed);
        if !force && !conflicts.is_empty() {
            return Err(conflicts);
        }
        let mut after = track::lose(&managed, Some(&mine), &changed, &difference.removed);
        after.entries.retain(|entry| !entry.is_same(&mine));
        mine.fields = Arc::new(track::strip(&mine.fields));
        mine.time = if *self.live == body {
            last.and_then(|last| last.time)
        } else {
            Some(self.author.time.clone())
        };
        if !mine.fields.is_empty() {
            after.entries.push(mine);
        }
        after.sort();
        Ok(Applied {
            body,
            managed: after,
        })
    }

    /// Who managed what before: if nobody, everything is somebody's.
    fn before(&self) -> Managed {
        if !self.exists || !self.managed.entries.is_empty() {
            return self.managed.clone();
        }
        let author = Author {
            manager: BEFORE.to_owned(),
            ..self.author.clone()
        };
        track::update(self.outline, &author, self.managed, self.empty, self.live)
    }

    /// Take out what this applier said last time and does not say now, unless somebody else manages it.
    fn prune(&self, merged: &Body, managed: &Managed, last: &Entry) -> Body {
        let outline = self.outline;
        let named = |set: &Set| walk::with_named(outline, set);
        let of = |body: &Body| named(&walk::fields(outline, body));
        let last = named(&last.fields);
        let mut owned = Set::default();
        for entry in &managed.entries {
            owned.add(&entry.fields);
        }
        let all = of(merged);
        let pruned = of(&remove(outline, merged, &last));
        let unowned = all.without(&pruned.union(&named(&owned)));
        let pruned = of(&remove(outline, merged, &unowned));
        remove(outline, merged, &all.without(&pruned).shared(&last))
    }

    /// The fields that kubectl may take because its client-side apply set them as they are.
    fn last_applied_fields(&self) -> Vec<String> {
        let text =
            at_path(self.live, ".metadata.annotations").and_then(|all| all.get(LAST_APPLIED));
        let last = text
            .and_then(Value::as_str)
            .and_then(|text| serde_json::from_str::<Body>(text).ok())
            .filter(|last| {
                last.get("apiVersion").and_then(Value::as_str)
                    == Some(self.author.api_version.as_str())
            });
        let Some(last) = last else {
            return Vec::new();
        };
        let difference = walk::compare(self.outline, &last, self.live);
        walk::fields(self.outline, &last)
            .without(&difference.modified)
            .without(&difference.added)
            .without(&difference.removed)
            .shown()
    }
}

fn conflicts(managed: &Managed, mine: &Entry, changed: &Set) -> Vec<Conflict> {
    let mut found = Vec::new();
    for entry in managed.entries.iter().filter(|entry| !entry.is_same(mine)) {
        for field in entry.fields.shared(changed).shown() {
            found.push(Conflict {
                manager: shown(entry),
                field,
            });
        }
    }
    found
}

/// A manager as the real server names it.
fn shown(entry: &Entry) -> String {
    let subresource = match entry.subresource.as_str() {
        "" => String::new(),
        name => format!(" with subresource {name:?}"),
    };
    let version = match entry.operation {
        Operation::Apply => String::new(),
        Operation::Update => format!(" using {}", entry.api_version),
    };
    format!("{:?}{subresource}{version}", entry.manager)
}

/// What is said of conflicts, all together.
pub(crate) fn told(conflicts: &[Conflict]) -> String {
    if let [one] = conflicts {
        return format!(
            "Apply failed with 1 conflict: conflict with {}: {}",
            one.manager, one.field
        );
    }
    let mut managers: Vec<&str> = conflicts
        .iter()
        .map(|found| found.manager.as_str())
        .collect();
    managers.sort_unstable();
    managers.dedup();
    let mut lines = Vec::new();
    for manager in managers {
        lines.push(format!("conflicts with {manager}:"));
        let fields = conflicts.iter().filter(|found| found.manager == manager);
        lines.extend(fields.map(|found| format!("- {}", found.field)));
    }
    format!(
        "Apply failed with {} conflicts: {}",
        conflicts.len(),
        lines.join("\n")
    )
}
