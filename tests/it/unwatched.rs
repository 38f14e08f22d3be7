//! Objects whose watch is closed: not watched is not deleted.

use std::time::Duration;

use kopf_rs::{EventType, Registry, handler};
use kopf_rs_apiserver::{Fault, Verb};
use kopf_rs_tests::{Bed, scenarios};
use serde_json::{Value, json};

use crate::operating::{Field, Gate, definition, is_handled, last_handled};

scenarios! {
    an_object_whose_kind_becomes_ambiguous_is_not_deleted;
    an_object_whose_version_is_no_longer_served_is_not_deleted;
    a_handler_whose_watch_is_closed_ends_and_is_written;
    a_version_that_changes_while_a_handler_runs_causes_no_second_call;
    a_version_that_is_withdrawn_while_a_handler_runs_causes_no_second_call;
    what_has_ended_while_no_version_is_served_is_written_when_one_is_again [memory];
    a_deletion_handler_whose_kind_becomes_ambiguous_keeps_its_hold;
    objects_that_go_with_their_namespace_are_deleted_even_where_that_is_told_first [memory];
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const STOPPING: &str = "Stopping the watch-stream for kopf";

/// A plural that no other bed has, so that nobody else makes it ambiguous.
fn plural(field: &Field) -> String {
    format!("kopf{}", field.bed.namespace().replace('-', ""))
}

/// The definition of that plural in a group.
fn twin(field: &Field, group: &str) -> Value {
    let mut crd = definition(group);
    let plural = plural(field);
    crd["metadata"]["name"] = json!(format!("{plural}.{group}"));
    crd["spec"]["names"] =
        json!({"plural": plural, "singular": format!("{plural}x"), "kind": "KopfTwin"});
    crd
}

async fn create(field: &Field, version: &str, name: &str) {
    let api_version = format!("{}/{version}", field.group);
    let object = json!({"apiVersion": api_version, "kind": "KopfTwin", "metadata": {"name": name}, "spec": {"size": 1}});
    field.bed.create(&object).await;
}

/// Handlers for the plural, whatever its group and version; deletions and `DELETED` events are noted, too.
fn handlers(field: &Field) -> Registry {
    let plural = plural(field);
    let calls = field.calls.clone();
    let event = handler("event_fn", move |context| {
        if context.event_type() == Some(EventType::Deleted) {
            calls.note(format!("DELETED {}", context.name()));
        }
        async { Ok(()) }
    });
    Registry::new()
        .on_create(plural.as_str(), field.noting("create_fn"))
        .on_update(plural.as_str(), field.noting("update_fn"))
        .on_delete(plural.as_str(), field.noting("delete_fn").optional())
        .on_event(plural.as_str(), event)
}

/// The kind is served; its name, and the group in which a kind of the same plural is still to come.
async fn with_a_twin_to_come(bed: Bed) -> (Field, String, String) {
    let field = Field::bare(bed);
    let (kind, other) = (
        format!("{}.{}", plural(&field), field.group),
        format!("other-{}", field.group),
    );
    field
        .bed
        .apply(&twin(&field, &field.group).to_string())
        .await;
    (field, kind, other)
}

async fn an_object_whose_kind_becomes_ambiguous_is_not_deleted(bed: Bed) {
    let (field, kind, other) = with_a_twin_to_come(bed).await;
    let working = field.start(handlers(&field));
    create(&field, "v1", "a").await;
    let handled = |object: Option<&Value>| object.is_some_and(is_handled);
    field.bed.until("it is handled", &kind, "a", handled).await;
    field.bed.apply(&twin(&field, &other).to_string()).await;
    field.line(STOPPING).await;
    field
        .bed
        .delete(DEFINITIONS, &format!("{}.{other}", plural(&field)))
        .await;
    field
        .bed
        .patch(&kind, "a", &json!({"spec": {"size": 2}}))
        .await;
    field.calls.until(2).await;
    working.stop().await;
    assert_eq!(field.calls.all(), ["create_fn a", "update_fn a"]);
}

async fn an_object_whose_version_is_no_longer_served_is_not_deleted(bed: Bed) {
    let field = Field::bare(bed);
    let mut crd = twin(&field, &field.group);
    let mut v2 = crd["spec"]["versions"][0].clone();
    v2["name"] = json!("v2");
    v2["storage"] = json!(false);
    let versions = crd["spec"]["versions"].as_array_mut();
    versions.expect("versions are a list").push(v2);
    field.bed.apply(&crd.to_string()).await;
    let plural = plural(&field);
    let selector = (&*field.group, "v2", &*plural);
    let registry = Registry::new()
        .on_create(selector, field.noting("create_fn"))
        .on_delete(selector, field.noting("delete_fn").optional());
    let working = field.start(registry);
    create(&field, "v1", "a").await;
    field.calls.until(1).await;
    let kind = format!("{plural}.{}", field.group);
    let handled = |object: Option<&Value>| object.is_some_and(is_handled);
    field.bed.until("it is handled", &kind, "a", handled).await;
    for served in [false, true] {
        crd["spec"]["versions"][1]["served"] = json!(served);
        field.bed.apply(&crd.to_string()).await;
        if !served {
            field.line(STOPPING).await;
        }
    }
    create(&field, "v1", "b").await;
    field.calls.until(2).await;
    working.stop().await;
    assert_eq!(field.calls.all(), ["create_fn a", "create_fn b"]);
}

async fn a_handler_whose_watch_is_closed_ends_and_is_written(bed: Bed) {
    let (field, kind, other) = with_a_twin_to_come(bed).await;
    let gate = Gate::closed();
    let held = gate.clone();
    let create_fn = field.handler("create_fn", move |_| {
        let gate = held.clone();
        async move {
            gate.pass().await;
            Ok(json!({"made": true}))
        }
    });
    let registry = Registry::new()
        .on_create(plural(&field).as_str(), create_fn)
        .on_create(plural(&field).as_str(), field.noting("second_fn"));
    let working = field.start(registry);
    create(&field, "v1", "a").await;
    field.calls.until(1).await;
    field.bed.apply(&twin(&field, &other).to_string()).await;
    field.line(STOPPING).await;
    gate.open(2);
    let made = |object: Option<&Value>| {
        object.is_some_and(|object| object["status"]["create_fn"] == json!({"made": true}))
    };
    field.bed.until("it is written", &kind, "a", made).await;
    field.line("It is not watched any more").await;
    assert_eq!(field.calls.all(), ["create_fn a"], "nobody else is called");
    field
        .bed
        .delete(DEFINITIONS, &format!("{}.{other}", plural(&field)))
        .await;
    let handled = |object: Option<&Value>| object.is_some_and(is_handled);
    field.bed.until("it is handled", &kind, "a", handled).await;
    working.stop().await;
    assert_eq!(field.calls.all(), ["create_fn a", "second_fn a"]);
}

async fn a_version_that_changes_while_a_handler_runs_causes_no_second_call(bed: Bed) {
    take_over(bed, true).await;
}

async fn a_version_that_is_withdrawn_while_a_handler_runs_causes_no_second_call(bed: Bed) {
    take_over(bed, false).await;
}

/// The version v2 takes over from v1 while a handler runs; v1 may be served on.
async fn take_over(bed: Bed, is_v1_served: bool) {
    let field = Field::bare(bed);
    let kind = format!(
        "/apis/{}/v2/namespaces/{}/{}",
        field.group,
        field.bed.namespace(),
        plural(&field)
    );
    let mut crd = twin(&field, &field.group);
    field.bed.apply(&crd.to_string()).await;
    let gate = Gate::closed();
    let held = gate.clone();
    let create_fn = field.handler("create_fn", move |context| {
        let gate = held.clone();
        async move {
            if context.name() == "a" {
                gate.pass().await;
            }
            Ok(json!({"made": true}))
        }
    });
    let registry = Registry::new()
        .on_create(plural(&field).as_str(), create_fn)
        .on_delete(
            plural(&field).as_str(),
            field.noting("delete_fn").optional(),
        );
    let working = field.start(registry);
    create(&field, "v1", "a").await;
    field.calls.until(1).await;
    let mut v2 = crd["spec"]["versions"][0].clone();
    v2["name"] = json!("v2");
    v2["storage"] = json!(!is_v1_served);
    crd["spec"]["versions"][0]["storage"] = json!(is_v1_served);
    crd["spec"]["versions"][0]["served"] = json!(is_v1_served);
    let versions = crd["spec"]["versions"].as_array_mut();
    versions.expect("versions are a list").push(v2);
    field.bed.apply(&crd.to_string()).await;
    let starting = format!("Starting the watch-stream for {}.v2.", plural(&field));
    field.line(&starting).await;
    create(&field, "v2", "b").await;
    field.calls.until(2).await;
    let handled = |object: Option<&Value>| object.is_some_and(is_handled);
    field.bed.until("it is handled", &kind, "b", handled).await;
    gate.open(2);
    field.bed.until("it is handled", &kind, "a", handled).await;
    working.stop().await;
    assert_eq!(field.calls.all(), ["create_fn a", "create_fn b"]);
}

async fn a_deletion_handler_whose_kind_becomes_ambiguous_keeps_its_hold(bed: Bed) {
    let (field, kind, other) = with_a_twin_to_come(bed).await;
    let registry = Registry::new()
        .on_delete(plural(&field).as_str(), field.noting("delete_fn"))
        .on_create(kind.as_str(), field.noting("create_fn"))
        .on_update(kind.as_str(), field.noting("update_fn"));
    let working = field.start(registry);
    create(&field, "v1", "a").await;
    let handled = |object: Option<&Value>| object.is_some_and(is_handled);
    field.bed.until("it is handled", &kind, "a", handled).await;
    field.bed.apply(&twin(&field, &other).to_string()).await;
    field.line("Ambiguous resources will not be served").await;
    field
        .bed
        .patch(&kind, "a", &json!({"spec": {"size": 2}}))
        .await;
    let updated = |object: Option<&Value>| {
        object
            .and_then(last_handled)
            .is_some_and(|last| last["spec"]["size"] == 2)
    };
    let object = field
        .bed
        .until("its change is handled", &kind, "a", updated)
        .await;
    assert_eq!(
        object["metadata"]["finalizers"],
        json!(["tester.kopf.rs/finalizer"])
    );
    field.bed.delete(&kind, "a").await;
    field
        .line("The deletion waits for handlers that are not served now: 'delete_fn'")
        .await;
    field
        .bed
        .delete(DEFINITIONS, &format!("{}.{other}", plural(&field)))
        .await;
    let gone = |object: Option<&Value>| object.is_none();
    field.bed.until("it is gone", &kind, "a", gone).await;
    working.stop().await;
    assert_eq!(
        field.calls.all(),
        ["create_fn a", "update_fn a", "delete_fn a"]
    );
}

async fn objects_that_go_with_their_namespace_are_deleted_even_where_that_is_told_first(bed: Bed) {
    let field = Field::bare(bed);
    let kind = format!("{}.{}", plural(&field), field.group);
    field
        .bed
        .apply(&twin(&field, &field.group).to_string())
        .await;
    let server = field.bed.in_process().expect("it is in the process");
    let late = Fault::late(Duration::from_secs(2));
    let _late = server.fault(late.on(Verb::Watch).plural(plural(&field)));
    let working = field.start(handlers(&field));
    create(&field, "v1", "a").await;
    let handled = |object: Option<&Value>| object.is_some_and(is_handled);
    field.bed.until("it is handled", &kind, "a", handled).await;
    field.bed.delete("namespaces", field.bed.namespace()).await;
    field.line(STOPPING).await;
    working.stop().await;
    assert_eq!(
        field.calls.all(),
        ["create_fn a", "DELETED a", "delete_fn a"]
    );
}

async fn what_has_ended_while_no_version_is_served_is_written_when_one_is_again(bed: Bed) {
    let field = Field::bare(bed);
    let kind = format!("{}.{}", plural(&field), field.group);
    let crd = twin(&field, &field.group);
    field.bed.apply(&crd.to_string()).await;
    let gate = Gate::closed();
    let held = gate.clone();
    let create_fn = field.handler("create_fn", move |_| {
        let gate = held.clone();
        async move {
            gate.pass().await;
            Ok(json!({"made": true}))
        }
    });
    let working = field.start(Registry::new().on_create(plural(&field).as_str(), create_fn));
    create(&field, "v1", "a").await;
    field.calls.until(1).await;
    let mut version = crd["spec"]["versions"][0].clone();
    for served in [false, true] {
        version["served"] = json!(served);
        let merge = json!({"spec": {"versions": [version]}});
        field.bed.patch(DEFINITIONS, &kind, &merge).await;
        if !served {
            field.line(STOPPING).await;
            gate.open(2);
            field.line("Patching was skipped").await;
            // A minute of virtual time, in which there is nowhere to write.
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
    }
    let handled = |object: Option<&Value>| object.is_some_and(is_handled);
    field.bed.until("it is handled", &kind, "a", handled).await;
    working.stop().await;
    assert_eq!(field.calls.all(), ["create_fn a"]);
}
