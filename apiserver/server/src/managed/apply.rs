//! Server-side apply: merges a configuration into the object, removes the fields that the applier no longer sets, and keeps the fields
//! of other managers.
//!
//! Guarantees the conflict messages of the real server; the module is pure. Must not depend on requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::entry::{Entry, Managed, Operation};
use super::merge::{merge, remove};
use super::outline::Outline;
use super::reconcile;
use super::set::Set;
use super::track::{self, Author};
use super::versions::{Changes, Failure, Versions};
use super::walk;
use crate::object::{Body, at_path};

/// The manager of the fields that an object had before the first apply.
const BEFORE: &str = "before-first-apply";

/// The annotation of kubectl's client-side apply.
pub(crate) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A field that another manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    pub(crate) manager: String,
    pub(crate) field: String,
}

/// The result of an apply.
#[derive(Clone, Debug)]
pub(crate) struct Applied {
    pub(crate) body: Body,
    pub(crate) managed: Managed,
}

/// A configuration, and the object to which it is applied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Application<'a> {
    pub(crate) author: &'a Author,
    /// The live object; equals `empty` if there is none.
    pub(crate) live: &'a Body,
    pub(crate) exists: bool,
    /// The object of this kind in which no field is set.
    pub(crate) empty: &'a Body,
    pub(crate) managed: &'a Managed,
    pub(crate) config: &'a Body,
}

/// The reason why an apply fails.
#[derive(Clone, Debug)]
pub(crate) enum Stop {
    Conflicts(Vec<Conflict>),
    /// The object cannot be converted to the version of a manager.
    Failed(Failure),
}

// === impl Stop ===

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

// === impl Application ===

impl Application<'_> {
    /// Applies the configuration.
    ///
    /// # Errors
    ///
    /// The fields that other managers own with another value, unless `force` is set.
    pub(crate) fn apply(
        &self,
        versions: &mut dyn Versions<'_>,
        force: bool,
    ) -> Result<Applied, Stop> {
        let result = self.try_apply(versions, force);
        match result {
            Err(Stop::Conflicts(conflicts)) if self.author.manager == "kubectl" => {
                let allowed = self.last_applied_fields(self.outline(versions));
                let left: Vec<Conflict> = conflicts
                    .into_iter()
                    .filter(|conflict| !allowed.contains(&conflict.field))
                    .collect();
                if left.is_empty() {
                    self.try_apply(versions, true)
                } else {
                    Err(Stop::Conflicts(left))
                }
            }
            result => result,
        }
    }

    fn outline<'k>(&self, versions: &dyn Versions<'k>) -> Outline<'k> {
        versions.outline(&self.author.api_version)
    }

    fn try_apply(&self, versions: &mut dyn Versions<'_>, force: bool) -> Result<Applied, Stop> {
        let mut managed = self.before(versions)?;
        reconcile::settle(versions, self.author, self.live, &mut managed)?;
        let outline = self.outline(versions);
        let set = self.author.open(&walk::fields(outline, self.config));
        let mut mine = self.author.entry(Operation::Apply, set);
        let last = managed
            .entries
            .iter()
            .position(|entry| entry.is_same(&mine));
        let last = last.map(|at| managed.entries.swap_remove(at));
        managed.entries.push(mine.clone());
        let merged = merge(outline, self.live, self.config);
        let body = match &last {
            Some(last) => {
                let pruned = self.prune(versions, merged, &managed, last);
                pruned.map_err(|failure| failure.within("failed to prune fields"))?
            }
            None => merged,
        };
        let changes = Changes::of(versions, self.author, &managed, [self.live, &body])?;
        let conflicts = conflicts(&managed, &mine, &changes);
        if !force && !conflicts.is_empty() {
            return Err(Stop::Conflicts(conflicts));
        }
        let mut after = track::lose(&managed, Some(&mine), &changes);
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

    /// Returns the managers before this apply; if there are none, all fields get the manager [`BEFORE`].
    fn before(&self, versions: &mut dyn Versions<'_>) -> Result<Managed, Failure> {
        if !self.exists || !self.managed.entries.is_empty() {
            return Ok(self.managed.clone());
        }
        let author = Author {
            manager: BEFORE.to_owned(),
            ..self.author.clone()
        };
        track::update(versions, &author, self.managed, self.empty, self.live)
    }

    /// Removes the fields that this applier set in its last apply, in the version of that apply, and does not set now, unless another
    /// manager owns them.
    fn prune(
        &self,
        versions: &mut dyn Versions<'_>,
        merged: Body,
        managed: &Managed,
        last: &Entry,
    ) -> Result<Body, Failure> {
        let (own, then) = (&self.author.api_version, &last.api_version);
        let of = |outline, body: &Body| walk::with_named(outline, &walk::fields(outline, body));
        let merged = seen(versions, merged, own, then).map_err(|failure| {
            failure.within("failed to convert merged object to last applied version")
        })?;
        let outline = versions.outline(then);
        let last = walk::with_named(outline, &last.fields);
        let all = of(outline, &merged);
        let mut owned: BTreeMap<&str, Set> = BTreeMap::new();
        for entry in &managed.entries {
            owned
                .entry(&entry.api_version)
                .or_default()
                .add(&entry.fields);
        }
        // Starts with the version of the last apply, because other versions may lack fields that a conversion needs.
        let mut owned: Vec<(&str, Set)> = owned.into_iter().collect();
        owned.sort_by_key(|(version, _)| version != then);
        let (mut pruned, mut whole) = (remove(outline, &merged, &last), merged.clone());
        let mut at: &str = then;
        for (version, owned) in owned {
            let mut view = |body: Body, what: &str| {
                seen(versions, body, at, version).map_err(|failure| {
                    let what = format!("failed to convert {what} object at version {version}");
                    failure.within(&what).within("failed add back owned items")
                })
            };
            whole = view(whole, "merged")?;
            pruned = view(pruned, "pruned")?;
            at = version;
            let outline = versions.outline(version);
            let kept = of(outline, &pruned).union(&walk::with_named(outline, &owned));
            pruned = remove(outline, &whole, &of(outline, &whole).without(&kept));
        }
        let pruned = seen(versions, pruned, at, then).map_err(|failure| {
            let what = "failed to convert pruned object to last applied version";
            failure
                .within(what)
                .within("failed add back dangling items")
        })?;
        let dangling = all.without(&of(outline, &pruned)).shared(&last);
        seen(versions, remove(outline, &merged, &dangling), then, own)
    }

    /// Returns the fields that kubectl may take over without conflict because its client-side apply set their current values.
    fn last_applied_fields(&self, outline: Outline<'_>) -> Vec<String> {
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
        let difference = walk::compare(outline, &last, self.live);
        walk::fields(outline, &last)
            .without(&difference.modified)
            .without(&difference.added)
            .without(&difference.removed)
            .shown()
    }
}

/// Converts an object from one version to another.
fn seen(
    versions: &mut dyn Versions<'_>,
    body: Body,
    from: &str,
    to: &str,
) -> Result<Body, Failure> {
    if from == to {
        return Ok(body);
    }
    versions.view(&body, from, to)
}

fn conflicts(managed: &Managed, mine: &Entry, changes: &Changes) -> Vec<Conflict> {
    let mut found = Vec::new();
    for entry in managed.entries.iter().filter(|entry| !entry.is_same(mine)) {
        let made = changes.made(&entry.api_version);
        for field in entry.fields.shared(&made).shown() {
            found.push(Conflict {
                manager: shown(entry),
                field,
            });
        }
    }
    found
}

/// Returns the name of a manager in messages of the real server.
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

/// Returns the message for a list of conflicts.
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
