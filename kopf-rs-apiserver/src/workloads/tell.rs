//! How controllers read and write: as somebody's manager, through the same checks as requests.
//!
//! Promise: a write that changes nothing is none; what is refused is left as it is. Must not know kinds.

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

/// Who writes, as `managedFields` have it.
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

/// The kind of these names.
pub(super) fn kind(store: &Store, group: &str, plural: &str) -> Option<Arc<Kind>> {
    store.kinds.any_version(group, plural).cloned()
}

/// Create an object, or not, if it is refused.
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

/// Write an object's new state, if it differs.
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
    // Refused by a rule: the next change of the object brings us here again.
    let _written = write::replace(store, change, old, body);
}

/// Write an object's status, if it differs.
pub(super) fn set_status(store: &mut Store, kind: &Kind, old: &Stored, status: Value) {
    let mut body = old.body();
    if body.get("status") == Some(&status) {
        return;
    }
    body.insert("status".to_owned(), status);
    update(store, kind, old, Part::Status, body);
}

/// Delete an object in the background.
pub(super) fn delete(store: &mut Store, kind: &Kind, key: &str) {
    let _outcome = delete_key(store, kind, key, &Deletion::default());
}

/// Remove an object that was given time to end.
pub(super) fn finish(store: &mut Store, kind: &Kind, key: &str) {
    let _outcome = delete_key(store, kind, key, &Deletion::at_once());
}

/// The objects of a kind in an object's namespace.
pub(super) fn beside(store: &Store, kind: &Kind, stored: &Stored) -> Vec<Arc<Stored>> {
    store.under(kind.collection, &prefix(stored))
}

/// The objects of a kind that an object of their namespace controls, oldest first.
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

/// What the keys of all that shares an object's namespace begin with.
fn prefix(stored: &Stored) -> String {
    let namespace = stored.slim.namespace.as_ref();
    namespace.map(|name| format!("{name}/")).unwrap_or_default()
}

/// The uid of an object's controller.
pub(super) fn controller_of(body: &Body) -> Option<String> {
    let owners = owners(metadata(body)?);
    let mut controllers = owners
        .into_iter()
        .filter(|owner| owner.get("controller") == Some(&Value::Bool(true)));
    Some(text(controllers.next()?, "uid").to_owned())
}

/// A reference to the controller of what it is put on.
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

/// When an object was created.
pub(super) fn created(body: &Body) -> Option<Timestamp> {
    time(at_path(body, ".metadata.creationTimestamp"))
}

/// A time in an object.
pub(super) fn time(value: Option<&Value>) -> Option<Timestamp> {
    value?.as_str()?.parse().ok()
}

/// A number in an object, zero if it is not there.
pub(super) fn number(body: &Body, path: &str) -> i64 {
    at_path(body, path)
        .and_then(Value::as_i64)
        .unwrap_or_default()
}

/// A text in an object, empty if it is not there.
pub(super) fn word<'a>(body: &'a Body, path: &str) -> &'a str {
    at_path(body, path)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The status of a condition, empty if there is none.
pub(super) fn condition<'a>(body: &'a Body, of: &str) -> &'a str {
    let list = at_path(body, ".status.conditions").and_then(Value::as_array);
    let found = list.into_iter().flatten().find(|found| found["type"] == of);
    found
        .and_then(|found| found["status"].as_str())
        .unwrap_or_default()
}

/// Put counts into a status; those of nothing are left out.
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

/// Set a condition in a list of them; its time of transition changes only if its status does.
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

/// The conditions an object has.
pub(super) fn conditions(body: &Body) -> Vec<Value> {
    let list = at_path(body, ".status.conditions").and_then(Value::as_array);
    list.cloned().unwrap_or_default()
}

/// Set annotations of an object; whether that changed anything.
pub(super) fn annotate(body: &mut Body, annotations: &[(&str, &str)]) -> bool {
    let found = map_mut(crate::object::metadata_mut(body), "annotations");
    let mut changed = false;
    for (key, value) in annotations {
        changed |= found.get(*key).is_none_or(|old| old != value);
        found.insert((*key).to_owned(), (*value).into());
    }
    changed
}
