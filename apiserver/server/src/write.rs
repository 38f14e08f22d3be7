//! The last stage of every write: the rules for changed objects, the detection of no-ops, and the consequences of a change.
//!
//! Guarantees that a write without changes has no effect. Must not depend on requests.

mod settled;

use std::sync::Arc;

use serde_json::Value;

use crate::access;
use crate::admission;
use crate::admission::writing::{self, View, Writing};
use crate::cascade;
use crate::convert::{self, Sight};
use crate::given;
use crate::kind::{Kind, crd, defaults, registration, shape};
use crate::managed::scale::Scaled;
use crate::managed::set::Set;
use crate::managed::{self, Author, Failure, Kept, Managed};
use crate::object::{
    Body, MANAGED, Stored, at_path, finalizers, map_mut, meta_text, metadata, metadata_mut, text,
};
use crate::rules;
use crate::schema;
use crate::schema::rules::Judged;
use crate::status::{Cause, Refusal};
use crate::store::{Store, key};
use crate::valid;
use crate::verb::Part;
pub(crate) use settled::Settled;

/// The result of replacing an object.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) stored: Arc<Stored>,
    pub(crate) changed: bool,
    /// Warnings for the client.
    pub(crate) warnings: Vec<String>,
}

/// How to change an object.
#[derive(Clone, Debug)]
pub(crate) struct Change<'a> {
    pub(crate) kind: &'a Kind,
    pub(crate) part: Part,
    pub(crate) author: &'a Author,
    /// The new managed fields, if the caller has computed them already.
    pub(crate) managed: Option<Managed>,
    pub(crate) dry_run: bool,
}

/// Stores a new, valid object.
pub(crate) fn create(
    store: &mut Store,
    kind: &Kind,
    ready: Settled,
    kept: Arc<Kept>,
    dry_run: bool,
) -> Arc<Stored> {
    if dry_run {
        return Arc::new(draft(kind, &ready.into_shown(kind), kept, 0));
    }
    let stored = ready.put(store, kind, kept);
    follow(store, kind, &stored);
    stored
}

/// Validates a new state of an object, and stores it if it differs.
pub(crate) fn replace(
    store: &mut Store,
    mut change: Change<'_>,
    old: &Stored,
    mut new: Body,
) -> Result<Written, Refusal> {
    let kind = change.kind;
    let due = admission::is_due(store, kind);
    if due {
        writing::change(store, &mut change, old, &mut new)?;
    }
    let before = shape::of_version(kind, old.body());
    let (mut new, mut kept) = drafted(store, &change, old, &before, new)?;
    if change.part != Part::Status {
        valid::keep_given(kind, &before, &mut new);
        given::complete(store, kind, Some(&before), &mut new, change.dry_run)?;
    }
    let causes = rules::check_change(&before, &mut new);
    set_generation(kind, change.part, &before, &mut new);
    let Judged { causes, warnings } = complaints(kind, change.part, &causes, &before, &new);
    if !causes.is_empty() {
        return Err(refused(kind, &old.slim.name, &new, &causes).warned(&warnings));
    }
    given::permit(store, kind, Some(&before), &new).map_err(|why| why.warned(&warnings))?;
    let old_revision = metadata(&before).and_then(|meta| meta.get("resourceVersion"));
    metadata_mut(&mut new).insert(
        "resourceVersion".to_owned(),
        old_revision.cloned().unwrap_or_default(),
    );
    let mut new = Settled::of(kind, new);
    let unchanged = same(&before, &new.body);
    // A newer timestamp alone is not a change.
    if unchanged && kept.managed.is_same_but_times(&old.kept.managed) {
        kept = old.kept.clone();
    }
    if due {
        let view = |body, kept| Some(View { body, kept });
        let writing = Writing::of_change(&change, old);
        writing::check(
            store,
            writing,
            view(&new.body, &kept),
            view(&before, &old.kept),
        )?;
    }
    new.convert(store, kind, &kept)?;
    let anew = new.is_written_anew(store, kind, old);
    let changed =
        (!unchanged && kind.conversion.is_none()) || anew || !Arc::ptr_eq(&kept, &old.kept);
    let released = if kind.is_core("namespaces") {
        is_let_go(&before, &new.body)
    } else {
        is_released(&before, &new.body)
    };
    if change.dry_run || (!changed && !released) {
        let stored = Arc::new(draft(kind, &new.into_shown(kind), kept, old.slim.revision));
        return Ok(Written {
            stored,
            changed: false,
            warnings,
        });
    }
    Ok(Written {
        stored: keep(store, kind, old, (new, kept), released),
        changed: true,
        warnings,
    })
}

/// Returns the refusal of an invalid object.
pub(crate) fn refused(kind: &Kind, name: &str, body: &Body, causes: &[Cause]) -> Refusal {
    let mut subject = kind.subject_by_kind(name);
    if misnamed(kind, body).is_some() {
        subject.word = text(body, "kind");
    }
    Refusal::invalid(subject, causes)
}

/// Returns the new state as its author intends it, with its managed fields.
pub(crate) fn drafted(
    store: &mut Store,
    change: &Change<'_>,
    old: &Stored,
    before: &Body,
    mut new: Body,
) -> Result<(Body, Arc<Kept>), Refusal> {
    let kind = change.kind;
    let requested = metadata_mut(&mut new).remove(MANAGED);
    // For custom kinds, an empty list counts as absent, because the real server converts their metadata once more.
    let empty = |asked: &Value| asked.as_array().is_some_and(Vec::is_empty);
    let requested = requested.filter(|asked| kind.schema.is_none() || !empty(asked));
    // For some objects, the managed fields include requested fields that are not stored.
    let is_whole =
        kind.schema.is_some() || (kind.is_core("namespaces") && change.part == Part::Main);
    let whole = is_whole.then(|| new.clone());
    let mut new = confine(kind, change.part, before, new);
    metadata_mut(&mut new).remove(MANAGED);
    complete(kind, change.part, &mut new);
    let asked = whole.as_ref().unwrap_or(&new);
    let kept = track(store, change.clone(), old, (before, asked), requested)?;
    given::stamp(store, kind, change.part, before, &mut new);
    Ok((new, kept))
}

/// Stores a new state, or removes an object that nothing holds any more.
fn keep(
    store: &mut Store,
    kind: &Kind,
    old: &Stored,
    (new, kept): (Settled, Arc<Kept>),
    released: bool,
) -> Arc<Stored> {
    if released {
        let stored = Arc::new(draft(kind, &new.into_shown(kind), kept, old.slim.revision));
        let slim = &old.slim;
        remove(store, kind, &key(slim.namespace.as_deref(), &slim.name));
        return stored;
    }
    let stored = new.put(store, kind, kept);
    follow(store, kind, &stored);
    stored
}

/// Sets the defaults that count as set by the author.
fn complete(kind: &Kind, part: Part, new: &mut Body) {
    if matches!(
        part,
        Part::Main | Part::Ephemeral | Part::Resize | Part::Status
    ) {
        defaults::fill(kind, new);
    }
    if part == Part::Status && kind.is_core("pods") {
        defaults::join_addresses(new);
    }
    if kind.is_crd() {
        crd::fill_names(new);
        let listed = at_path(new, "status.storedVersions");
        let empty = listed.and_then(Value::as_array).is_none_or(Vec::is_empty);
        if part == Part::Main || empty {
            crd::fill_status(new);
        }
    }
}

/// Returns the managed fields after a change; shares the old ones if they are equal.
fn track(
    store: &mut Store,
    change: Change<'_>,
    old: &Stored,
    (before, new): (&Body, &Body),
    requested: Option<Value>,
) -> Result<Arc<Kept>, Refusal> {
    let managed = match change.managed {
        Some(managed) => managed,
        // A scale has only the managers of the replica count; if there is none, no manager is recorded.
        None if change.part == Part::Scale => {
            let (replicas, how) = scaled(change.kind, before, new);
            managed::scale::scaled(&old.kept.managed, change.author, &replicas, how)
        }
        None => {
            let base = base(change.part, &old.kept.managed, requested);
            if base.entries.is_empty() {
                // Changes to an object that has no managed fields are not tracked.
                base
            } else {
                let kind = change.kind;
                let versions = &mut Sight { kind, store };
                match managed::update(versions, change.author, &base, before, new) {
                    Ok(managed) => managed,
                    Err(Failure::Unasked) => return Err(convert::unasked()),
                    // As on the real server, this drops all managers.
                    Err(Failure::Missing | Failure::Wrong(_)) => Managed::default(),
                }
            }
        }
    };
    if managed == old.kept.managed {
        return Ok(old.kept.clone());
    }
    Ok(Kept::new(managed))
}

/// Returns the field of the replica count, and its change.
fn scaled(kind: &Kind, before: &Body, new: &Body) -> (Set, Scaled) {
    let path = number_path(kind);
    let number = |body: &Body| at_path(body, path).and_then(Value::as_i64);
    let how = match number(new) {
        found if found == number(before) => Scaled::Not,
        None | Some(0) => Scaled::ToZero,
        Some(_) => Scaled::To,
    };
    (number_scaled(kind), how)
}

fn number_path(kind: &Kind) -> &str {
    kind.scale.as_ref().map_or("", |scale| scale.spec.as_str())
}

/// Returns the field of the replica count.
pub(crate) fn number_scaled(kind: &Kind) -> Set {
    let path = number_path(kind).split('.');
    let fields: Vec<&str> = path.filter(|part| !part.is_empty()).collect();
    Set::of_fields(&[fields.as_slice()])
}

/// Returns the managed fields before a change: those of the request if it has any, else the stored ones.
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

/// Validates a new state; `unchanged` contains the complaints about the change itself.
///
/// The real server applies some rules repeatedly, and lists their complaints each time.
fn complaints(kind: &Kind, part: Part, unchanged: &[Cause], before: &Body, new: &Body) -> Judged {
    if let Some(cause) = misnamed(kind, new) {
        let causes = other_kind(kind, cause, new, Some(before));
        let warnings = Vec::new();
        return Judged { causes, warnings };
    }
    let mut warnings = Vec::new();
    let mut causes = [unchanged, unchanged].concat();
    for cause in rules::check(kind, new) {
        let times = if cause.field.starts_with("metadata.finalizers") {
            1
        } else {
            3
        };
        causes.extend(std::iter::repeat_n(cause, times));
    }
    causes.extend(access::check::check(kind, new, Some(before)));
    causes.extend(admission::check::check(kind, new));
    causes.extend(match part {
        Part::Status => crd::check_status(kind, new),
        _ => crd::check_change(kind, before, new),
    });
    if part == Part::Status {
        causes.extend(valid::check_state(kind, before, new));
    } else {
        if kind.checked_when_changed() {
            causes.extend(valid::check(kind, new));
        }
        causes.extend(match part {
            Part::Ephemeral => valid::check_ephemeral(kind, before, new),
            Part::Resize => valid::check_resize(kind, before, new),
            Part::Approval => valid::check_approval(kind, before, new),
            _ => valid::check_change(kind, before, new),
        });
    }
    if let Some(schema) = &kind.schema {
        causes.extend(match part {
            // For the real server, a new null is not a change, and unchanged parts are not validated again.
            Part::Status if is_bare(before) && is_bare(new) => Vec::new(),
            Part::Status => schema::check_status(schema, before, new),
            _ => schema::check_change(schema, before, new),
        });
        let scale = kind.scale.iter();
        let spec = part != Part::Status;
        causes.extend(scale.flat_map(|scale| schema::scale::check(scale, new, spec)));
        let judged = schema::rules::check(schema, new, Some(before), &causes);
        causes.extend(judged.causes);
        warnings = judged.warnings;
    }
    Judged { causes, warnings }
}

/// Returns whether an object has no status, or a null.
fn is_bare(body: &Body) -> bool {
    body.get("status").is_none_or(Value::is_null)
}

/// For custom kinds, returns the complaint about a kind that differs from that of the path.
pub(crate) fn misnamed(kind: &Kind, body: &Body) -> Option<Cause> {
    let word = text(body, "kind");
    let other = kind.schema.is_some() && !word.is_empty() && word != kind.kind;
    other.then(|| Cause::invalid("kind", &word.into(), &format!("must be {}", kind.kind)))
}

/// Returns the further complaints about an object of the wrong kind; its schema is not checked as a whole.
pub(crate) fn other_kind(kind: &Kind, cause: Cause, new: &Body, old: Option<&Body>) -> Vec<Cause> {
    let mut causes = vec![cause];
    if let Some(schema) = &kind.schema {
        causes.extend(schema::check_parts(schema, new));
        causes.extend(schema::rules::check(schema, new, old, &causes).causes);
    }
    causes
}

/// Removes an object, and handles the consequences of the removal.
pub(crate) fn remove(store: &mut Store, kind: &Kind, key: &str) -> Option<Arc<Stored>> {
    let removed = store.remove(kind.collection, key)?;
    if kind.is_crd() {
        crd::forget(store, &removed);
        let (_, group) = removed.slim.name.split_once('.').unwrap_or_default();
        registration::settle(store, group);
    }
    if kind.group == access::GROUP && kind.plural == "clusterroles" {
        access::aggregate::settle(store);
    }
    cascade::removed(store, kind, &removed);
    Some(removed)
}

/// Keeps only the part of the new state that the request addresses.
fn confine(kind: &Kind, part: Part, before: &Body, mut new: Body) -> Body {
    match part {
        Part::Main => {
            if kind.traits.status {
                copy(before, &mut new, "status");
            }
            // Only the subresource `finalize` changes these finalizers.
            if kind.is_core("namespaces") {
                copy(before, &mut new, "spec");
            }
            new
        }
        // For built-in kinds, a write of the status may change most of the metadata.
        Part::Status if kind.traits.builtin => {
            copy(before, &mut new, "spec");
            for field in kind.kept_with_status() {
                copy(
                    metadata_mut(&mut before.clone()),
                    metadata_mut(&mut new),
                    field,
                );
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
        Part::Ephemeral => {
            let mut kept = before.clone();
            let spec = new.remove("spec");
            let given = spec.as_ref().and_then(Value::as_object);
            copy(
                given.unwrap_or(&Body::new()),
                map_mut(&mut kept, "spec"),
                "ephemeralContainers",
            );
            kept
        }
        Part::Resize => resized(before, &new),
        Part::Approval => {
            let mut kept = before.clone();
            let given = new.get("status").and_then(Value::as_object);
            copy(
                given.unwrap_or(&Body::new()),
                map_mut(&mut kept, "status"),
                "conditions",
            );
            kept
        }
        _ => new,
    }
}

/// Returns a Pod with the container resources of another one; containers are matched by name.
fn resized(before: &Body, new: &Body) -> Body {
    let mut kept = before.clone();
    for list in ["containers", "initContainers"] {
        let given = at_path(new, &format!(".spec.{list}")).and_then(Value::as_array);
        let own = map_mut(&mut kept, "spec").get_mut(list);
        for container in own.and_then(Value::as_array_mut).into_iter().flatten() {
            let mut given = given.into_iter().flatten();
            let same = given.find(|other| other["name"] == container["name"]);
            let (Some(from), Some(to)) =
                (same.and_then(Value::as_object), container.as_object_mut())
            else {
                continue;
            };
            copy(from, to, "resources");
            copy(from, to, "resizePolicy");
        }
    }
    kept
}

fn copy(from: &Body, to: &mut Body, field: &str) {
    match from.get(field) {
        Some(value) => to.insert(field.to_owned(), value.clone()),
        None => to.remove(field),
    };
}

/// Sets the generation: increments it if more than metadata and status changed.
fn set_generation(kind: &Kind, part: Part, before: &Body, new: &mut Body) {
    let old = metadata(before)
        .and_then(|meta| meta.get("generation"))
        .cloned();
    // Objects of this kind get a generation with their first change.
    let late = kind.group == "storage.k8s.io" && kind.plural == "csidrivers";
    let changed = late && before.get("spec") != new.get("spec");
    let Some(old) = old.or_else(|| changed.then(|| 0.into())) else {
        metadata_mut(new).remove("generation");
        return;
    };
    let counts = |key: &str| match key {
        "metadata" | "apiVersion" | "kind" => false,
        "status" => !kind.traits.status,
        _ => kind.plural != "priorityclasses",
    };
    // The controller of Deployments writes annotations together with the status.
    let is_deployment =
        kind.group == "apps" && kind.plural == "deployments" && part != Part::Status;
    let labels = |body: &Body| metadata(body).and_then(|meta| meta.get("labels")).cloned();
    let bump = !same_in(before, new, counts)
        || (is_deployment && annotations(before) != annotations(new))
        || (kind.plural == "endpointslices" && labels(before) != labels(new));
    let value = if bump {
        Value::from(old.as_i64().unwrap_or_default().saturating_add(1))
    } else {
        old
    };
    metadata_mut(new).insert("generation".to_owned(), value);
}

fn annotations(body: &Body) -> Option<&Value> {
    metadata(body).and_then(|meta| meta.get("annotations"))
}

fn same(before: &Body, new: &Body) -> bool {
    same_in(before, new, |key| !matches!(key, "apiVersion" | "kind"))
}

/// Returns whether both objects are equal in the fields that `counts` selects.
fn same_in(before: &Body, new: &Body, counts: impl Fn(&str) -> bool) -> bool {
    let (mut before, mut new) = (before.iter(), new.iter());
    loop {
        let next = (
            before.find(|(key, _)| counts(key)),
            new.find(|(key, _)| counts(key)),
        );
        match next {
            (None, None) => return true,
            (before, new) if before != new => return false,
            _ => {}
        }
    }
}

/// Returns whether this change removes the last finalizer of a deleted object.
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

/// Returns whether this change removes the last finalizer of a terminating Namespace by hand; its content stays behind.
fn is_let_go(before: &Body, new: &Body) -> bool {
    let waits = at_path(new, ".spec.finalizers").and_then(Value::as_array);
    metadata(before).is_some_and(|meta| meta.contains_key("deletionTimestamp"))
        && finalizers(new).is_empty()
        && waits.is_none_or(Vec::is_empty)
}

/// Returns an object in the form of the store, without storing it.
pub(crate) fn draft(kind: &Kind, body: &Body, kept: Arc<Kept>, revision: u64) -> Stored {
    Stored::new(body, kept, (&kind.held_version(), &kind.kind), revision)
}

fn follow(store: &mut Store, kind: &Kind, stored: &Arc<Stored>) {
    if kind.is_core("namespaces") {
        cascade::finish_namespace(store, &stored.slim.name);
    }

    if kind.is_crd() {
        crd::settle(store, stored);
    }
    if kind.group == access::GROUP && kind.plural == "clusterroles" {
        access::aggregate::settle(store);
    }
}

/// Refuses a resource version that is not the stored one, or a missing one where the kind requires it.
pub(crate) fn check_revision(kind: &Kind, old: &Stored, new: &Body) -> Result<(), Refusal> {
    let given = meta_text(new, "resourceVersion");
    let name = &old.slim.name;
    let number = given.parse::<u64>();
    if given.is_empty() || number == Ok(0) {
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
    if number.is_err() {
        return Err(Refusal::internal(format!(
            "strconv.ParseUint: parsing {given:?}: invalid syntax"
        )));
    }
    if given == old.slim.revision.to_string() {
        return Ok(());
    }
    Err(Refusal::stale(kind.subject(name)))
}
