//! `delete` and `deletecollection`: marks objects for deletion, and removes those that no finalizer holds.
//!
//! Guarantees that finalizers and preconditions are respected. Must not know the consequences of a removal; these are in `cascade`.

use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::deletion::Deletion;
use super::{Answer, Part, Target, list};
use crate::admission;
use crate::admission::writing::{self, Writing};
use crate::call::Form;
use crate::cascade::{self, FOREGROUND, ORPHAN};
use crate::clock;
use crate::convert;
use crate::kind::{Kind, crd};
use crate::object::{Body, Stored, finalizers, map_mut, metadata, metadata_mut};
use crate::status::Refusal;
use crate::store::{Store, key};
use crate::write;

/// The result of a deletion.
#[derive(Clone, Debug)]
pub(crate) struct Deleted {
    pub(crate) stored: Arc<Stored>,
    pub(crate) removed: bool,
    pub(crate) changed: bool,
}

pub(crate) fn delete(store: &mut Store, target: &Target<'_>) -> Result<Answer, Refusal> {
    let how = Deletion::of_call(target)?;
    let stored = target.stored(store)?;
    ask(store, target, &how, &stored, target.name())?;
    let mut deleted = delete_key(store, &target.kind, &target.key(), &how)?;
    deleted.stored = convert::renewed(&target.kind, &stored, &deleted.stored);
    let mut answer = if deleted.removed && !target.kind.traits.returns_deleted {
        match (target.form, target.misfit(false)) {
            (Form::Table(_), Some(refusal)) => Answer::json(refusal.code, &refusal.body()),
            _ => Answer::json(200, &success(&target.kind, &deleted.stored)),
        }
    } else {
        Answer::object(200, store, target, &deleted.stored)
    };
    if how.without_orphans && !deleted.removed && answer.code == 200 {
        answer.code = 202;
    }
    answer.revision = Some(deleted.stored.slim.revision);
    answer.changed = deleted.changed;
    if how.by_default && target.kind.kind == "Job" {
        answer.warnings.push(ABANDONED.to_owned());
    }
    Ok(answer)
}

/// The real server's warning about a Job whose Pods stay although the request did not ask for that.
const ABANDONED: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning";

pub(crate) fn delete_collection(store: &mut Store, target: &Target<'_>) -> Result<Answer, Refusal> {
    let how = Deletion::of_call(target)?;
    let mut page = list::page(store, target)?;
    // Webhooks review all objects before the first deletion, because the verb runs again after each call to a webhook.
    for stored in &page.items {
        ask(store, target, &how, stored, "")?;
    }
    let mut changed = false;
    for stored in std::mem::take(&mut page.items) {
        let key = key(stored.slim.namespace.as_deref(), &stored.slim.name);
        if store.get(target.kind.collection, &key).is_some() {
            changed |= delete_key(store, &target.kind, &key, &how)?.changed;
            // The answer lists the objects as found, not as changed by the deletion.
            page.items.push(stored);
        }
    }
    let mut answer = list::rendered(store, target, &page);
    answer.changed = changed;
    Ok(answer)
}

/// Lets webhooks refuse a deletion.
fn ask(
    store: &mut Store,
    target: &Target<'_>,
    how: &Deletion,
    stored: &Stored,
    name: &str,
) -> Result<(), Refusal> {
    if !admission::is_due(store, &target.kind) {
        return Ok(());
    }
    let writing = Writing {
        kind: &target.kind,
        part: Part::Main,
        namespace: stored.slim.namespace.as_deref(),
        name,
        operation: "DELETE",
        dry_run: how.dry_run,
    };
    writing::delete(store, writing, stored)
}

fn success(kind: &Kind, stored: &Stored) -> Value {
    let mut details =
        json!({"name": stored.slim.name, "kind": kind.plural, "uid": stored.slim.uid});
    if !kind.group.is_empty() {
        details["group"] = kind.group.as_str().into();
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

/// Deletes one object: removes it, or marks it if a finalizer or a grace period holds it.
pub(crate) fn delete_key(
    store: &mut Store,
    kind: &Kind,
    key: &str,
    how: &Deletion,
) -> Result<Deleted, Refusal> {
    let Some(stored) = store.get(kind.collection, key) else {
        return Err(Refusal::not_found(kind.subject(key)));
    };
    how.check(kind, &stored)?;
    check_protected(kind, &stored)?;
    let uid = stored.slim.uid.clone();
    let mut body = stored.body();
    let grace = how.grace(kind, &body);
    let contains = kind.is_core("namespaces") || kind.is_crd();
    let lingers = how.lingers(kind).filter(|_| !contains);
    if let Some(finalizer) = lingers {
        let others = [FOREGROUND, ORPHAN]
            .into_iter()
            .filter(|other| *other != finalizer);
        others.for_each(|other| cascade::remove_finalizer(&mut body, other));
        cascade::add_finalizer(&mut body, finalizer);
    }
    let held = grace > 0 || contains || !finalizers(&body).is_empty();
    if how.dry_run {
        mark(store, kind, &mut body, grace);
        let revision = stored.slim.revision;
        let stored = Arc::new(write::draft(kind, &body, stored.kept.clone(), revision));
        return Ok(Deleted {
            stored,
            removed: !held,
            changed: false,
        });
    }
    if !held {
        return Ok(remove(store, kind, key, &stored, body));
    }
    mark(store, kind, &mut body, grace);
    let changed = body != stored.body();
    let marked = if changed {
        convert::rewritten(store, kind, &stored, &mut body);
        store.put(kind.collection, body)
    } else {
        stored
    };
    match lingers {
        // The deletion of a marked object has already started; repeating it would never end in a cycle of owners.
        Some(FOREGROUND) if !changed && store.steps.is_running() => {}
        Some(FOREGROUND) => cascade::begin_foreground(store, &uid),
        Some(_) => {
            cascade::orphan_dependents(store, &uid);
            cascade::let_go(store, kind, key, ORPHAN);
        }
        None => {}
    }
    empty(store, kind, &marked);
    Ok(Deleted {
        stored: marked,
        removed: false,
        changed,
    })
}

/// Removes an object that nothing holds.
fn remove(store: &mut Store, kind: &Kind, key: &str, stored: &Stored, mut body: Body) -> Deleted {
    if kind.is_core("pods") {
        // The real server marks a Pod in a separate write, even if it removes the Pod at once.
        mark(store, kind, &mut body, 0);
        store.put(kind.collection, body.clone());
    }
    let revision = write::remove(store, kind, key).map_or(0, |last| last.slim.revision);
    metadata_mut(&mut body).insert("resourceVersion".to_owned(), revision.to_string().into());
    Deleted {
        stored: Arc::new(write::draft(kind, &body, stored.kept.clone(), revision)),
        removed: true,
        changed: true,
    }
}

/// Starts the deletion of the content of a namespace or of a definition.
fn empty(store: &mut Store, kind: &Kind, marked: &Stored) {
    if kind.is_core("namespaces") {
        cascade::empty_namespace(store, &marked.slim.name);
    }
    if kind.is_crd() {
        crd::empty(store, marked);
    }
}

/// Refuses to delete protected namespaces and system priority classes.
fn check_protected(kind: &Kind, stored: &Stored) -> Result<(), Refusal> {
    let name = stored.slim.name.as_str();
    if kind.is_core("namespaces") && matches!(name, "default" | "kube-system" | "kube-public") {
        return Err(Refusal::forbidden(
            kind.subject(name),
            "this namespace may not be deleted",
        ));
    }
    let system = ["system-node-critical", "system-cluster-critical"];
    if kind.kind == "PriorityClass" && kind.traits.builtin && system.contains(&name) {
        return Err(Refusal::forbidden(
            kind.subject(name),
            "this is a system priority class and cannot be deleted",
        ));
    }
    Ok(())
}

/// Sets the deletion timestamp, or shortens the grace period of an object that has one.
fn mark(store: &Store, kind: &Kind, body: &mut Body, grace: i64) {
    let marked = metadata(body).is_some_and(|meta| meta.contains_key("deletionTimestamp"));
    if marked {
        let meta = metadata_mut(body);
        let shorter = meta
            .get("deletionGracePeriodSeconds")
            .and_then(Value::as_i64)
            .is_some_and(|before| grace < before);
        if shorter {
            meta.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
        }
        return;
    }
    let end = store
        .clock
        .now()
        .saturating_add(SignedDuration::from_secs(grace))
        .unwrap_or_else(|_| store.clock.now());
    let meta = metadata_mut(body);
    meta.insert("deletionTimestamp".to_owned(), clock::stamp(end).into());
    if !kind.is_core("namespaces") && !kind.is_crd() {
        meta.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
    }
    let generation = meta.get("generation").and_then(Value::as_i64);
    if let Some(generation) = generation.filter(|_| !kind.is_crd()) {
        meta.insert("generation".to_owned(), generation.saturating_add(1).into());
    }
    if kind.is_core("namespaces") {
        map_mut(body, "status").insert("phase".to_owned(), "Terminating".into());
    }
    if kind.is_crd() {
        crd::mark(body, &store.clock.stamp());
    }
}
