//! What every write ends in: the rules of changed objects, the no-op, and what follows from a change.
//!
//! Promise: a write that changes nothing is not one. Must not know requests.

use std::sync::Arc;

use serde_json::Value;

use crate::cascade;
use crate::kind::{Kind, crd, defaults};
use crate::managed::set::Set;
use crate::managed::{self, Author, Kept, Managed};
use crate::object::{Body, MANAGED, Stored, finalizers, meta_text, metadata, metadata_mut};
use crate::rules;
use crate::schema;
use crate::status::{Cause, Refusal};
use crate::store::{Store, key};
use crate::verb::Part;

/// What came of replacing an object.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) stored: Arc<Stored>,
    pub(crate) changed: bool,
}

/// How an object is to change.
#[derive(Clone, Debug)]
pub(crate) struct Change<'a> {
    pub(crate) kind: &'a Kind,
    pub(crate) part: Part,
    pub(crate) author: &'a Author,
    /// Who manages what from then on, where that is known.
    pub(crate) managed: Option<Managed>,
    pub(crate) dry_run: bool,
}

/// Store a new object that was found in order.
pub(crate) fn create(
    store: &mut Store,
    kind: &Kind,
    body: Body,
    kept: Arc<Kept>,
    dry_run: bool,
) -> Arc<Stored> {
    if dry_run {
        return Arc::new(draft(kind, &body, kept, 0));
    }
    let stored = store.put_kept(kind.collection, body, kept);
    follow(store, kind, &stored);
    stored
}

/// Store a new state of an object, if it is one and is in order.
pub(crate) fn replace(
    store: &mut Store,
    change: Change<'_>,
    old: &Stored,
    new: Body,
) -> Result<Written, Refusal> {
    let Change { kind, part, .. } = change;
    let dry_run = change.dry_run;
    let before = old.body();
    let mut new = confine(kind, part, &before, new);
    let requested = metadata_mut(&mut new).remove(MANAGED);
    if part == Part::Main {
        defaults::fill(kind, &mut new);
    }
    let kept = track(change, old, &before, requested, &new);
    let unchanged = rules::check_change(&before, &mut new);
    set_generation(kind, &before, &mut new);
    let causes = complaints(kind, part, &unchanged, &before, &new);
    if !causes.is_empty() {
        return Err(Refusal::invalid(
            kind.subject_by_kind(&old.slim.name),
            &causes,
        ));
    }
    let old_revision = metadata(&before).and_then(|meta| meta.get("resourceVersion"));
    metadata_mut(&mut new).insert(
        "resourceVersion".to_owned(),
        old_revision.cloned().unwrap_or_default(),
    );
    let changed = !same(&before, &new) || !Arc::ptr_eq(&kept, &old.kept);
    let released = !kind.is_core("namespaces") && is_released(&before, &new);
    if dry_run || (!changed && !released) {
        let stored = Arc::new(draft(kind, &new, kept, old.slim.revision));
        return Ok(Written {
            stored,
            changed: false,
        });
    }
    if released {
        let stored = Arc::new(draft(kind, &new, kept, old.slim.revision));
        remove(
            store,
            kind,
            &key(old.slim.namespace.as_deref(), &old.slim.name),
        );
        return Ok(Written {
            stored,
            changed: true,
        });
    }
    let stored = store.put_kept(kind.collection, new, kept);
    follow(store, kind, &stored);
    Ok(Written {
        stored,
        changed: true,
    })
}

/// Who manages what after a change: as it was, if that says nothing new.
fn track(
    change: Change<'_>,
    old: &Stored,
    before: &Body,
    requested: Option<Value>,
    new: &Body,
) -> Arc<Kept> {
    let managed = match change.managed {
        Some(managed) => managed,
        // A scale carries the managers of its number only, and where there is none, nobody is noted.
        None if change.part == Part::Scale
            && !has_scale_manager(change.kind, &old.kept.managed) =>
        {
            return old.kept.clone();
        }
        None => {
            let base = base(change.part, &old.kept.managed, requested);
            if base.entries.is_empty() {
                // Nobody is told of changes to an object that was never tracked.
                base
            } else {
                managed::update(change.kind.outline(), change.author, &base, before, new)
            }
        }
    };
    if managed.is_same_but_times(&old.kept.managed) {
        return old.kept.clone();
    }
    Kept::new(managed)
}

fn has_scale_manager(kind: &Kind, managed: &Managed) -> bool {
    let path = kind.scale.as_ref().map_or("", |scale| scale.spec.as_str());
    let fields: Vec<&str> = path.split('.').filter(|part| !part.is_empty()).collect();
    let replicas = Set::of_fields(&[fields.as_slice()]);
    let mut entries = managed.entries.iter();
    entries.any(|entry| !entry.fields.shared(&replicas).is_empty())
}

/// Who manages what before a change: what the request says, if it says something; what is stored otherwise.
fn base(part: Part, stored: &Managed, requested: Option<Value>) -> Managed {
    let requested = requested.filter(|_| part == Part::Main);
    let entries = requested.as_ref().and_then(Value::as_array);
    match entries.map(Vec::as_slice) {
        Some([]) => Managed::default(),
        Some([Value::Object(only)]) if only.values().all(|value| value == "") => Managed::default(),
        Some(_) => {
            let read = requested.as_ref().and_then(Managed::from_json);
            read.unwrap_or_else(|| stored.clone())
        }
        None => stored.clone(),
    }
}

/// What is wrong with a new state; `unchanged` is what is wrong with the change to it.
///
/// The real server comes by some rules more than once, and lists what it finds each time.
fn complaints(
    kind: &Kind,
    part: Part,
    unchanged: &[Cause],
    before: &Body,
    new: &Body,
) -> Vec<Cause> {
    let mut causes = [unchanged, unchanged].concat();
    for cause in rules::check(kind, new) {
        let times = if cause.field.starts_with("metadata.finalizers") {
            1
        } else {
            3
        };
        causes.extend(std::iter::repeat_n(cause, times));
    }
    causes.extend(crd::check(kind, new));
    if let Some(schema) = &kind.schema {
        causes.extend(match part {
            Part::Status => schema::check_status(schema, new),
            _ => schema::check(schema, new),
        });
        causes.extend(schema::rules::check(schema, new, Some(before), &causes));
    }
    causes
}

/// Remove an object for good, and what goes with it.
pub(crate) fn remove(store: &mut Store, kind: &Kind, key: &str) -> Option<Arc<Stored>> {
    let removed = store.remove(kind.collection, key)?;
    if kind.is_crd() {
        crd::forget(store, &removed);
    }
    cascade::removed(store, kind, &removed);
    Some(removed)
}

/// Keep from a request only the part of the object it addresses.
fn confine(kind: &Kind, part: Part, before: &Body, mut new: Body) -> Body {
    match part {
        Part::Main => {
            if kind.traits.status {
                copy(before, &mut new, "status");
            }
            new
        }
        Part::Status => {
            let mut kept = before.clone();
            copy(&new, &mut kept, "status");
            kept
        }
        Part::Finalize => {
            let mut kept = before.clone();
            copy(&new, &mut kept, "spec");
            kept
        }
        Part::Scale => new,
    }
}

fn copy(from: &Body, to: &mut Body, field: &str) {
    match from.get(field) {
        Some(value) => to.insert(field.to_owned(), value.clone()),
        None => to.remove(field),
    };
}

/// The generation is the old one, plus one if more than metadata and status changed.
fn set_generation(kind: &Kind, before: &Body, new: &mut Body) {
    let old = metadata(before)
        .and_then(|meta| meta.get("generation"))
        .cloned();
    let Some(old) = old else {
        metadata_mut(new).remove("generation");
        return;
    };
    let content = |body: &Body| -> Body {
        body.iter()
            .filter(|(key, _)| match key.as_str() {
                "metadata" | "apiVersion" | "kind" => false,
                "status" => !kind.traits.status,
                _ => true,
            })
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    let is_deployment = kind.group == "apps" && kind.plural == "deployments";
    let annotations = |body: &Body| {
        metadata(body)
            .and_then(|meta| meta.get("annotations"))
            .cloned()
    };
    let bump = content(before) != content(new)
        || (is_deployment && annotations(before) != annotations(new));
    let value = if bump {
        Value::from(old.as_i64().unwrap_or_default() + 1)
    } else {
        old
    };
    metadata_mut(new).insert("generation".to_owned(), value);
}

fn same(before: &Body, new: &Body) -> bool {
    let content = |body: &Body| {
        let mut body = body.clone();
        body.remove("apiVersion");
        body.remove("kind");
        body
    };
    content(before) == content(new)
}

/// Whether this change lets go of an object that was only held by its finalizers.
fn is_released(before: &Body, new: &Body) -> bool {
    let Some(meta) = metadata(before) else {
        return false;
    };
    let grace = meta
        .get("deletionGracePeriodSeconds")
        .and_then(Value::as_i64);
    meta.contains_key("deletionTimestamp")
        && !finalizers(before).is_empty()
        && finalizers(new).is_empty()
        && grace.unwrap_or_default() == 0
}

/// An object as it would be stored.
pub(crate) fn draft(kind: &Kind, body: &Body, kept: Arc<Kept>, revision: u64) -> Stored {
    let api_version = crate::kind::api_version(&kind.group, &kind.stored_version);
    Stored::new(body, kept, (&api_version, &kind.kind), revision)
}

fn follow(store: &mut Store, kind: &Kind, stored: &Arc<Stored>) {
    if kind.is_crd() {
        crd::settle(store, stored);
    }
}

/// Refuse another resourceVersion than the stored one; an empty one where the kind demands one.
pub(crate) fn check_revision(kind: &Kind, old: &Stored, new: &Body) -> Result<(), Refusal> {
    let given = meta_text(new, "resourceVersion");
    let name = &old.slim.name;
    if given.is_empty() {
        if kind.traits.unconditional {
            return Ok(());
        }
        let cause = Cause::invalid(
            "metadata.resourceVersion",
            &0.into(),
            "must be specified for an update",
        );
        return Err(Refusal::invalid(kind.subject(name), &[cause]));
    }
    if given.parse::<u64>().is_err() {
        return Err(Refusal::internal(format!(
            "strconv.ParseUint: parsing {given:?}: invalid syntax"
        )));
    }
    if given == old.slim.revision.to_string() {
        return Ok(());
    }
    Err(Refusal::stale(kind.subject(name)))
}
