//! Completes the conditions of a certificate signing request.
//!
//! Guarantees that each condition has the time of its last update and of its last transition. Must not depend on permissions.

use serde_json::Value;

use crate::object::{Body, at_path, text};

/// Completes the conditions for approvers, or with `signs` for signers, who cannot change the decision.
pub(super) fn complete(old: &Body, body: &mut Body, signs: bool, now: &str) {
    let before = at_path(old, ".status.conditions").and_then(Value::as_array);
    let before: &[Value] = before.map_or(&[], Vec::as_slice);
    let status = body.get_mut("status").and_then(Value::as_object_mut);
    let conditions = status.and_then(|status| status.get_mut("conditions")?.as_array_mut());
    let Some(conditions) = conditions else {
        return;
    };
    for kind in ["Approved", "Denied"] {
        let had: Vec<&Value> = before
            .iter()
            .filter(|found| found["type"] == kind)
            .collect();
        let mut now: Vec<&mut Value> = conditions
            .iter_mut()
            .filter(|found| found["type"] == kind)
            .collect();
        if signs && had.len() == now.len() {
            for (now, had) in now.iter_mut().zip(had) {
                now.clone_from(had);
            }
        }
    }
    for condition in conditions.iter_mut().filter_map(Value::as_object_mut) {
        if text(condition, "lastUpdateTime").is_empty() {
            condition.insert("lastUpdateTime".to_owned(), now.into());
        }
        if text(condition, "lastTransitionTime").is_empty() {
            let same = |found: &&Value| {
                found.get("type") == condition.get("type")
                    && found.get("status") == condition.get("status")
            };
            let since = before.iter().find(same);
            let since = since.and_then(|found| found["lastTransitionTime"].as_str());
            let since = since.unwrap_or(now).to_owned();
            condition.insert("lastTransitionTime".to_owned(), since.into());
        }
    }
}
