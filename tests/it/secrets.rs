//! Secrets: handlers get their values, but the last-applied annotation must not contain them.

use kopf_rs::{Context, Registry, handler};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use crate::operating::{Calls, TestOperator, last_handled};

scenarios! {
    handlers_see_the_values_and_the_annotation_does_not_have_them;
    fields_of_secrets_are_filtered_by_their_values [memory];
    a_refused_patch_of_a_secret_is_reported_without_its_values;
}

async fn a_refused_patch_of_a_secret_is_reported_without_its_values(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    let create_fn = handler("create_fn", |context: Context| async move {
        context.patch(|patch| patch["data"]["password"] = json!("swordfish, and no base64"));
        Ok(())
    });
    let working = test.start(Registry::new().on_create(SECRETS, create_fn));
    create(&test).await;
    let line = test.line("Patching was refused").await;
    working.stop().await;
    assert!(line.contains("data.password"), "{line}");
    let lines = test.cluster.lines();
    assert_eq!(lines.count(|line| line.contains("swordfish")), 0, "{line}");
}

/// The words `hunter2` and `correct horse` in the base64 encoding of Secrets.
const OLD: &str = "aHVudGVyMg==";
const NEW: &str = "Y29ycmVjdCBob3JzZQ==";

const SECRETS: (&str, &str) = ("v1", "secrets");

async fn create(test: &TestOperator) {
    let data = json!({"user": "bWU=", "password": OLD});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": data});
    test.cluster.create(&secret).await;
    until_handled(test).await;
}

/// Waits until the newest state is handled, and returns the object.
async fn until_handled(test: &TestOperator) -> Value {
    let calls = test.calls.all().len();
    let is_handled = |object: Option<&Value>| {
        let handled = object.and_then(last_handled).unwrap_or_default();
        let labels = object.map(|it| it["metadata"]["labels"].clone());
        handled.is_object() && Some(&handled["metadata"]["labels"]) == labels.as_ref()
    };
    let what = format!("it is handled after {calls} calls");
    test.cluster.until(&what, "secrets", "s", is_handled).await
}

/// Sets the password, and a label that shows when this change is handled.
async fn set(test: &TestOperator, password: &str, round: &str) -> Value {
    let merge = json!({"metadata": {"labels": {"round": round}}, "data": {"password": password}});
    test.cluster.patch("secrets", "s", &merge).await;
    until_handled(test).await
}

/// A handler that records its `old` and `new` values.
fn telling(id: &str, calls: &Calls) -> kopf_rs::Callback {
    let calls = calls.clone();
    handler(id, move |cause: Context| {
        let at = |side: Option<&Value>| side.map(|side| side["data"].clone());
        let changes = cause.diff().iter();
        let changes = changes.filter(|it| it.field.parts().first().is_some_and(|it| it == "data"));
        let changes: Vec<_> =
            changes.map(|it| json!([it.op.as_str(), it.field.to_string(), it.new])).collect();
        calls.note(json!({"old": at(cause.old()), "new": at(cause.new()), "diff": changes}).to_string());
        async { Ok(()) }
    })
}

async fn handlers_see_the_values_and_the_annotation_does_not_have_them(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    let registry = Registry::new()
        .on_create(SECRETS, telling("create_fn", &test.calls))
        .on_update(SECRETS, telling("update_fn", &test.calls));
    let working = test.start(registry);
    create(&test).await;
    let object = set(&test, NEW, "1").await;
    working.stop().await;
    let told: Vec<Value> = test.calls.all().iter().map(|it| it.parse().expect("JSON")).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(told[0]["new"], json!({"user": "bWU=", "password": OLD}));
    assert_eq!(told[1]["new"], json!({"user": "bWU=", "password": NEW}));
    assert_eq!(told[1]["diff"], json!([["change", "data.password", NEW]]));
    assert_eq!(told[1]["old"]["user"], "bWU=");
    let old = told[1]["old"]["password"].as_str().unwrap_or_default();
    assert!(old.starts_with("digest:"), "{old}");
    let annotations = object["metadata"]["annotations"].to_string();
    let lines = test.cluster.lines().all();
    assert!(lines.iter().any(|line| line.contains(" diff: ")));
    for value in ["bWU=", OLD, NEW] {
        assert!(!annotations.contains(value), "{annotations}");
        let told = lines.iter().find(|line| line.contains(value));
        assert_eq!(told, None);
    }
}

async fn fields_of_secrets_are_filtered_by_their_values(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    let noting = |id: &str| test.noting(id).field("data.password");
    let is_new = |cause: &kopf_rs::Cause| cause.new().is_some_and(|it| it == NEW);
    let registry = Registry::new()
        .on_update(SECRETS, noting("value_fn").value(NEW))
        .on_field(SECRETS, noting("new_fn").new(NEW))
        .on_field(SECRETS, noting("when_fn").when(is_new))
        .on_update(SECRETS, noting("never_fn").new(OLD));
    let working = test.start(registry);
    create(&test).await;
    set(&test, NEW, "1").await;
    // The password does not change.
    set(&test, NEW, "2").await;
    working.stop().await;
    let mut calls = test.calls.all();
    calls.sort();
    assert_eq!(calls, ["new_fn s", "value_fn s", "when_fn s"]);
}
