//! What has changed between two states of a status, as a merge patch and as changes of conditions.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::object::conditions::{Condition, ConditionEdit, WantedCondition};

/// The merge patch from one to the other. What is no object counts as an empty one.
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
            Some(Value::Object(_)) if value.is_object() => {
                Some(difference(&before[key], value).into())
            }
            None if value.is_null() => None,
            _ => Some(value.clone()),
        };
        changed.extend(change.map(|change| (key.clone(), change)));
    }
    changed
}

/// Lists of conditions that a type of the user's has: what has changed of each. Nothing where the list has anything else in it.
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
