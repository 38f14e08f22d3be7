//! Computes the change between two lists of conditions, as edits.

use serde::Deserialize;
use serde_json::Value;

use crate::object::conditions::{Condition, ConditionEdit, WantedCondition};

/// Returns the edits between two lists of conditions in a user's status type; `None` if a list contains anything
/// else.
pub(super) fn condition_edits(
    before: Option<&Value>,
    after: &Value,
    generation: Option<i64>,
) -> Option<Vec<ConditionEdit>> {
    let none = Vec::new();
    let before = before.and_then(Value::as_array).unwrap_or(&none);
    let after = after.as_array()?;
    let mut edits = Vec::new();
    for entry in after {
        let condition = Condition::deserialize(entry).ok()?;
        if before.contains(entry) {
            continue;
        }
        let wanted = WantedCondition {
            status: condition.status,
            reason: condition.reason,
            message: condition.message,
        };
        let edit = ConditionEdit::set(&condition.r#type, wanted, generation);
        edit.check().ok()?;
        edits.push(edit);
    }
    let types = before.iter().filter_map(|it| it["type"].as_str());
    let gone = types.filter(|kind| after.iter().all(|it| it["type"] != **kind));
    edits.extend(gone.map(|kind| ConditionEdit::remove(kind, generation)));
    Some(edits)
}
