//! Interprets the running operator's report about the object: `/statusz?uid=` of its liveness endpoint.
//!
//! Parses leniently, since an operator of another version may report less or more.

use serde_json::Value;

use crate::object::resource::Resource;
use crate::why::explanation::Verdict;

/// Returns the obstacle that keeps the operator from handling the object, regardless of the object's state.
pub(crate) fn obstacle(said: &Value, resource: &Resource, namespace: Option<&str>) -> Option<Verdict> {
    if let Some(nobody) = lack_of_a_holder(&said["lease"]) {
        return Some(nobody);
    }
    if said["paused"] == true {
        let summary = "the running operator is paused".to_owned();
        let wakes = "the end of the active operator, or of its lifetime in the peering";
        return Some(Verdict::new("paused", summary).until(wakes));
    }
    let name = resource.to_string();
    let is_ours = |watch: &&Value| {
        let of = watch["namespace"].as_str();
        watch["resource"] == *name && (of.is_none() || of == namespace)
    };
    let mut watches = said["watches"].as_array().into_iter().flatten();
    let down = watches.find(|it| is_ours(it) && it["error"].is_string())?;
    let error = down["error"].as_str().unwrap_or_default();
    let summary = format!("the running operator cannot watch {name}: {error}");
    Some(Verdict::new("unwatched", summary).until("its watch, which it tries again"))
}

/// Reports that no instance holds the shared Lease. If another instance holds it, that one is active, which is no
/// obstacle.
fn lack_of_a_holder(lease: &Value) -> Option<Verdict> {
    let has_holder = lease["holder"].as_str().is_some_and(|it| !it.is_empty());
    if !lease.is_object() || lease["atWork"] == true || has_holder {
        return None;
    }
    let name = lease["lease"].as_str().unwrap_or_default();
    let mut summary = format!("no instance of the operator is active: no instance holds the Lease {name}");
    if let Some(trouble) = lease["trouble"].as_str() {
        summary = format!("{summary}; {trouble}");
    }
    let wakes = "an instance that takes the Lease";
    Some(Verdict::new("no-holder", summary).until(wakes))
}

/// Returns the operator's current activity for the object.
pub(crate) fn activity(said: &Value) -> Option<Verdict> {
    let mut calls = said["handlersInFlight"].as_array().into_iter().flatten();
    if let Some(call) = calls.next() {
        let handler = call["handler"].as_str().unwrap_or_default();
        let summary = format!("{handler} runs, for {} now", seconds(&call["seconds"]));
        return Some(Verdict::new("running", summary).until("the end of that call"));
    }
    if said["waitsSeconds"].is_number() {
        let waits = seconds(&said["waitsSeconds"]);
        let summary = format!("its newest state has been waiting for a worker for {waits}");
        let wakes = if said["requestsFail"] == true {
            "an answer of the API server, which refuses requests for it"
        } else {
            "a free worker permit"
        };
        return Some(Verdict::new("queued", summary).until(wakes));
    }
    None
}

/// Lists the whole report, one line per fact.
pub(crate) fn lines(said: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    let name = said["operator"].as_str().unwrap_or_default();
    lines.push(if said["isKnown"] == true {
        format!("{name} knows the object")
    } else {
        format!("{name} does not know the object")
    });
    for call in said["handlersInFlight"].as_array().into_iter().flatten() {
        let handler = call["handler"].as_str().unwrap_or_default();
        lines.push(format!("{handler} runs, for {}", seconds(&call["seconds"])));
    }
    for call in said["daemonsAndTimersInFlight"].as_array().into_iter().flatten() {
        let handler = call["handler"].as_str().unwrap_or_default();
        let is_stopping = call["stopping"] == true;
        let end = if is_stopping { ", and is asked to end" } else { "" };
        lines.push(format!("{handler} runs{end}"));
    }
    if said["dueInSeconds"].is_number() {
        let due = seconds(&said["dueInSeconds"]);
        lines.push(format!("a daemon or timer of it is due in {due}"));
    }
    for error in said["lastErrors"].as_array().into_iter().flatten() {
        let [time, line] = ["time", "line"].map(|it| error[it].as_str().unwrap_or_default());
        lines.push(format!("at {time}: {line}"));
    }
    lines
}

fn seconds(value: &Value) -> String {
    let seconds = value.as_f64().unwrap_or_default();
    if seconds < 1.0 { "less than a second".to_owned() } else { format!("{seconds:.0} seconds") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pods() -> Resource {
        Resource { version: "v1".to_owned(), plural: "pods".to_owned(), ..Resource::default() }
    }

    #[test]
    fn obstacles_of_the_operator_are_found() {
        let word = |said: Value| obstacle(&said, &pods(), Some("a")).map(|it| it.word);
        let watch = |resource: &str, namespace: Value, error: Value| json!({"watches": [{"resource": resource, "namespace": namespace, "error": error}]});
        let table = [
            (json!({}), None),
            (json!({"paused": true}), Some("paused")),
            (json!({"paused": "no boolean", "watches": "no list"}), None),
            (watch("pods.v1", json!(null), json!("denied")), Some("unwatched")),
            (watch("pods.v1", json!("a"), json!("denied")), Some("unwatched")),
            (watch("pods.v1", json!("b"), json!("denied")), None),
            (
                json!({"lease": {"lease": "a/b", "atWork": false, "holder": null}, "paused": true}),
                Some("no-holder"),
            ),
            (json!({"lease": {"atWork": false, "holder": "other"}}), None),
            (json!({"lease": {"atWork": true, "holder": "me"}}), None),
            (json!({"lease": null}), None),
            (watch("pods.v1", json!(null), json!(null)), None),
            (watch("secrets.v1", json!(null), json!("denied")), None),
        ];
        for (said, expected) in table {
            assert_eq!(word(said.clone()), expected, "{said}");
        }
        let said = watch("pods.v1", json!(null), json!("User \"me\" cannot list pods"));
        let found = obstacle(&said, &pods(), None).expect("it is down");
        assert!(found.summary.contains("cannot list pods"), "{}", found.summary);
    }

    #[test]
    fn activities_of_the_operator_are_found() {
        let runs =
            json!({"handlersInFlight": [{"handler": "create_fn", "seconds": 61.2}], "waitsSeconds": 3});
        let found = activity(&runs).expect("something runs");
        assert_eq!((found.word, &*found.summary), ("running", "create_fn runs, for 61 seconds now"));
        let waits = activity(&json!({"waitsSeconds": 0.2})).expect("it waits");
        assert_eq!(waits.word, "queued");
        assert!(waits.summary.contains("less than a second"));
        let held_up = activity(&json!({"waitsSeconds": 9.0, "requestsFail": true}));
        let wakes = held_up.and_then(|it| it.wakes).expect("it waits");
        assert!(wakes.contains("the API server"), "{wakes}");
        assert!(activity(&json!({"handlersInFlight": [], "waitsSeconds": null})).is_none());
    }
}
