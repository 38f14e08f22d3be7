//! What two sides of a scenario have in common: each made comparable, then aspect by aspect.

use serde_json::{Map, Value, json};

use super::scenario::{Aspect, Difference, Scenario};
use super::side::{Seen, Who, contains};

/// How a scenario ended.
pub(super) enum Verdict {
    Matched,
    /// Different as the rows of the deviation table say.
    Deviates(Vec<u32>),
}

/// What is wrong, if anything is: a difference that no row explains, or a row that explains none.
pub(super) fn judge(scenario: &Scenario, kopf: &Seen, ours: &Seen) -> Result<Verdict, String> {
    let mut wrong = Vec::new();
    if brief(&kopf.calls) != scenario.calls {
        wrong.push(format!("calls of Kopf: {:?}", brief(&kopf.calls)));
    }
    for aspect in [
        Aspect::Calls,
        Aspect::Arguments,
        Aspect::Object,
        Aspect::Writes,
    ] {
        let (theirs, own) = (
            facet(aspect, Who::Kopf, kopf),
            facet(aspect, Who::Ours, ours),
        );
        let explained = scenario.differs.iter().find(|it| it.aspect == aspect);
        let complaint = match explained {
            None if theirs == own => None,
            // Other calls have other arguments: that is one difference, not two.
            None if aspect == Aspect::Arguments && brief(&kopf.calls) != brief(&ours.calls) => None,
            None => Some("they differ, and no row says why".to_owned()),
            Some(it) => unlike(it, &theirs, &own),
        };
        if let Some(complaint) = complaint {
            wrong.push(format!(
                "{aspect:?}: {complaint}\n  Kopf: {theirs}\n  ours: {own}"
            ));
        }
    }
    if !wrong.is_empty() {
        return Err(wrong.join("\n"));
    }
    let rows: Vec<u32> = scenario.differs.iter().map(|it| it.row).collect();
    Ok(if rows.is_empty() {
        Verdict::Matched
    } else {
        Verdict::Deviates(rows)
    })
}

/// Why an explained difference is not as explained.
fn unlike(explained: &Difference, theirs: &Value, own: &Value) -> Option<String> {
    let agrees = |shown: &Value, said: &Value| match explained.aspect {
        Aspect::Object | Aspect::Arguments => contains(shown, said),
        Aspect::Calls => shown == said,
        Aspect::Writes => counted(shown, said),
    };
    let row = explained.row;
    if theirs == own && !may_be_equal(&explained.kopf) {
        Some(format!("row {row} explains a difference that is not there"))
    } else if !agrees(theirs, &explained.kopf) {
        Some(format!(
            "Kopf does not do what row {row} is said to mean: {}",
            explained.kopf
        ))
    } else if !agrees(own, &explained.ours) {
        Some(format!(
            "we do not do what row {row} is said to mean: {}",
            explained.ours
        ))
    } else {
        None
    }
}

/// A count, or a lower bound such as `>8` or `>=8` where it depends on how fast the machine is: a slow one finds the time for the next
/// attempt come before Kopf has begun to wait for it, and so saves a touch.
fn counted(shown: &Value, said: &Value) -> bool {
    let bound = said.as_str().and_then(|text| text.strip_prefix('>'));
    let number = |text: &str| text.parse::<u64>().ok();
    let least = bound.and_then(|bound| match bound.strip_prefix('=') {
        // One touch less.
        Some(bound) => Some(number(bound)? - 1),
        None => Some(number(bound)? + 1),
    });
    match least {
        Some(least) => shown.as_u64().is_some_and(|count| count >= least),
        None => shown == said,
    }
}

fn may_be_equal(said: &Value) -> bool {
    said.as_str().is_some_and(|text| text.starts_with(">="))
}

fn facet(aspect: Aspect, who: Who, seen: &Seen) -> Value {
    match aspect {
        Aspect::Calls => json!(brief(&seen.calls)),
        Aspect::Arguments => seen.calls.iter().map(comparable).collect(),
        Aspect::Object => settled(who, &seen.object),
        Aspect::Writes => json!(seen.writes),
    }
}

/// `id reason retry`, where an event's type stands for the reason.
fn brief(calls: &[Value]) -> Vec<String> {
    let word = |call: &Value, key: &str| match &call[key] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let line = |call: &Value| {
        let why = if call["reason"].is_null() {
            "type"
        } else {
            "reason"
        };
        format!(
            "{} {} {}",
            word(call, "id"),
            word(call, why),
            word(call, "retry")
        )
    };
    calls.iter().map(line).collect()
}

/// A call without what differs by nature: its number, the order of the differences.
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

/// An object without what differs by nature, and with the names of what operators keep on it made equal.
fn settled(who: Who, object: &Value) -> Value {
    let mut object = object.clone();
    let last_handled = who.last_handled(&object);
    let Some(fields) = object.as_object_mut() else {
        return object;
    };
    fields.remove("apiVersion");
    if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        tidy(who, metadata);
    }
    // Kopf's other progress storage leaves its stanza behind.
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

fn tidy(who: Who, metadata: &mut Map<String, Value>) {
    let unique = [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "managedFields",
        "namespace",
    ];
    metadata.retain(|key, _| !unique.contains(&key.as_str()));
    if let Some(time) = metadata.get_mut("deletionTimestamp") {
        *time = json!("set");
    }
    if let Some(finalizers) = metadata.get_mut("finalizers").and_then(Value::as_array_mut) {
        for finalizer in finalizers.iter_mut().filter(|it| **it == who.finalizer()) {
            *finalizer = json!("the operator's");
        }
    }
    let Some(annotations) = metadata
        .get_mut("annotations")
        .and_then(Value::as_object_mut)
    else {
        return;
    };
    let mut kept = Map::new();
    for (key, value) in std::mem::take(annotations) {
        match key.strip_prefix(who.prefix()) {
            // Kopf has no place for what a cycle is for (row 4).
            Some(
                "last-handled-configuration"
                | "target-configuration"
                | "kopf-managed"
                | "touch-dummy",
            ) => {}
            Some(id) => drop(kept.insert(format!("progress of {id}"), progress(&value))),
            None => drop(kept.insert(key, value)),
        }
    }
    *annotations = kept;
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
}

/// A progress record without its times and digests.
fn progress(text: &Value) -> Value {
    let text = text.as_str().unwrap_or_default();
    let record: Value = serde_json::from_str(text).unwrap_or_else(|_| json!(text));
    let counted = ["purpose", "retries", "success", "failure"];
    counted
        .into_iter()
        .map(|key| (key.to_owned(), record[key].clone()))
        .collect()
}
