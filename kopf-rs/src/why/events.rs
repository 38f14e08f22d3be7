//! Lists the Kubernetes Events about an object, one per line.

use serde_json::Value;

/// The maximum number of Events in the list.
const LISTED: usize = 5;

/// Returns the most recent Events, newest first.
pub(crate) fn recent(events: &[Value]) -> Vec<String> {
    let mut events: Vec<(&str, &Value)> = events.iter().map(|it| (last_seen(it), it)).collect();
    events.sort_by(|one, other| other.0.cmp(one.0));
    let told = events.into_iter().take(LISTED);
    told.map(|(at, event)| line(at, event)).collect()
}

/// Returns the time of the last occurrence, from the current API's field or from that of the former API, which some
/// writers still use.
fn last_seen(event: &Value) -> &str {
    let times = [
        &event["series"]["lastObservedTime"],
        &event["deprecatedLastTimestamp"],
        &event["eventTime"],
        &event["metadata"]["creationTimestamp"],
    ];
    times.into_iter().find_map(Value::as_str).unwrap_or_default()
}

fn line(at: &str, event: &Value) -> String {
    let text = |key: &str| event[key].as_str().unwrap_or_default();
    let counts = [&event["series"]["count"], &event["deprecatedCount"]];
    let count = counts.into_iter().find_map(Value::as_i64).unwrap_or(1);
    let times = if count > 1 { format!(", {count} times") } else { String::new() };
    let by = [event["reportingController"].as_str(), event["deprecatedSource"]["component"].as_str()];
    let by = by.into_iter().flatten().find(|it| !it.is_empty());
    let by = by.map(|it| format!(" by {it}")).unwrap_or_default();
    let (kind, reason, note) = (text("type"), text("reason"), text("note"));
    format!("{kind} {reason}{by} at {at}{times}: {note}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_newest_events_of_both_apis_are_listed() {
        let old = json!({"type": "Normal", "reason": "Pulled", "note": "done", "deprecatedCount": 3,
            "deprecatedLastTimestamp": "2026-01-01T00:00:03Z", "deprecatedSource": {"component": "kubelet"}});
        let new = json!({"type": "Warning", "reason": "Failed", "note": "closed", "reportingController": "op",
            "eventTime": "2026-01-01T00:00:01.000000Z", "series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:09.000000Z"}});
        let bare = json!({"reason": "Odd"});
        let told = recent(&[bare, old.clone(), new]);
        assert_eq!(
            told,
            [
                "Warning Failed by op at 2026-01-01T00:00:09.000000Z, 2 times: closed",
                "Normal Pulled by kubelet at 2026-01-01T00:00:03Z, 3 times: done",
                " Odd at : ",
            ]
        );
        let many: Vec<Value> = std::iter::repeat_n(old, 9).collect();
        assert_eq!(recent(&many).len(), LISTED);
    }
}
