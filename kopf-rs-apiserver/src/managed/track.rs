//! What a write other than apply does to the managers: whoever changes a field has it from then on.
//!
//! Promise: a write that changes nothing changes no entry. Must not know requests.

use std::sync::{Arc, LazyLock};

use super::entry::{Entry, Managed, Operation};
use super::merge::flaws;
use super::outline::Outline;
use super::reconcile;
use super::set::Set;
use super::versions::{Changes, Failure, Versions};
use super::walk::{self, Difference};
use crate::object::Body;

/// How many entries of updates an object keeps.
const UPDATERS: usize = 10;

/// Whose entry the oldest updates are put together in.
const ANCIENT: &str = "ancient-changes";

/// Fields that nobody manages: the server's own.
static SERVERS: LazyLock<Set> = LazyLock::new(|| {
    Set::of_fields(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
});

/// Who writes, which part of the object, in which version, and when.
#[derive(Clone, Debug)]
pub(crate) struct Author {
    pub(crate) manager: String,
    pub(crate) api_version: String,
    pub(crate) subresource: &'static str,
    pub(crate) time: String,
    /// What a write to this part of the object cannot change, with all that is below.
    pub(crate) closed: Arc<Set>,
}

// === impl Author ===

impl Author {
    /// The server itself.
    pub(crate) fn server(api_version: &str, time: String) -> Self {
        Self {
            manager: "kube-apiserver".to_owned(),
            api_version: api_version.to_owned(),
            subresource: "",
            time,
            closed: Arc::default(),
        }
    }

    /// An entry of this author.
    pub(super) fn entry(&self, operation: Operation, fields: Set) -> Entry {
        let manager = if self.manager.is_empty() {
            "unknown"
        } else {
            &self.manager
        };
        Entry {
            manager: manager.to_owned(),
            operation,
            api_version: self.api_version.clone(),
            subresource: self.subresource.to_owned(),
            time: None,
            fields: Arc::new(fields),
        }
    }

    /// How two objects differ in what this author can change.
    pub(super) fn compare(&self, outline: Outline<'_>, old: &Body, new: &Body) -> Difference {
        let mut difference = walk::compare(outline, old, new);
        for set in [
            &mut difference.added,
            &mut difference.modified,
            &mut difference.removed,
        ] {
            if !set.is_empty() {
                *set = self.open(set);
            }
        }
        difference
    }

    /// The fields of a set that this author can change.
    pub(super) fn open(&self, set: &Set) -> Set {
        if self.closed.is_empty() {
            return set.clone();
        }
        set.without_below(&self.closed)
    }
}

/// A set without the fields that are the server's own.
pub(super) fn strip(set: &Set) -> Set {
    set.without(&SERVERS)
}

/// The managers of an object after a write. Before the first one, `old` is what an object is when nothing is set.
/// Where a custom object is not of its type, as it may be on the way to its refusal, nobody manages anything.
///
/// # Errors
///
/// Why the object is not to be had in the version of a manager.
pub(crate) fn update(
    versions: &mut dyn Versions<'_>,
    author: &Author,
    managed: &Managed,
    old: &Body,
    new: &Body,
) -> Result<Managed, Failure> {
    let outline = versions.outline(&author.api_version);
    let custom = matches!(outline, Outline::Root(_));
    if custom
        && [old, new]
            .into_iter()
            .any(|body| !flaws(outline, body, true).is_empty())
    {
        return Ok(Managed::default());
    }
    let mut managed = managed.clone();
    reconcile::settle(versions, author, old, &mut managed)?;
    let changes = Changes::of(versions, author, &managed, [old, new])?;
    let mut after = lose(&managed, None, &changes);
    let mine = strip(&changes.made(&author.api_version));
    if !mine.is_empty() {
        let mut entry = author.entry(Operation::Update, mine);
        if let Some(at) = after.entries.iter().position(|found| found.is_same(&entry)) {
            let before = after.entries.swap_remove(at);
            entry.fields = Arc::new(entry.fields.union(&before.fields));
        }
        entry.time = Some(author.time.clone());
        after.entries.push(entry);
    }
    cap(&mut after);
    after.sort();
    Ok(after)
}

/// Take from all managers but one what changed; who has none left goes.
pub(super) fn lose(managed: &Managed, but: Option<&Entry>, changes: &Changes) -> Managed {
    let left = |entry: &Entry| {
        if but.is_some_and(|but| but.is_same(entry)) {
            return Some(entry.clone());
        }
        let version = &entry.api_version;
        let lost = changes.made(version).union(&changes.gone(version));
        if lost.is_empty() {
            return Some(entry.clone());
        }
        let fields = entry.fields.without(&lost);
        (!fields.is_empty()).then(|| Entry {
            fields: Arc::new(fields),
            ..entry.clone()
        })
    };
    Managed {
        entries: managed.entries.iter().filter_map(left).collect(),
    }
}

/// Put the oldest updates together, version by version, until there are not too many.
fn cap(managed: &mut Managed) {
    let mut updates: Vec<Entry> = Vec::new();
    let is_update = |entry: &Entry| entry.operation == Operation::Update;
    if managed
        .entries
        .iter()
        .filter(|entry| is_update(entry))
        .count()
        <= UPDATERS
    {
        return;
    }
    managed.sort();
    managed.entries.retain(|entry| {
        let update = is_update(entry);
        if update {
            updates.push(entry.clone());
        }
        !update
    });
    while updates.len() > UPDATERS {
        let oldest = updates[0].clone();
        let other = updates[1..]
            .iter()
            .position(|entry| entry.api_version == oldest.api_version);
        let Some(at) = other else {
            managed.entries.push(updates.remove(0));
            continue;
        };
        let newer = updates.remove(at + 1);
        updates[0] = Entry {
            manager: ANCIENT.to_owned(),
            subresource: String::new(),
            time: newer.time,
            fields: Arc::new(oldest.fields.union(&newer.fields)),
            ..oldest
        };
    }
    managed.entries.append(&mut updates);
}
