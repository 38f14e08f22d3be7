//! Secrets: handlers see their values, the annotation of what was handled last does not have them.

use kopf_rs::{Context, Registry, handler};
use kopf_rs_tests::{Bed, scenarios};
use serde_json::{Value, json};

use crate::operating::{Calls, Field, last_handled};

scenarios! {
    handlers_see_the_values_and_the_annotation_does_not_have_them;
    fields_of_secrets_are_filtered_by_their_values;
    a_refused_patch_of_a_secret_is_told_without_its_values;
}

async fn a_refused_patch_of_a_secret_is_told_without_its_values(bed: Bed) {
    let field = Field::bare(bed);
    let create_fn = handler("create_fn", |context: Context| async move {
        context.patch()["data"]["password"] = json!("swordfish, and no base64");
        Ok(())
    });
    let working = field.start(Registry::new().on_create(SECRETS, create_fn));
    create(&field).await;
    let line = field.line("Patching was refused").await;
    working.stop().await;
    assert!(line.contains("data.password"), "{line}");
    let lines = field.bed.lines();
    let tells = |line: &str| line.contains("swordfish") && !line.contains("DEBUG");
    assert_eq!(lines.count(tells), 0, "{line}");
}

/// The words `hunter2` and `correct horse`, as Secrets have them.
const OLD: &str = "aHVudGVyMg==";
const NEW: &str = "Y29ycmVjdCBob3JzZQ==";

const SECRETS: (&str, &str) = ("v1", "secrets");

async fn create(field: &Field) {
    let data = json!({"user": "bWU=", "password": OLD});
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": data});
    field.bed.create(&secret).await;
    until_handled(field).await;
}

/// Await that the newest state was handled; the object.
async fn until_handled(field: &Field) -> Value {
    let calls = field.calls.all().len();
    let is_handled = |object: Option<&Value>| {
        let handled = object.and_then(last_handled).unwrap_or_default();
        let labels = object.map(|it| it["metadata"]["labels"].clone());
        handled.is_object() && Some(&handled["metadata"]["labels"]) == labels.as_ref()
    };
    let what = format!("it is handled after {calls} calls");
    field.bed.until(&what, "secrets", "s", is_handled).await
}

/// Set the password, and a label that tells when that is handled.
async fn set(field: &Field, password: &str, round: &str) -> Value {
    let merge = json!({"metadata": {"labels": {"round": round}}, "data": {"password": password}});
    field.bed.patch("secrets", "s", &merge).await;
    until_handled(field).await
}

/// A handler that notes what it is told.
fn telling(id: &str, calls: &Calls) -> kopf_rs::Callback {
    let calls = calls.clone();
    handler(id, move |cause: Context| {
        let at = |side: Option<&Value>| side.map(|side| side["data"].clone());
        let changes = cause.diff().iter();
        let changes = changes.filter(|it| it.field.parts().first().is_some_and(|it| it == "data"));
        let changes: Vec<_> = changes
            .map(|it| json!([it.op.as_str(), it.field.to_string(), it.new]))
            .collect();
        calls.note(
            json!({"old": at(cause.old()), "new": at(cause.new()), "diff": changes}).to_string(),
        );
        async { Ok(()) }
    })
}

async fn handlers_see_the_values_and_the_annotation_does_not_have_them(bed: Bed) {
    let field = Field::bare(bed);
    let registry = Registry::new()
        .on_create(SECRETS, telling("create_fn", &field.calls))
        .on_update(SECRETS, telling("update_fn", &field.calls));
    let working = field.start(registry);
    create(&field).await;
    let object = set(&field, NEW, "1").await;
    working.stop().await;
    let told: Vec<Value> = field
        .calls
        .all()
        .iter()
        .map(|it| it.parse().expect("JSON"))
        .collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(told[0]["new"], json!({"user": "bWU=", "password": OLD}));
    assert_eq!(told[1]["new"], json!({"user": "bWU=", "password": NEW}));
    assert_eq!(told[1]["diff"], json!([["change", "data.password", NEW]]));
    assert_eq!(told[1]["old"]["user"], "bWU=");
    let old = told[1]["old"]["password"].as_str().unwrap_or_default();
    assert!(old.starts_with("digest:"), "{old}");
    let annotations = object["metadata"]["annotations"].to_string();
    for value in ["bWU=", OLD, NEW] {
        assert!(!annotations.contains(value), "{annotations}");
    }
}

async fn fields_of_secrets_are_filtered_by_their_values(bed: Bed) {
    let field = Field::bare(bed);
    let noting = |id: &str| field.noting(id).field("data.password");
    let is_new = |cause: &kopf_rs::Cause| cause.new().is_some_and(|it| it == NEW);
    let registry = Registry::new()
        .on_update(SECRETS, noting("value_fn").value(NEW))
        .on_field(SECRETS, noting("new_fn").new(NEW))
        .on_field(SECRETS, noting("when_fn").when(is_new))
        .on_update(SECRETS, noting("never_fn").new(OLD));
    let working = field.start(registry);
    create(&field).await;
    set(&field, NEW, "1").await;
    // Nothing in the field.
    set(&field, NEW, "2").await;
    working.stop().await;
    let mut calls = field.calls.all();
    calls.sort();
    assert_eq!(calls, ["new_fn s", "value_fn s", "when_fn s"]);
}
