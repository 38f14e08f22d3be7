//! Calls functions that change a status, as the engine does, and checks their patches.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::handler::registry::Registry;
use crate::handler::subject::Subject;
use crate::handler::testing::{call, cause, myapp};
use crate::object::resource::Resource;
use crate::prelude::*;

#[derive(Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct MyStatus {
    phase: Option<String>,
    replicas: u32,
    conditions: Vec<Value>,
    observed_generation: Option<i64>,
}

/// Calls the handler `id` of this module for an object with this status; returns the result, and the patch as it
/// would be sent.
fn called(id: &str, status: &Value) -> (Returned, Value) {
    let registry = Registry::in_module(module_path!()).unwrap();
    let mut handlers = registry.handlers().iter();
    let mut object = myapp();
    object["metadata"]["generation"] = json!(3);
    object["status"] = status.clone();
    let handler = handlers.find(|handler| &*handler.id == id).unwrap();
    let mut cause = cause(handler, object.clone());
    if let Subject::Change(subject) = &mut cause.cause.subject {
        subject.object.resource = Arc::new(Resource {
            group: "example.com".to_owned(),
            subresources: vec!["status".to_owned()],
            ..Resource::default()
        });
    }
    let (returned, patch) = call(&cause);
    let now = jiff::Timestamp::UNIX_EPOCH;
    (returned, patch.resolved(&object, now).as_value().clone())
}

#[on_create("myapps")]
#[expect(clippy::unused_async, reason = "async handlers are tested, too")]
async fn change(status: &mut Status<MyStatus>, patch: &mut Patch) {
    patch.set("status.phase", "Old");
    patch.set("status.other", 1);
    status.phase = Some("Running".to_owned());
}

#[on_create("myapps")]
fn change_json(#[from(status)] seen: &mut Status<Value>) {
    seen["phase"] = json!("Running");
}

#[on_create("myapps")]
fn leave(_status: &mut Status<MyStatus>) {}

#[test]
fn differences_become_part_of_the_patch() {
    let stored = json!({"phase": "New", "replicas": 2, "theirs": {"a": 1}, "observedGeneration": 2});
    let expected = json!({"status": {"phase": "Running", "other": 1, "observedGeneration": 3}});
    assert_eq!(called("change", &stored).1, expected);
    let expected = json!({"status": {"phase": "Running", "observedGeneration": 3}});
    assert_eq!(called("change_json", &stored).1, expected);
    assert_eq!(called("leave", &json!({"observedGeneration": 3})).1, json!({}));
    let expected = json!({"status": {"phase": "Running"}});
    assert_eq!(called("change_json", &json!(null)).1, expected);
}

#[on_create("myapps")]
fn fail_after(status: &mut Status<MyStatus>) -> HandlerResult {
    status.phase = Some("Failed".to_owned());
    fail!("no");
}

#[on_create("myapps")]
fn tell_and_fail(status: &mut Status<MyStatus>) -> HandlerResult {
    status.phase = None;
    status.conditions().set("Ready", false, "Failed", "");
    fail!("no");
}

#[test]
fn a_failed_function_reports_the_generation_only_beside_conditions() {
    let (returned, patch) = called("fail_after", &json!({"phase": "New"}));
    assert!(returned.is_err());
    assert_eq!(patch, json!({"status": {"phase": "Failed"}}));
    let (_, patch) = called("tell_and_fail", &json!({"phase": "New"}));
    let ready = json!({
        "type": "Ready", "status": "False", "reason": "Failed", "message": "", "observedGeneration": 3,
        "lastTransitionTime": "1970-01-01T00:00:00Z",
    });
    let expected = json!({"phase": null, "conditions": [ready], "observedGeneration": 3});
    assert_eq!(patch["status"], expected);
}

#[on_create("myapps")]
fn set_wrongly(status: &mut Status<MyStatus>) {
    status.replicas = 1;
    status.conditions().set("Ready", true, "not a word", "");
}

#[on_create("myapps")]
fn set_in_json(status: &mut Status<Value>) {
    status.conditions().set("Ready", true, "Yes", "");
}

#[test]
fn a_wrong_reason_is_a_permanent_failure() {
    let (returned, patch) = called("set_wrongly", &json!(null));
    let complaint = returned.unwrap_err().to_string();
    assert!(complaint.contains("did you mean `NotAWord`?"), "{complaint}");
    assert_eq!(patch, json!({"status": {"replicas": 1}}));
    let (returned, _) = called("set_in_json", &json!({"conditions": {"a": 1}}));
    let complaint = returned.unwrap_err().to_string();
    assert!(complaint.starts_with("status.conditions of the object is not a list"), "{complaint}");
}

#[on_create("myapps")]
fn push(status: &mut Status<MyStatus>) {
    let condition = json!({"type": "Ready", "status": "True", "reason": "Yes", "lastTransitionTime": "now"});
    status.conditions.retain(|it| it["type"] == "Theirs");
    status.conditions.push(condition);
}

#[test]
fn a_list_of_conditions_in_the_type_is_merged_as_conditions_are() {
    let theirs = json!({"type": "Theirs", "status": "True", "reason": "Yes", "lastTransitionTime": "2020-01-01T00:00:00Z"});
    let gone = json!({"type": "Gone", "status": "True", "reason": "Yes", "lastTransitionTime": "2020-01-01T00:00:00Z"});
    let (_, patch) = called("push", &json!({"conditions": [gone, theirs]}));
    let list = &patch["status"]["conditions"];
    assert_eq!(list[0], theirs);
    assert_eq!(list[1]["lastTransitionTime"], "1970-01-01T00:00:00Z");
    assert_eq!(list[2], Value::Null);
    let stored = json!({"conditions": list, "observedGeneration": 3});
    assert_eq!(called("push", &stored).1, json!({}));
}

#[test]
fn conditions_are_read_with_the_changes_so_far() {
    let mut status = Status::from(json!({"conditions": [{"type": "Old", "status": "Unknown"}]}));
    let mut conditions = status.conditions();
    assert_eq!(conditions.get("Old").unwrap().status, ConditionStatus::Unknown);
    conditions.set("Ready", true, "Yes", "all of it");
    conditions.remove("Old");
    assert!(conditions.is_true("Ready") && conditions.get("Old").is_none());
    assert_eq!(conditions.get("Ready").unwrap().message, "all of it");
}

#[derive(Serialize, Deserialize)]
struct Required {
    phase: String,
}

#[on_create("myapps")]
fn require(status: &mut Status<Required>) {
    status.phase = "x".to_owned();
}

#[test]
fn an_error_about_an_empty_status_has_advice() {
    let complaint = called("require", &json!(null)).0.unwrap_err().to_string();
    let expected = "status: missing field `phase`. An object has no status at first: add `#[serde(default)]` to `Required`";
    assert_eq!(complaint, expected);
}

#[test]
fn a_type_is_asked_for_its_fields() {
    assert!(declares::<MyStatus>("observedGeneration"));
    assert!(declares::<Option<Box<MyStatus>>>("observedGeneration"));
    assert!(!declares::<MyStatus>("observed_generation"));
    assert!(!declares::<Required>("observedGeneration"));
    assert!(!declares::<Value>("observedGeneration"));
}
