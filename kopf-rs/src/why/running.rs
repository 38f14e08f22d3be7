//! What the running operator says of the object: `/statusz?uid=` of its liveness endpoint.
//!
//! Read as it comes: an operator of another version says less, or more.

use serde_json::Value;

use crate::object::resource::Resource;

/// What keeps the operator from the object, or what it does for it.
pub(crate) struct OperatorState {
    /// A word for programs.
    pub(crate) word: &'static str,
    pub(crate) summary: String,
    pub(crate) wakes: Option<String>,
}

fn state(word: &'static str, summary: String, wakes: &str) -> OperatorState {
    OperatorState {
        word,
        summary,
        wakes: Some(wakes.to_owned()),
    }
}

/// What keeps the operator from the object, whatever is on it.
pub(crate) fn obstacle(
    said: &Value,
    resource: &Resource,
    namespace: Option<&str>,
) -> Option<OperatorState> {
    if said["paused"] == true {
        let summary = "the running operator is paused".to_owned();
        let wakes =
            "the end of the operator that is at work instead, or of its lifetime in the peering";
        return Some(state("paused", summary, wakes));
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
    Some(state(
        "unwatched",
        summary,
        "its watch, which it tries again",
    ))
}

/// What the operator does for the object.
pub(crate) fn activity(said: &Value) -> Option<OperatorState> {
    let mut calls = said["handlersInFlight"].as_array().into_iter().flatten();
    if let Some(call) = calls.next() {
        let handler = call["handler"].as_str().unwrap_or_default();
        let summary = format!("{handler} runs, for {} now", seconds(&call["seconds"]));
        return Some(state("running", summary, "the end of that call"));
    }
    if said["waitsSeconds"].is_number() {
        let waits = seconds(&said["waitsSeconds"]);
        let summary = format!("its newest state waits to be looked at, for {waits} now");
        let wakes = if said["requestsFail"] == true {
            "an answer of the API server, which refuses requests about it"
        } else {
            "a place among the objects that are worked on"
        };
        return Some(state("queued", summary, wakes));
    }
    None
}

/// All that it says, a line each.
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
    for call in said["daemonsAndTimersInFlight"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let handler = call["handler"].as_str().unwrap_or_default();
        let is_stopping = call["stopping"] == true;
        let end = if is_stopping {
            ", and is asked to end"
        } else {
            ""
        };
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
    if seconds < 1.0 {
        "less than a second".to_owned()
    } else {
        format!("{seconds:.0} seconds")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pods() -> Resource {
        Resource {
            version: "v1".to_owned(),
            plural: "pods".to_owned(),
            ..Resource::default()
        }
    }

    #[test]
    fn what_keeps_the_operator_away_is_told() {
        let word = |said: Value| obstacle(&said, &pods(), Some("a")).map(|it| it.word);
        let watch = |resource: &str, namespace: Value, error: Value| json!({"watches": [{"resource": resource, "namespace": namespace, "error": error}]});
        let table = [
            (json!({}), None),
            (json!({"paused": true}), Some("paused")),
            (json!({"paused": "no boolean", "watches": "no list"}), None),
            (
                watch("pods.v1", json!(null), json!("denied")),
                Some("unwatched"),
            ),
            (
                watch("pods.v1", json!("a"), json!("denied")),
                Some("unwatched"),
            ),
            (watch("pods.v1", json!("b"), json!("denied")), None),
            (watch("pods.v1", json!(null), json!(null)), None),
            (watch("secrets.v1", json!(null), json!("denied")), None),
        ];
        for (said, expected) in table {
            assert_eq!(word(said.clone()), expected, "{said}");
        }
        let said = watch(
            "pods.v1",
            json!(null),
            json!("User \"me\" cannot list pods"),
        );
        let found = obstacle(&said, &pods(), None).expect("it is down");
        assert!(
            found.summary.contains("cannot list pods"),
            "{}",
            found.summary
        );
    }

    #[test]
    fn what_it_does_is_told() {
        let runs = json!({"handlersInFlight": [{"handler": "create_fn", "seconds": 61.2}], "waitsSeconds": 3});
        let found = activity(&runs).expect("something runs");
        assert_eq!(
            (found.word, &*found.summary),
            ("running", "create_fn runs, for 61 seconds now")
        );
        let waits = activity(&json!({"waitsSeconds": 0.2})).expect("it waits");
        assert_eq!(waits.word, "queued");
        assert!(waits.summary.contains("less than a second"));
        let held_up = activity(&json!({"waitsSeconds": 9.0, "requestsFail": true}));
        let wakes = held_up.and_then(|it| it.wakes).expect("it waits");
        assert!(wakes.contains("the API server"), "{wakes}");
        assert!(activity(&json!({"handlersInFlight": [], "waitsSeconds": null})).is_none());
    }
}
