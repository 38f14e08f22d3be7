//! Compatibility with Kopf: the same bytes on objects, and either framework can continue after the other was killed.

mod takeover;

use std::path::{Path, PathBuf};
use std::process::Command;

use kopf_rs::storage::{
    AnnotationsDiffBaseStorage, AnnotationsProgressStorage, DiffBaseStorage, ProgressRecord, ProgressStorage,
    SmartProgressStorage, StatusDiffBaseStorage, StatusProgressStorage,
};
use kopf_rs::{Body, Patch};
use kopf_rs_tests::{Package, python_for};
use serde_json::Value;

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("kopf").join(name)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("{key} in {value}"))
}

fn progress_storage(group: &Value) -> Box<dyn ProgressStorage> {
    match text(group, "kind") {
        "annotations" => Box::new(
            AnnotationsProgressStorage::new(text(group, "prefix"))
                .v1(group["v1"] == true)
                .verbose(group["verbose"] == true),
        ),
        "status" => Box::new(StatusProgressStorage::default()),
        "smart" => Box::new(SmartProgressStorage::default()),
        other => panic!("{other}"),
    }
}

fn diff_base_storage(group: &Value) -> Box<dyn DiffBaseStorage> {
    match text(group, "kind") {
        "annotations" => {
            Box::new(AnnotationsDiffBaseStorage::new(text(group, "prefix")).v1(group["v1"] == true))
        }
        "status" => Box::new(StatusDiffBaseStorage::default()),
        other => panic!("{other}"),
    }
}

/// Returns the groups of cases with their cases.
fn cases<'a>(all: &'a Value, kind: &str) -> impl Iterator<Item = (&'a Value, &'a Value)> {
    let groups = all[kind].as_array().expect("groups").iter();
    groups.flat_map(|group| {
        let cases = group["cases"].as_array().expect("cases").iter();
        cases.map(move |case| (group, case))
    })
}

/// Returns whether a server would accept all annotations of Kopf's patch.
fn is_valid(patch: &Value) -> bool {
    let plain = |it: char| it.is_ascii_alphanumeric();
    let valid = |key: &String| {
        let (prefix, name) = key.split_once('/').expect("a prefix");
        prefix.len() <= 253
            && name.len() <= 63
            && name.starts_with(plain)
            && name.ends_with(plain)
            && name.chars().all(|it| plain(it) || "-_.".contains(it))
    };
    let annotations = patch["metadata"]["annotations"].as_object();
    annotations.is_none_or(|all| all.keys().all(valid))
}

#[test]
fn the_same_bytes_as_kopf() {
    let Some(python) = python_for("kopf_mode::the_same_bytes_as_kopf", Package::Kopf) else {
        return;
    };
    let run = Command::new(python).arg(script("bytes.py")).output();
    let run = run.expect("Python can be run");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let all: Value = serde_json::from_slice(&run.stdout).expect("JSON");
    let mut same = [0, 0];
    for (group, case) in cases(&all, "progress").filter(|(_, case)| is_valid(&case["patch"])) {
        let storage = progress_storage(group);
        let (body, mut patch) = (Body::new(case["body"].clone()), Patch::new());
        let record = ProgressRecord::from_value(&case["record"]).expect("Kopf's record");
        let id = text(case, "id");
        storage.store(id, &record, &body, &mut patch).expect("stored");
        assert_eq!(*patch.as_value(), case["patch"], "{group:.100} {id}");
        let stored = storage.fetch(id, &Body::new(with_patch(case)));
        assert_eq!(stored, Ok(Some(record)), "{id}");
        same[0] += 1;
    }
    for (group, case) in cases(&all, "diff_base") {
        let storage = diff_base_storage(group);
        let (body, mut patch) = (Body::new(case["body"].clone()), Patch::new());
        let essence = &case["essence"];
        storage.store(essence, &body, &mut patch).expect("stored");
        assert_eq!(*patch.as_value(), case["patch"], "{essence}");
        let stored = storage.fetch(&Body::new(with_patch(case)));
        assert_eq!(stored, Ok(Some(essence.clone())));
        same[1] += 1;
    }
    let [records, essences] = same;
    assert!(records > 10_000 && essences > 50, "{same:?}");
    println!("the same bytes as Kopf: {records} records, {essences} essences");
}

/// Returns the object after Kopf's patch.
fn with_patch(case: &Value) -> Value {
    let mut object = case["body"].clone();
    merge(&mut object, &case["patch"]);
    object
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}
