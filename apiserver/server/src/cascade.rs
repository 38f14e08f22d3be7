//! Cascading deletion: dependents of an owner, the content of a namespace, the instances of a CRD.
//!
//! Runs immediately and under the same lock, while the controllers of a real cluster take a moment. Respects finalizers.
//! Independent of requests.

mod namespace;
mod steps;

use serde_json::{Value, json};

pub(crate) use steps::Steps;
use steps::{Late, Step};

use crate::kind::{CollectionId, Kind, crd};
use crate::managed::Author;
use crate::object::{Body, Stored, finalizers, metadata, metadata_mut, owners, text};
use crate::store::Store;
use crate::verb::{Deletion, Part, delete_key};
use crate::write::{self, Change};

/// The finalizer of an owner that waits for its dependents.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an owner whose dependents are to be orphaned.
pub(crate) const ORPHAN: &str = "orphan";

/// The state of an owner.
enum Standing {
    There,
    Absent,
    /// The kind of the owner is not served, or its scope does not fit that of the dependent.
    Unknown,
}

/// Runs after an object was removed: cleans up its dependents, and lets waiting owners and namespaces go.
pub(crate) fn removed(store: &mut Store, kind: &Kind, stored: &Stored) {
    let uid = stored.slim.uid.clone();
    store.steps.add(Step::Dependents(uid, Deletion::default()));
    for owner in &stored.slim.owners {
        store.steps.add_late(Late::Owner(owner.clone()));
    }
    if let Some(namespace) = &stored.slim.namespace {
        store.steps.add_late(Late::Namespace(namespace.clone()));
    }
    take_steps(store);
    crd::finish(store, kind);
}

/// Starts a foreground deletion: deletes the dependents of an owner first, and then the owner.
pub(crate) fn begin_foreground(store: &mut Store, owner: &str) {
    let step = Step::Dependents(owner.to_owned(), Deletion::foreground());
    store.steps.add(step);
    store.steps.add_late(Late::Owner(owner.to_owned()));
    take_steps(store);
}

/// Runs all steps in a loop rather than recursively, because owner chains may be arbitrarily long and may form cycles.
fn take_steps(store: &mut Store) {
    if !store.steps.begin() {
        return;
    }
    loop {
        if let Some(step) = store.steps.next() {
            match step {
                Step::Dependents(owner, how) => release_dependents(store, &owner, &how),
                Step::Namespace(namespace) => empty_namespace_now(store, &namespace),
            }
        } else if let Some(late) = store.steps.next_late() {
            match late {
                Late::Owner(owner) => release_foreground(store, &owner),
                Late::Namespace(namespace) => finish_namespace(store, &namespace),
            }
        } else {
            break;
        }
    }
    store.steps.end();
}

/// Deletes dependents without another living owner; removes the owner reference from the others.
fn release_dependents(store: &mut Store, owner: &str, how: &Deletion) {
    for (id, key) in store.dependents(owner) {
        settle_owners(store, (id, &key), owner, how);
    }
}

/// Deletes an object if all its owners are gone; if some still exist, removes the references to the others.
pub(crate) fn check_owners(store: &mut Store, id: CollectionId, key: &str) {
    settle_owners(store, (id, key), "", &Deletion::default());
}

/// Like [`check_owners`], but treats the owner `going` as absent.
fn settle_owners(store: &mut Store, (id, key): (CollectionId, &str), going: &str, how: &Deletion) {
    let Some((kind, stored)) = found(store, id, key) else {
        return;
    };
    let body = stored.body();
    let (mut absent, mut others) = (Vec::new(), false);
    for owner in metadata(&body).map(owners).unwrap_or_default() {
        let uid = text(owner, "uid");
        match standing(store, &kind, &stored, owner) {
            Standing::There if uid != going => others = true,
            Standing::There | Standing::Absent => absent.push(uid.to_owned()),
            Standing::Unknown => return,
        }
    }
    if others {
        for owner in absent {
            if let Some(stored) = store.get(id, key) {
                unhook(store, &kind, &stored, &owner);
            }
        }
    } else if !absent.is_empty() {
        if waits_in_a_circle(store, &stored.slim.uid) {
            unblock(store, &kind, &stored);
        }
        // An error means that the object is gone already or that admission refused; both leave nothing to do.
        let _outcome = delete_key(store, &kind, key, how);
    }
}

/// Returns true if a dependent of the object is in foreground deletion itself: in a cycle of owners, both would wait for each other forever.
fn waits_in_a_circle(store: &Store, uid: &str) -> bool {
    store.dependents(uid).iter().any(|(id, key)| {
        store.get(*id, key).is_some_and(|stored| {
            stored.slim.terminating && finalizers(&stored.body()).contains(&FOREGROUND)
        })
    })
}

fn standing(store: &Store, kind: &Kind, dependent: &Stored, owner: &Body) -> Standing {
    let (version, word) = (text(owner, "apiVersion"), text(owner, "kind"));
    let mut kinds = store.kinds.iter();
    let of = kinds.find(|kind| kind.kind == word && kind.api_version() == version);
    let Some(of) = of.filter(|of| kind.namespaced || !of.namespaced) else {
        return Standing::Unknown;
    };
    let namespace = dependent
        .slim
        .namespace
        .as_deref()
        .filter(|_| of.namespaced);
    let key = crate::store::key(namespace, text(owner, "name"));
    let found = store.get(of.collection, &key);
    match found.filter(|found| found.slim.uid == text(owner, "uid")) {
        Some(_) => Standing::There,
        None => Standing::Absent,
    }
}

/// Removes the reference to this owner from all its dependents, so that they survive.
pub(crate) fn orphan_dependents(store: &mut Store, owner: &str) {
    for (id, key) in store.dependents(owner) {
        if let Some((kind, stored)) = found(store, id, &key) {
            unhook(store, &kind, &stored, owner);
        }
    }
}

/// Removes an owner in foreground deletion if no dependent blocks it any more.
fn release_foreground(store: &mut Store, owner: &str) {
    let Some((id, key)) = store.place_of(owner).cloned() else {
        return;
    };
    let Some((kind, stored)) = found(store, id, &key) else {
        return;
    };
    let body = stored.body();
    let waits = stored.slim.terminating && finalizers(&body).contains(&FOREGROUND);
    let dependents = store.dependents(owner);
    if waits
        && !dependents
            .iter()
            .any(|(id, key)| blocks(store, *id, key, owner))
    {
        let_go(store, &kind, &key, FOREGROUND);
    }
}

/// Removes a finalizer, and the terminating object with the last one, unless its grace period is not over.
pub(crate) fn let_go(store: &mut Store, kind: &Kind, key: &str, finalizer: &str) {
    let Some(stored) = store.get(kind.collection, key) else {
        return;
    };
    let mut body = stored.body();
    remove_finalizer(&mut body, finalizer);
    let grace = metadata(&body).and_then(|meta| meta.get("deletionGracePeriodSeconds")?.as_i64());
    if finalizers(&body).is_empty() && grace.unwrap_or_default() == 0 {
        write::remove(store, kind, key);
    } else {
        store.put(kind.collection, body);
    }
}

fn blocks(store: &Store, id: CollectionId, key: &str, owner: &str) -> bool {
    store.get(id, key).is_some_and(|stored| {
        let body = stored.body();
        let empty = Body::new();
        owners(metadata(&body).unwrap_or(&empty))
            .iter()
            .any(|found| {
                text(found, "uid") == owner
                    && found.get("blockOwnerDeletion") == Some(&Value::Bool(true))
            })
    })
}

fn found(
    store: &Store,
    id: CollectionId,
    key: &str,
) -> Option<(std::sync::Arc<Kind>, std::sync::Arc<Stored>)> {
    Some((store.kinds.of_collection(id)?.clone(), store.get(id, key)?))
}

/// Removes the reference to an owner from an object.
fn unhook(store: &mut Store, kind: &Kind, stored: &Stored, owner: &str) {
    let mut body = stored.body();
    let meta = metadata_mut(&mut body);
    if let Some(Value::Array(owners)) = meta.get_mut("ownerReferences") {
        owners.retain(|found| found.get("uid").and_then(Value::as_str) != Some(owner));
        if owners.is_empty() {
            meta.remove("ownerReferences");
        }
    }
    rewrite(store, kind, stored, body);
}

/// Clears `blockOwnerDeletion` in all owner references of an object.
fn unblock(store: &mut Store, kind: &Kind, stored: &Stored) {
    let mut body = stored.body();
    let owners = metadata_mut(&mut body).get_mut("ownerReferences");
    let owners = owners.and_then(Value::as_array_mut).into_iter().flatten();
    for owner in owners.filter(|owner| owner.get("blockOwnerDeletion").is_some()) {
        owner["blockOwnerDeletion"] = false.into();
    }
    rewrite(store, kind, stored, body);
}

fn rewrite(store: &mut Store, kind: &Kind, stored: &Stored, body: Body) {
    let author = Author::server(&kind.api_version(), store.clock.stamp());
    let change = Change {
        kind,
        part: Part::Main,
        author: &author,
        managed: None,
        dry_run: false,
    };
    // If the object fails validation for another reason, the change is stored regardless.
    if write::replace(store, change, stored, body.clone()).is_err() {
        store.put(kind.collection, body);
    }
}

/// Removes a finalizer.
pub(crate) fn remove_finalizer(body: &mut Body, name: &str) {
    let meta = metadata_mut(body);
    if let Some(Value::Array(finalizers)) = meta.get_mut("finalizers") {
        finalizers.retain(|found| found.as_str() != Some(name));
        if finalizers.is_empty() {
            meta.remove("finalizers");
        }
    }
}

/// Adds a finalizer, unless the object has it.
pub(crate) fn add_finalizer(body: &mut Body, name: &str) {
    let slot = metadata_mut(body)
        .entry("finalizers")
        .or_insert_with(|| json!([]));
    if let Some(items) = slot.as_array_mut()
        && !items.iter().any(|found| found.as_str() == Some(name))
    {
        items.push(name.into());
    }
}

/// Deletes all objects in a namespace; the namespace itself is removed when it is empty.
pub(crate) fn empty_namespace(store: &mut Store, namespace: &str) {
    store.steps.add(Step::Namespace(namespace.to_owned()));
    take_steps(store);
}

/// Executes the step of [`empty_namespace`].
fn empty_namespace_now(store: &mut Store, namespace: &str) {
    for (id, key) in store.everything_in(namespace) {
        if let Some((kind, _)) = found(store, id, &key) {
            let _outcome = delete_key(store, &kind, &key, &Deletion::at_once());
        }
    }
    store.steps.add_late(Late::Namespace(namespace.to_owned()));
}

/// Removes a terminating namespace if it is empty; otherwise sets conditions that say what remains.
pub(crate) fn finish_namespace(store: &mut Store, namespace: &str) {
    let Some(kind) = store.kinds.kind("", "v1", "namespaces").cloned() else {
        return;
    };
    let Some(found) = store.get(kind.collection, namespace) else {
        return;
    };
    if !found.slim.terminating {
        return;
    }
    let body = found.body();
    if store.anything_in(namespace) {
        return namespace::tell_what_is_left(store, &kind, &body, namespace);
    }
    if finalizers(&body).is_empty() && !namespace::is_held(&body) {
        write::remove(store, &kind, namespace);
    }
}
