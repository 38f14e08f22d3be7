//! The result of a scenario on one side, in a form that is comparable with the other side and with a recording.
//!
//! This module does not know how it is compared.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::scenario::{Compared, Scenario};
use super::side::{Seen, Who};

/// The parts to compare.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Shown {
    /// The calls of handlers with their arguments, in order.
    pub(super) calls: Vec<Value>,
    /// The final object; `null` if it is gone.
    pub(super) object: Value,
    pub(crate) writes: usize,
    /// How operators ended by themselves, and their answers to requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) answers: Vec<String>,
    /// The Events about the object: type, reason, message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) events: Vec<String>,
}

impl Shown {
    pub(super) fn of(who: Who, scenario: &Scenario, seen: &Seen) -> Self {
        let mut calls: Vec<Value> = seen.calls.iter().map(comparable).collect();
        match scenario.compared {
            Compared::Sequence => {}
            Compared::Set => calls.sort_by_key(|call| (call["id"].to_string(), call.to_string())),
            Compared::First(count) => calls.truncate(count),
        }
        Self {
            calls,
            object: settled(who, &seen.object),
            writes: seen.writes,
            answers: seen.answers.clone(),
            events: seen.events.iter().map(said).collect(),
        }
    }
}

/// Returns a call without parts that always differ: its number, the order of the diff.
fn comparable(call: &Value) -> Value {
    let mut call = call.clone();
    if let Some(fields) = call.as_object_mut() {
        fields.remove("number");
    }
    if let Some(items) = call["diff"].as_array_mut() {
        items.sort_by_key(ToString::to_string);
    }
    call
}

/// Formats an Event of the core group.
fn said(event: &Value) -> String {
    let words = ["type", "reason", "message"].map(|key| event[key].as_str().unwrap_or_default());
    words.join(" ")
}

/// Returns an object without parts that always differ, and with the same names for the state that operators keep on it.
fn settled(who: Who, object: &Value) -> Value {
    let mut object = anonymous(object);
    let last_handled = who.last_handled(&object);
    let Some(fields) = object.as_object_mut() else {
        return object;
    };
    fields.remove("apiVersion");
    if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        tidy(who, metadata);
    }
    // Kopf's second progress storage leaves an empty stanza in the status.
    if let Some(status) = fields.get_mut("status").and_then(Value::as_object_mut) {
        status.remove("kopf");
        if status.is_empty() {
            fields.remove("status");
        }
    }
    if let Some(last_handled) = last_handled {
        object["last-handled"] = last_handled;
    }
    object
}

/// Replaces the unique names of a scenario wherever they occur in the object.
fn anonymous(object: &Value) -> Value {
    let mut text = object.to_string();
    let group = object["apiVersion"].as_str().and_then(|it| it.split('/').next());
    let metadata = &object["metadata"];
    for (unique, name) in
        [(metadata["uid"].as_str(), "UID"), (group, "GROUP"), (metadata["namespace"].as_str(), "NAMESPACE")]
    {
        if let Some(unique) = unique {
            text = text.replace(unique, name);
        }
    }
    serde_json::from_str(&text).expect("names are no syntax")
}

fn tidy(who: Who, metadata: &mut Map<String, Value>) {
    let unique = ["uid", "resourceVersion", "creationTimestamp", "managedFields", "namespace"];
    metadata.retain(|key, _| !unique.contains(&key.as_str()));
    if let Some(time) = metadata.get_mut("deletionTimestamp") {
        *time = json!("set");
    }
    if let Some(finalizers) = metadata.get_mut("finalizers").and_then(Value::as_array_mut) {
        for finalizer in finalizers.iter_mut().filter(|it| **it == who.finalizer()) {
            *finalizer = json!("the operator's");
        }
    }
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else {
        return;
    };
    let mut kept = Map::new();
    for (key, value) in std::mem::take(annotations) {
        match key.strip_prefix(who.prefix()) {
            // Kopf does not store the purpose of a cycle (row 4).
            Some("last-handled-configuration" | "target-configuration" | "kopf-managed" | "touch-dummy") => {}
            Some(id) => drop(kept.insert(format!("progress of {id}"), progress(&value))),
            None => drop(kept.insert(key, value)),
        }
    }
    *annotations = kept;
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
}

/// Returns a progress record without its times and digests.
fn progress(text: &Value) -> Value {
    let text = text.as_str().unwrap_or_default();
    let record: Value = serde_json::from_str(text).unwrap_or_else(|_| json!(text));
    let counted = ["purpose", "retries", "success", "failure"];
    counted.into_iter().map(|key| (key.to_owned(), record[key].clone())).collect()
}
