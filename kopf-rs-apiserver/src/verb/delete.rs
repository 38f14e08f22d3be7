//! `delete` and `deletecollection`: objects marked, and removed once nothing holds them.
//!
//! Promise: finalizers and preconditions are respected. Must not know what follows from a removal (`cascade` does).

use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::list::bad_number;
use super::{Answer, Target};
use crate::call::{Call, PROTOBUF, go};
use crate::cascade::{self, FOREGROUND};
use crate::clock;
use crate::kind::{Kind, crd};
use crate::object::{Body, Stored, at_path, finalizers, map_mut, metadata, metadata_mut, text};
use crate::render;
use crate::selector::Selector;
use crate::status::{Cause, Refusal, options};
use crate::store::{Store, key};
use crate::typed::proto;
use crate::write;

/// What happens to dependants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Propagation {
    #[default]
    Background,
    Foreground,
    Orphan,
}

/// How to delete.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deletion {
    propagation: Propagation,
    grace: Option<i64>,
    uid: Option<String>,
    revision: Option<String>,
    dry_run: bool,
}

/// What came of a deletion.
#[derive(Clone, Debug)]
pub(crate) struct Deleted {
    pub(crate) stored: Arc<Stored>,
    pub(crate) removed: bool,
    pub(crate) changed: bool,
}

// === impl Deletion ===

impl Deletion {
    /// Without waiting for anybody but finalizers.
    pub(crate) fn at_once() -> Self {
        Self {
            grace: Some(0),
            ..Self::default()
        }
    }

    fn foreground() -> Self {
        Self {
            propagation: Propagation::Foreground,
            ..Self::default()
        }
    }

    fn of_call(target: &Target<'_>) -> Result<Self, Refusal> {
        let call = target.call;
        let body = if call.body.is_empty() {
            Body::new()
        } else {
            sent(call)?
        };
        check_kind(&body)?;
        let preconditions = body.get("preconditions").and_then(Value::as_object);
        let precondition = |field: &str| {
            let found = preconditions.map_or("", |map| text(map, field));
            Some(found.to_owned()).filter(|found| !found.is_empty())
        };
        let policy = match text(&body, "propagationPolicy") {
            "" => call.param("propagationPolicy"),
            given => given,
        };
        let orphan = call.switch("orphanDependents")
            || body.get("orphanDependents") == Some(&Value::Bool(true));
        if !policy.is_empty() && body.contains_key("orphanDependents") {
            let message = "orphanDependents and deletionPropagation cannot be both set";
            let cause = Cause::invalid("propagationPolicy", &policy.into(), message);
            return Err(Refusal::invalid(options("DeleteOptions"), &[cause]));
        }
        let in_body = body.get("dryRun").and_then(Value::as_array);
        let grace = match (
            body.get("gracePeriodSeconds"),
            call.param("gracePeriodSeconds"),
        ) {
            (Some(given), _) => given.as_i64(),
            (None, "") => None,
            (None, given) => Some(given.parse().map_err(|_| bad_number(given))?),
        };
        Ok(Self {
            propagation: match policy {
                "Foreground" => Propagation::Foreground,
                "Orphan" => Propagation::Orphan,
                "" if orphan => Propagation::Orphan,
                "" | "Background" => Propagation::Background,
                other => return Err(unknown_policy(other)),
            },
            grace,
            uid: precondition("uid"),
            revision: precondition("resourceVersion"),
            dry_run: call.dry_run()? || in_body.is_some_and(|items| !items.is_empty()),
        })
    }

    fn check(&self, kind: &Kind, stored: &Stored) -> Result<(), Refusal> {
        let slim = &stored.slim;
        if let Some(uid) = self.uid.as_ref().filter(|uid| **uid != slim.uid) {
            return Err(Refusal::conflict(
                kind.subject_by_kind(&slim.name),
                &format!(
                    "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
                    slim.uid
                ),
            ));
        }
        let found = slim.revision.to_string();
        if let Some(revision) = self
            .revision
            .as_ref()
            .filter(|revision| **revision != found)
        {
            return Err(Refusal::conflict(
                kind.subject_by_kind(&slim.name),
                &format!(
                    "the ResourceVersion in the precondition ({revision}) does not match the ResourceVersion in record ({found}). The object might have been modified"
                ),
            ));
        }
        Ok(())
    }
}

/// The options in the body of a deletion.
fn sent(call: &Call) -> Result<Body, Refusal> {
    let value = match call.media_type() {
        PROTOBUF => {
            let found = proto::decode(&call.body, "v1", "DeleteOptions");
            return found.map_err(|why| Refusal::bad_request(why.to_string()));
        }
        "application/yaml" => call.yaml()?,
        _ => go::parse(&call.body).map_err(|why| {
            Refusal::bad_request(format!(
                "couldn't get version/kind; json parse error: {why}"
            ))
        })?,
    };
    Ok(value.as_object().cloned().unwrap_or_default())
}

fn check_kind(options: &Body) -> Result<(), Refusal> {
    let (version, word) = (text(options, "apiVersion"), text(options, "kind"));
    if matches!(word, "" | "DeleteOptions") {
        return Ok(());
    }
    Err(Refusal::bad_request(format!(
        "no kind {word:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
    )))
}

fn unknown_policy(policy: &str) -> Refusal {
    let message = format!(
        "Unsupported value: {policy:?}: supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
    );
    let cause = Cause::new("FieldValueNotSupported", "propagationPolicy", message);
    Refusal::invalid(options("DeleteOptions"), &[cause])
}

pub(crate) fn delete(store: &mut Store, target: &Target<'_>) -> Result<Answer, Refusal> {
    let how = Deletion::of_call(target)?;
    target.stored(store)?;
    let deleted = delete_key(store, &target.kind, &target.key(), &how)?;
    let mut answer = if deleted.removed && !target.kind.traits.returns_deleted {
        Answer::json(200, &success(&target.kind, &deleted.stored))
    } else {
        Answer::object(200, store, target, &deleted.stored)
    };
    answer.revision = Some(deleted.stored.slim.revision);
    answer.changed = deleted.changed;
    Ok(answer)
}

pub(crate) fn delete_collection(store: &mut Store, target: &Target<'_>) -> Result<Answer, Refusal> {
    let how = Deletion::of_call(target)?;
    let call = target.call;
    let selector = Selector::parse(
        &target.kind,
        call.param("labelSelector"),
        call.param("fieldSelector"),
    )?;
    let chosen = store.under(target.kind.collection, &target.prefix());
    let (mut listed, mut changed) = (Vec::new(), false);
    for stored in chosen.into_iter().filter(|stored| selector.matches(stored)) {
        let key = key(stored.slim.namespace.as_deref(), &stored.slim.name);
        if store.get(target.kind.collection, &key).is_some() {
            changed |= delete_key(store, &target.kind, &key, &how)?.changed;
            // The answer tells what was found, not what became of it.
            listed.push(stored);
        }
    }
    let meta = render::ListMeta {
        revision: store.revision(),
        ..render::ListMeta::default()
    };
    let items = listed.iter().map(AsRef::as_ref);
    let mut answer = Answer::bytes(200, render::list(&target.kind, items, &meta, target.form));
    answer.changed = changed;
    Ok(answer)
}

fn success(kind: &Kind, stored: &Stored) -> Value {
    let mut details =
        json!({"name": stored.slim.name, "kind": kind.plural, "uid": stored.slim.uid});
    if !kind.group.is_empty() {
        details["group"] = kind.group.as_str().into();
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

/// Delete one object: mark it, or remove it if nothing holds it.
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
    let grace = grace(kind, &body, how);
    let waits = how.propagation == Propagation::Foreground && !store.dependents(&uid).is_empty();
    let contains = kind.is_core("namespaces") || kind.is_crd();
    let held = grace > 0 || waits || contains || !finalizers(&body).is_empty();
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
    if how.propagation == Propagation::Orphan {
        cascade::orphan_dependents(store, &uid);
    }
    if !held {
        if kind.is_core("pods") {
            // Pods are marked in a write of their own, even if they go at once.
            mark(store, kind, &mut body, grace);
            store.put(kind.collection, body.clone());
        }
        let revision = write::remove(store, kind, key).map_or(0, |last| last.slim.revision);
        metadata_mut(&mut body).insert("resourceVersion".to_owned(), revision.to_string().into());
        return Ok(Deleted {
            stored: Arc::new(write::draft(kind, &body, stored.kept.clone(), revision)),
            removed: true,
            changed: true,
        });
    }
    if waits {
        cascade::add_finalizer(&mut body, FOREGROUND);
    }
    mark(store, kind, &mut body, grace);
    let changed = body != stored.body();
    let marked = if changed {
        store.put(kind.collection, body)
    } else {
        stored
    };
    if waits {
        cascade::release_dependents(store, &uid, &Deletion::foreground());
        cascade::release_foreground(store, &uid);
    }
    empty(store, kind, &marked);
    Ok(Deleted {
        stored: marked,
        removed: false,
        changed,
    })
}

/// What is inside goes first.
fn empty(store: &mut Store, kind: &Kind, marked: &Stored) {
    if kind.is_core("namespaces") {
        cascade::empty_namespace(store, &marked.slim.name);
    }
    if kind.is_crd() {
        crd::empty(store, marked);
    }
}

/// Some namespaces are never deleted.
fn check_protected(kind: &Kind, stored: &Stored) -> Result<(), Refusal> {
    let name = stored.slim.name.as_str();
    if kind.is_core("namespaces") && matches!(name, "default" | "kube-system" | "kube-public") {
        return Err(Refusal::forbidden(
            kind.subject(name),
            "this namespace may not be deleted",
        ));
    }
    Ok(())
}

/// How long a Pod is given to end: only one that is on a node gets any time.
fn grace(kind: &Kind, body: &Body, how: &Deletion) -> i64 {
    let string = |path: &str| {
        at_path(body, path)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let ended = matches!(string(".status.phase"), "Succeeded" | "Failed");
    if !kind.is_core("pods") || string(".spec.nodeName").is_empty() || ended {
        return 0;
    }
    how.grace.unwrap_or_else(|| {
        at_path(body, ".spec.terminationGracePeriodSeconds")
            .and_then(Value::as_i64)
            .unwrap_or(30)
    })
}

/// Set the deletion timestamp, once.
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
    if let Some(generation) = meta.get("generation").and_then(Value::as_i64) {
        meta.insert("generation".to_owned(), (generation + 1).into());
    }
    if kind.is_core("namespaces") {
        map_mut(body, "status").insert("phase".to_owned(), "Terminating".into());
    }
    if kind.is_crd() {
        crd::mark(body, &store.clock.stamp());
    }
}
