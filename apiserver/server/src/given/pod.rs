//! The fields that a new Pod gets from its priority class and runtime class, and the rules for these classes.
//!
//! Guarantees that a Pod which contradicts its classes is refused. Must not depend on requests.

use serde_json::{Value, json};

use crate::kind::{Kind, defaults};
use crate::object::{Body, at_path, map_mut, meta_text, set_path, text};
use crate::status::Refusal;
use crate::store::Store;
use crate::typed::nanos;

/// Completes a new Pod before it is validated.
pub(super) fn complete(store: &Store, kind: &Kind, body: &mut Body) -> Result<(), Refusal> {
    priority(store, kind, body)?;
    runtime(store, kind, body)
}

/// Refuses overhead that no runtime class sets, and a second default priority class.
pub(crate) fn permit(
    store: &Store,
    kind: &Kind,
    old: Option<&Body>,
    body: &Body,
) -> Result<(), Refusal> {
    if kind.is_core("pods") && old.is_none() && at_path(body, ".spec.overhead").is_some() {
        let name = at_path(body, ".spec.runtimeClassName").and_then(Value::as_str);
        let class = name.and_then(|name| class(store, RUNTIMES, name));
        if class.is_none_or(|class| !class.contains_key("overhead")) {
            let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
            return Err(forbidden(kind, body, why));
        }
    }
    if (kind.group.as_str(), kind.plural.as_str()) == PRIORITIES
        && body.get("globalDefault") == Some(&Value::Bool(true))
        && let Some(other) = usual(store)
    {
        let other = meta_text(&other, "name");
        if old.is_none() || other != meta_text(body, "name") {
            let why = format!(
                "PriorityClass {other} is already marked as default. Only one default can exist"
            );
            return Err(forbidden(kind, body, &why));
        }
    }
    Ok(())
}

/// The group and plural of a kind of classes.
type Classes = (&'static str, &'static str);
const RUNTIMES: Classes = ("node.k8s.io", "runtimeclasses");
const PRIORITIES: Classes = ("scheduling.k8s.io", "priorityclasses");

fn class(store: &Store, (group, plural): Classes, name: &str) -> Option<Body> {
    let kind = store.kinds.kind(group, "v1", plural)?;
    Some(store.get(kind.collection, name)?.body())
}

fn forbidden(kind: &Kind, body: &Body, why: &str) -> Refusal {
    Refusal::forbidden(kind.subject(meta_text(body, "name")), why)
}

/// Returns the default priority class; if there are several, the one with the lowest value.
fn usual(store: &Store) -> Option<Body> {
    let (group, plural) = PRIORITIES;
    let kind = store.kinds.kind(group, "v1", plural)?;
    let classes = store.under(kind.collection, "").into_iter();
    let classes = classes.map(|class| class.body());
    let marked = classes.filter(|class| class.get("globalDefault") == Some(&Value::Bool(true)));
    marked.min_by_key(|class| class.get("value").and_then(Value::as_i64))
}

/// Sets the priority of a Pod from its class.
fn priority(store: &Store, kind: &Kind, body: &mut Body) -> Result<(), Refusal> {
    let named = at_path(body, ".spec.priorityClassName").and_then(Value::as_str);
    let class = match named.filter(|name| !name.is_empty()) {
        None => usual(store),
        Some(name) => {
            let why = || format!("no PriorityClass with name {name} was found");
            let found = class(store, PRIORITIES, name);
            Some(found.ok_or_else(|| forbidden(kind, body, &why()))?)
        }
    };
    let class = class.unwrap_or_default();
    let value = class
        .get("value")
        .and_then(Value::as_i64)
        .unwrap_or_default();
    let policy = match text(&class, "preemptionPolicy") {
        "" => "PreemptLowerPriority",
        policy => policy,
    };
    let given = at_path(body, ".spec.priority").and_then(Value::as_i64);
    if let Some(given) = given.filter(|given| *given != value) {
        let why = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name"
        );
        return Err(forbidden(kind, body, &why));
    }
    let given = at_path(body, ".spec.preemptionPolicy").and_then(Value::as_str);
    if let Some(given) = given.filter(|given| *given != policy) {
        let why = format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        );
        return Err(forbidden(kind, body, &why));
    }
    let name = meta_text(&class, "name");
    if !name.is_empty() {
        set_path(body, ".spec.priorityClassName", name.into());
    }
    set_path(body, ".spec.priority", value.into());
    set_path(body, ".spec.preemptionPolicy", policy.into());
    Ok(())
}

/// Sets the overhead of a Pod from its runtime class, and restricts it to the class's nodes.
fn runtime(store: &Store, kind: &Kind, body: &mut Body) -> Result<(), Refusal> {
    let named = at_path(body, ".spec.runtimeClassName").and_then(Value::as_str);
    let Some(name) = named else {
        return Ok(());
    };
    let Some(class) = class(store, RUNTIMES, name) else {
        let why = format!("pod rejected: RuntimeClass {name:?} not found");
        return Err(forbidden(kind, body, &why));
    };
    if let Some(Value::Object(overhead)) = at_path(&class, ".overhead.podFixed") {
        let given = at_path(body, ".spec.overhead").and_then(Value::as_object);
        if given.is_some_and(|given| !given.is_empty() && !is_same(given, overhead)) {
            let why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
            return Err(forbidden(kind, body, why));
        }
        set_path(body, ".spec.overhead", Value::Object(overhead.clone()));
    }
    let Some(Value::Object(place)) = class.get("scheduling") else {
        return Ok(());
    };
    if let Err(why) = select(place, map_mut(body, "spec")) {
        return Err(forbidden(kind, body, &why));
    }
    Ok(())
}

/// Returns whether two lists of resources have equal amounts.
fn is_same(one: &Body, other: &Body) -> bool {
    let amount = |value: &Value| value.as_str().and_then(nanos);
    one.len() == other.len()
        && one.iter().all(|(name, value)| {
            let found = other.get(name);
            found.is_some_and(|found| amount(found) == amount(value))
        })
}

/// Adds the node selector and tolerations of a runtime class to a Pod.
fn select(place: &Body, spec: &mut Body) -> Result<(), String> {
    let wanted = place.get("nodeSelector").and_then(Value::as_object);
    for (key, value) in wanted.into_iter().flatten() {
        let selector = map_mut(spec, "nodeSelector");
        if let Some(given) = selector.get(key).filter(|given| *given != value) {
            let (value, given) = (value.as_str(), given.as_str());
            let (value, given) = (value.unwrap_or_default(), given.unwrap_or_default());
            return Err(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {given}"
            ));
        }
        selector.insert(key.clone(), value.clone());
    }
    let more = place.get("tolerations").and_then(Value::as_array);
    let Some(more) = more.filter(|more| !more.is_empty()) else {
        return Ok(());
    };
    defaults::tolerate_trouble(spec);
    let had = spec.get("tolerations").and_then(Value::as_array);
    let all: Vec<Value> = had.into_iter().flatten().chain(more).cloned().collect();
    let mut merged: Vec<Value> = Vec::new();
    for (at, one) in all.iter().enumerate() {
        let before = merged.iter().any(|other| covers(other, one));
        let after = all[at + 1..]
            .iter()
            .any(|other| other != one && covers(other, one));
        if !before && !after {
            merged.push(one.clone());
        }
    }
    spec.insert("tolerations".to_owned(), json!(merged));
    Ok(())
}

/// Returns whether one toleration includes all that another tolerates.
fn covers(one: &Value, other: &Value) -> bool {
    if one == other {
        return true;
    }
    let same = |field: &str| {
        one[field].as_str().unwrap_or_default() == other[field].as_str().unwrap_or_default()
    };
    let empty = |field: &str| one[field].as_str().unwrap_or_default().is_empty();
    let exists = one["operator"] == "Exists";
    let key = same("key") || empty("key") && exists;
    if !key || !(same("effect") || empty("effect")) {
        return false;
    }
    if let Some(most) = one["tolerationSeconds"]
        .as_i64()
        .filter(|_| one["effect"] == "NoExecute")
        && other["tolerationSeconds"]
            .as_i64()
            .is_none_or(|seconds| seconds > most)
    {
        return false;
    }
    exists || other["operator"] != "Exists" && same("value")
}
