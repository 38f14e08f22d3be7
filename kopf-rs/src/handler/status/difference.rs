//! Computes the change between two states of a status, as a merge patch and as edits of conditions.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::object::conditions::{Condition, ConditionEdit, WantedCondition};

/// Returns the merge patch from one state to the other. A state that is not a JSON object counts as an empty one.
pub(super) fn difference(before: &Value, after: &Value) -> Map<String, Value> {
    let none = Map::new();
    let [before, after] = [before, after].map(|it| it.as_object().unwrap_or(&none));
    let mut changed = Map::new();
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        changed.insert(key.clone(), Value::Null);
    }
    for (key, value) in after {
        let change = match before.get(key) {
            Some(same) if same == value => None,
            Some(Value::Object(_)) if value.is_object() => Some(difference(&before[key], value).into()),
            None if value.is_null() => None,
            _ => Some(value.clone()),
        };
        changed.extend(change.map(|change| (key.clone(), change)));
    }
    changed
}

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
