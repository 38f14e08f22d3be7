//! Accepts the names of a definition: within its group, each name belongs to one kind.
//!
//! An accepted name stays accepted, regardless of later requests. Independent of conditions.

use serde_json::Value;

use crate::object::{Body, at_path, map_mut, text};
use crate::store::Store;

/// Accepts the requested names that are free; returns the reason and message of the last conflict.
pub(super) fn accept(store: &Store, body: &mut Body) -> Option<(&'static str, String)> {
    let (resources, kinds) = taken(store, body);
    let asked = at_path(body, "spec.names").cloned().unwrap_or_default();
    let accepted = map_mut(map_mut(body, "status"), "acceptedNames");
    let mut conflict = None;
    for (name, reason, taken) in [
        ("plural", "PluralConflict", &resources),
        ("singular", "SingularConflict", &resources),
        ("shortNames", "ShortNamesConflict", &resources),
        ("kind", "KindConflict", &kinds),
        ("listKind", "ListKindConflict", &kinds),
    ] {
        let wanted = asked.get(name).unwrap_or(&Value::Null);
        match refused(wanted, accepted.get(name), taken) {
            Some(message) => conflict = Some((reason, message)),
            None => set(accepted, name, wanted),
        }
    }
    set(
        accepted,
        "categories",
        asked.get("categories").unwrap_or(&Value::Null),
    );
    conflict
}

fn set(accepted: &mut Body, name: &str, wanted: &Value) {
    if wanted.is_null() {
        accepted.remove(name);
    } else {
        accepted.insert(name.to_owned(), wanted.clone());
    }
}

/// Returns the error for one or several names that other definitions use.
fn refused(wanted: &Value, accepted: Option<&Value>, taken: &[String]) -> Option<String> {
    let told = |name: &str| format!("{name:?} is already in use");
    let is_taken = |name: &&str| taken.iter().any(|other| other == name);
    match wanted {
        Value::String(name) if accepted != Some(wanted) => {
            Some(name.as_str()).filter(is_taken).map(told)
        }
        Value::Array(names) => {
            let known = accepted.and_then(Value::as_array);
            let fresh = |name: &&Value| known.is_none_or(|known| !known.contains(name));
            let names = names.iter().filter(fresh).filter_map(Value::as_str);
            let told: Vec<String> = names.filter(is_taken).map(told).collect();
            match told.as_slice() {
                [] => None,
                [one] => Some(one.clone()),
                many => Some(format!("[{}]", many.join(", "))),
            }
        }
        _ => None,
    }
}

/// Returns the resource names and kind names that the definitions of the group use, including this one.
fn taken(store: &Store, body: &Body) -> (Vec<String>, Vec<String>) {
    let group = at_path(body, "spec.group").cloned().unwrap_or_default();
    let (mut resources, mut kinds) = (Vec::new(), Vec::new());
    let Some(kind) = super::definitions(store) else {
        return (resources, kinds);
    };
    for stored in store.under(kind.collection, "") {
        let other = stored.body();
        if at_path(&other, "spec.group") != Some(&group) {
            continue;
        }
        let Some(names) = at_path(&other, "status.acceptedNames").and_then(Value::as_object) else {
            continue;
        };
        let of = |name: &str| Some(text(names, name).to_owned()).filter(|name| !name.is_empty());
        resources.extend(["plural", "singular"].into_iter().filter_map(of));
        resources.extend(super::strings(&other, "status.acceptedNames.shortNames"));
        kinds.extend(["kind", "listKind"].into_iter().filter_map(of));
    }
    (resources, kinds)
}
