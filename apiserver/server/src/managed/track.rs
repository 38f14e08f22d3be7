//! Updates the managed fields for a write other than apply: the writer becomes the manager of each field that it changes.
//!
//! Guarantees that a write without changes changes no entry. Must not depend on requests.

use std::sync::{Arc, LazyLock};

use super::entry::{Entry, Managed, Operation};
use super::merge::flaws;
use super::outline::Outline;
use super::reconcile;
use super::set::Set;
use super::versions::{Changes, Failure, Versions};
use super::walk::{self, Difference};
use crate::object::Body;

/// The maximum number of update entries per object.
const UPDATERS: usize = 10;

/// The manager of the merged entry for the oldest updates.
const ANCIENT: &str = "ancient-changes";

/// The fields that have no manager because the server owns them.
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

/// The author of a write, with subresource, version and time.
#[derive(Clone, Debug)]
pub(crate) struct Author {
    pub(crate) manager: String,
    pub(crate) api_version: String,
    pub(crate) subresource: &'static str,
    pub(crate) time: String,
    /// The fields, with everything below them, that a write to this part of the object cannot change.
    pub(crate) closed: Arc<Set>,
}

// === impl Author ===

impl Author {
    /// Returns the server itself as author.
    pub(crate) fn server(api_version: &str, time: String) -> Self {
        Self {
            manager: "kube-apiserver".to_owned(),
            api_version: api_version.to_owned(),
            subresource: "",
            time,
            closed: Arc::default(),
        }
    }

    /// Returns an entry of this author.
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

    /// Returns the differences between two objects in the fields that this author can change.
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

    /// Returns the members of a set that this author can change.
    pub(super) fn open(&self, set: &Set) -> Set {
        if self.closed.is_empty() {
            return set.clone();
        }
        set.without_below(&self.closed)
    }
}

/// Returns a set without the fields that the server owns.
pub(super) fn strip(set: &Set) -> Set {
    set.without(&SERVERS)
}

/// Returns the managed fields after a write. For the first write, `old` is the object in which no field is set.
/// A custom object that does not match its schema, as possible shortly before its refusal, gets no managers.
///
/// # Errors
///
/// The reason why the object cannot be converted to the version of a manager.
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

/// Removes changed fields from all entries except `but`; drops entries that become empty.
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

/// Merges the oldest update entries of equal versions until their number is within the limit.
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
