//! Tests how edits change lists of conditions.

use serde_json::json;

use super::*;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn set(kind: &str, status: bool, reason: &str, generation: Option<i64>) -> ConditionEdit {
    let wanted = WantedCondition { status: status.into(), reason: reason.to_owned(), message: String::new() };
    ConditionEdit::set(kind, wanted, generation)
}

fn after(edits: &[ConditionEdit], list: &Value, generation: Option<i64>) -> Option<Value> {
    let mut all = StatusEdits::default();
    for edit in edits {
        all.edit(edit.clone());
    }
    let found = FoundStatus { conditions: Some(list), observed_generation: None, generation };
    let changed = all.conditions(found, NOW);
    assert_eq!(changed.is_none(), all.effective(found).is_empty());
    changed
}

#[test]
fn other_types_their_order_and_their_times_stay() {
    let stored = json!([
        {"type": "Theirs", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z", "odd": [1]},
        {"type": "Ready", "status": "False", "reason": "No", "message": "", "lastTransitionTime": "2020-01-02T00:00:00Z", "extra": 1},
        "no condition",
    ]);
    let changed = after(&[set("Ready", true, "Yes", Some(3))], &stored, Some(3)).unwrap();
    assert_eq!(changed[0], stored[0]);
    assert_eq!(changed[2], stored[2]);
    let ready = json!({
        "type": "Ready", "status": "True", "reason": "Yes", "message": "", "observedGeneration": 3,
        "lastTransitionTime": "1970-01-01T00:00:00Z", "extra": 1,
    });
    assert_eq!(changed[1], ready);
    assert_eq!(after(&[set("Ready", true, "Yes", Some(3))], &changed, Some(3)), None);
}

#[test]
fn the_time_is_that_of_the_last_change_of_the_status() {
    let time = "2020-01-02T00:00:00Z";
    let stored = json!([{"type": "Ready", "status": "True", "reason": "Yes", "lastTransitionTime": time}]);
    let changed = after(&[set("Ready", true, "Still", None)], &stored, None).unwrap();
    assert_eq!(changed[0]["reason"], "Still");
    assert_eq!(changed[0]["lastTransitionTime"], time);
    let changed = after(&[set("Ready", false, "Still", None)], &stored, None).unwrap();
    assert_ne!(changed[0]["lastTransitionTime"], time);
}

#[test]
fn conditions_come_and_go() {
    let new = after(&[set("Ready", true, "Yes", None)], &Value::Null, None).unwrap();
    assert_eq!(new[0]["type"], "Ready");
    assert!(new[0].get("observedGeneration").is_none());
    let gone = after(&[ConditionEdit::remove("Ready", None)], &new, None);
    assert_eq!(gone, Some(json!([])));
    assert_eq!(after(&[ConditionEdit::remove("Other", None)], &new, None), None);
    assert_eq!(after(&[set("Ready", true, "Yes", None)], &json!({"a": 1}), None), None);
    let both = [set("Ready", false, "No", None), set("Ready", true, "Yes", None)];
    assert_eq!(after(&both, &new, None), None);
}

#[test]
fn conditions_of_a_later_generation_stay() {
    let stored = json!([{"type": "Ready", "status": "False", "reason": "No", "observedGeneration": 5,
        "lastTransitionTime": "2020-01-02T00:00:00Z"}]);
    let late = [set("Ready", true, "Yes", Some(4))];
    assert_eq!(after(&late, &stored, Some(6)), None);
    assert_eq!(after(&[ConditionEdit::remove("Ready", Some(4))], &stored, Some(6)), None);
    // The condition comes from a backup: the current object has not reached its generation.
    assert!(after(&late, &stored, Some(4)).is_some());
}

#[test]
fn the_generation_observed_never_falls() {
    let mut edits = StatusEdits::default();
    edits.observe(4);
    edits.observe(3);
    for (stored, generation, written) in [
        (None, Some(4), Some(4)),
        (Some(3), Some(4), Some(4)),
        (Some(4), Some(5), None),
        (Some(5), Some(5), None),
        (Some(9), Some(4), Some(4)),
    ] {
        let found = FoundStatus { conditions: None, observed_generation: stored, generation };
        assert_eq!(edits.observed_generation(found), written, "{stored:?}");
    }
}

#[test]
fn types_and_reasons_are_words() {
    for kind in ["Ready", "example.com/Ready", "a-b.c/X-1_y.z", "ready"] {
        assert!(set(kind, true, "Yes", None).check().is_ok(), "{kind}");
    }
    for kind in ["", "Not Ready", "/Ready", "A.com/Ready", "a./Ready", "Ready-"] {
        assert!(set(kind, true, "Yes", None).check().is_err(), "{kind}");
    }
    for reason in ["Yes", "a", "A_b,c:D", "X1"] {
        assert!(set("Ready", true, reason, None).check().is_ok(), "{reason}");
    }
    for (reason, said) in [
        ("", "it is required"),
        ("not ready", "did you mean `NotReady`?"),
        ("1", "it is required"),
        ("a:", "did you mean `A`?"),
    ] {
        let complaint = set("Ready", true, reason, None).check().unwrap_err();
        assert!(complaint.contains(said), "{complaint}");
    }
}
