//! Reads and writes objects for the controllers, with the checks that apply to requests.
//!
//! Guarantees that a write without changes is skipped. A refused write is dropped. Must not depend on kinds.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kind::Kind;
use crate::managed::Author;
use crate::managed::set::Set;
use crate::object::{Body, Stored, at_path, map_mut, metadata, owners, text};
use crate::store::Store;
use crate::typed;
use crate::verb::{Birth, Deletion, Part, create_body, delete_key};
use crate::write::{self, Change};

/// The field manager of the controllers.
const CONTROLLERS: &str = "kube-controller-manager";

fn author(store: &Store, kind: &Kind, part: Part) -> Author {
    let (subresource, closed) = match part {
        Part::Status => ("status", &[&["metadata"][..], &["spec"]][..]),
        _ if kind.traits.status => ("", &[&["status"][..]][..]),
        _ => ("", &[][..]),
    };
    Author {
        manager: CONTROLLERS.to_owned(),
        api_version: kind.api_version(),
        subresource,
        time: store.clock.stamp(),
        closed: Arc::new(Set::of_fields(closed)),
    }
}

/// Returns the kind with this group and plural.
pub(super) fn kind(store: &Store, group: &str, plural: &str) -> Option<Arc<Kind>> {
    store.kinds.any_version(group, plural).cloned()
}

/// Creates an object; returns `None` if it is refused.
pub(super) fn create(store: &mut Store, kind: &Kind, body: Value) -> Option<Arc<Stored>> {
    let Value::Object(body) = body else {
        return None;
    };
    let namespace = crate::object::meta_text(&body, "namespace").to_owned();
    let of = kind.stored_type()?;
    let (body, _unknown) = typed::shape(of, body).ok()?;
    let author = author(store, kind, Part::Main);
    let birth = Birth {
        kind,
        namespace: Some(namespace.as_str()).filter(|name| !name.is_empty()),
        author: &author,
        managed: None,
        upserted: false,
        dry_run: false,
    };
    create_body(store, &birth, body).ok()
}

/// Writes an object's new state if it differs.
pub(super) fn update(store: &mut Store, kind: &Kind, old: &Stored, part: Part, body: Body) {
    let Some(of) = kind.stored_type() else {
        return;
    };
    let Ok((body, _unknown)) = typed::shape(of, body) else {
        return;
    };
    let author = author(store, kind, part);
    let change = Change {
        kind,
        part,
        author: &author,
        managed: None,
        dry_run: false,
    };
    // If a rule refuses the write, the next change of the object triggers another attempt.
    let _written = write::replace(store, change, old, body);
}

/// Writes an object's status if it differs.
pub(super) fn set_status(store: &mut Store, kind: &Kind, old: &Stored, status: Value) {
    let mut body = old.body();
    if body.get("status") == Some(&status) {
        return;
    }
    body.insert("status".to_owned(), status);
    update(store, kind, old, Part::Status, body);
}

/// Deletes an object with background propagation.
pub(super) fn delete(store: &mut Store, kind: &Kind, key: &str) {
    let _outcome = delete_key(store, kind, key, &Deletion::default());
}

/// Deletes an object immediately, after its grace period.
pub(super) fn finish(store: &mut Store, kind: &Kind, key: &str) {
    let _outcome = delete_key(store, kind, key, &Deletion::at_once());
}

/// Returns the objects of a kind in an object's namespace.
pub(super) fn beside(store: &Store, kind: &Kind, stored: &Stored) -> Vec<Arc<Stored>> {
    store.under(kind.collection, &prefix(stored))
}

/// Returns the objects of a kind that are controlled by `owner`, oldest first.
pub(super) fn controlled(store: &Store, kind: &Kind, owner: &Stored) -> Vec<Arc<Stored>> {
    let (prefix, uid) = (prefix(owner), owner.slim.uid.as_str());
    let dependents = store.dependents(uid);
    let mut found: Vec<Arc<Stored>> = dependents
        .into_iter()
        .filter(|(id, key)| *id == kind.collection && key.starts_with(&prefix))
        .filter_map(|(id, key)| store.get(id, &key))
        .filter(|stored| controller_of(&stored.body()).as_deref() == Some(uid))
        .collect();
    found.sort_by_key(|stored| (created(&stored.body()), stored.slim.name.clone()));
    found
}

/// Returns the key prefix of an object's namespace.
fn prefix(stored: &Stored) -> String {
    let namespace = stored.slim.namespace.as_ref();
    namespace.map(|name| format!("{name}/")).unwrap_or_default()
}

/// Returns the uid of an object's controller.
pub(super) fn controller_of(body: &Body) -> Option<String> {
    let owners = owners(metadata(body)?);
    let mut controllers = owners
        .into_iter()
        .filter(|owner| owner.get("controller") == Some(&Value::Bool(true)));
    Some(text(controllers.next()?, "uid").to_owned())
}

/// Returns owner references that name the controller of an object.
pub(super) fn owned_by(kind: &Kind, owner: &Stored) -> Value {
    json!([{
        "apiVersion": kind.api_version(),
        "kind": kind.kind,
        "name": owner.slim.name,
        "uid": owner.slim.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    }])
}

/// Returns the creation time of an object.
pub(super) fn created(body: &Body) -> Option<Timestamp> {
    time(at_path(body, ".metadata.creationTimestamp"))
}

/// Parses a timestamp in an object.
pub(super) fn time(value: Option<&Value>) -> Option<Timestamp> {
    value?.as_str()?.parse().ok()
}

/// Returns a number in an object, or zero if it is missing.
pub(super) fn number(body: &Body, path: &str) -> i64 {
    at_path(body, path)
        .and_then(Value::as_i64)
        .unwrap_or_default()
}

/// Returns a string in an object, or an empty one if it is missing.
pub(super) fn word<'a>(body: &'a Body, path: &str) -> &'a str {
    at_path(body, path)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Returns the status of a condition, or an empty string if it is missing.
pub(super) fn condition<'a>(body: &'a Body, of: &str) -> &'a str {
    let list = at_path(body, ".status.conditions").and_then(Value::as_array);
    let found = list.into_iter().flatten().find(|found| found["type"] == of);
    found
        .and_then(|found| found["status"].as_str())
        .unwrap_or_default()
}

/// Sets counters in a status; omits zeros.
pub(super) fn counts<T>(status: &mut Value, counts: impl IntoIterator<Item = (&'static str, T)>)
where
    T: Default + Into<Value> + PartialOrd,
{
    for (field, count) in counts {
        if count > T::default() {
            status[field] = count.into();
        }
    }
}

/// Sets a condition in a list; its transition time changes only if its status does.
pub(super) fn set_condition(conditions: &mut Vec<Value>, mut new: Value, now: &str) {
    let old = conditions.iter_mut().find(|old| old["type"] == new["type"]);
    new["lastTransitionTime"] = now.into();
    match old {
        None => conditions.push(new),
        Some(old) => {
            let same = old["status"] == new["status"];
            if same {
                new["lastTransitionTime"] = old["lastTransitionTime"].clone();
            }
            let telling = |one: &Value| (one["reason"].clone(), one["message"].clone());
            if let Some(updated) = old
                .get("lastUpdateTime")
                .filter(|_| same && telling(old) == telling(&new))
            {
                new["lastUpdateTime"] = updated.clone();
            }
            *old = new;
        }
    }
}

/// Returns the conditions of an object.
pub(super) fn conditions(body: &Body) -> Vec<Value> {
    let list = at_path(body, ".status.conditions").and_then(Value::as_array);
    list.cloned().unwrap_or_default()
}

/// Sets annotations of an object; returns whether one changed.
pub(super) fn annotate(body: &mut Body, annotations: &[(&str, &str)]) -> bool {
    let found = map_mut(crate::object::metadata_mut(body), "annotations");
    let mut changed = false;
    for (key, value) in annotations {
        changed |= found.get(*key).is_none_or(|old| old != value);
        found.insert((*key).to_owned(), (*value).into());
    }
    changed
}
