//! Takes over fields that a former release of an operator has set by updates under other manager names. Without this, the server would keep
//! them forever as fields of another manager. Renaming the manager in `managedFields` transfers them to the operator.
//!
//! This module must not depend on requests.

use serde_json::{Map, Value, json};

use crate::object::child::{ChildMarks, is_ours};
use crate::object::hierarchy::given;

/// Returns `managedFields` with all updates of the `former` managers transferred to the operator, or `None` if there are none.
pub(crate) fn taken_over(managers: &Value, former: &[String], marks: &ChildMarks) -> Option<Value> {
    let is_former = |entry: &&Value| {
        let manager = entry["manager"].as_str().unwrap_or_default();
        entry["operation"] == "Update"
            && given(&entry["subresource"]).is_none()
            && former.iter().any(|it| it == manager)
    };
    let entries = managers.as_array()?;
    let (theirs, others): (Vec<&Value>, Vec<&Value>) = entries.iter().partition(is_former);
    let first = theirs.first()?;
    let mut ours = others.iter().find(|it| is_ours(it, marks)).map_or_else(
        || {
            json!({
                "manager": marks.manager, "operation": "Apply", "apiVersion": first["apiVersion"],
                "time": first["time"], "fieldsType": "FieldsV1", "fieldsV1": {},
            })
        },
        |it| Value::clone(it),
    );
    for entry in theirs {
        if let (Some(fields), Some(more)) = (ours["fieldsV1"].as_object_mut(), entry["fieldsV1"].as_object())
        {
            add(fields, more);
        }
    }
    let others = others.into_iter().filter(|it| !is_ours(it, marks));
    let mut renamed: Vec<Value> = others.cloned().collect();
    renamed.push(ours);
    Some(renamed.into())
}

fn add(fields: &mut Map<String, Value>, more: &Map<String, Value>) {
    for (name, inner) in more {
        let known = fields.entry(name.clone()).or_insert_with(|| json!({}));
        if let (Some(known), Some(inner)) = (known.as_object_mut(), inner.as_object()) {
            add(known, inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_former_manager_become_the_operators() {
        let marks = ChildMarks { manager: "op.kopf.rs".to_owned() };
        let entry = |manager: &str, operation: &str, fields: Value| json!({"manager": manager, "operation": operation, "fieldsV1": fields});
        let data = |keys: &[&str]| {
            let keys = keys.iter().map(|key| (format!("f:{key}"), json!({})));
            json!({"f:data": keys.collect::<Map<_, _>>()})
        };
        let of_status =
            json!({"manager": "old-op", "operation": "Update", "subresource": "status", "fieldsV1": {}});
        let managers = json!([
            entry("op.kopf.rs", "Apply", data(&["a"])),
            entry("old-op", "Update", data(&["b"])),
            entry("kubectl", "Update", data(&["c"])),
            of_status,
        ]);
        let former = ["old-op".to_owned()];
        let renamed = taken_over(&managers, &former, &marks).expect("something was set");
        let expected = json!([
            entry("kubectl", "Update", data(&["c"])),
            of_status,
            entry("op.kopf.rs", "Apply", data(&["a", "b"])),
        ]);
        assert_eq!(renamed, expected);
        assert_eq!(taken_over(&renamed, &former, &marks), None);
        let only = json!([entry("old-op", "Update", data(&["b"]))]);
        let renamed = taken_over(&only, &former, &marks).expect("something was set");
        assert_eq!(renamed[0]["operation"], "Apply");
    }
}
