//! What the cluster serves changes while an operator works: versions come and go, names get ambiguous, discovery is out. Objects that go
//! on living are not handled again for it, and nobody is told that they are deleted.

use std::time::Duration;

use kopf_rs::Registry;
use kopf_rs_apiserver::{Fault, Verb};
use kopf_rs_tests::{Bed, scenarios};
use serde_json::{Value, json};

use crate::operating::{Field, KIND, Working, definition_of_versions, is_handled};

scenarios! {
    a_kind_that_comes_while_discovery_is_out_is_served_afterwards [memory];
    a_new_preferred_version_takes_over_the_objects [memory tcp];
    of_two_versions_of_a_kind_one_is_served;
    while_the_server_is_away_one_line_tells_it [memory];
    what_finds_a_version_withdrawn_for_a_moment_is_written_afterwards [memory];
    objects_of_a_definition_that_is_being_deleted_are_released_after_a_restart;
    objects_of_a_definition_that_is_served_again_while_it_is_being_deleted_are_released;
    a_listing_that_tells_nothing_new_ends_no_look_for_an_object [memory];
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Define the kind in these versions: name, whether it is served, whether it is stored.
async fn define(field: &Field, versions: &[(&str, bool, bool)]) {
    let crd = definition_of_versions(&field.group, versions);
    if field.bed.get(DEFINITIONS, &field.kind()).await.is_some() {
        field.bed.patch(DEFINITIONS, &field.kind(), &crd).await;
    } else {
        field.bed.apply(&crd.to_string()).await;
    }
}

/// Handlers of everything that can become of an object, named after what they are for.
fn of_all(field: &Field) -> Registry {
    let selector = format!("{KIND}.{}", field.group);
    Registry::new()
        .on_create(selector.as_str(), field.noting("create_fn"))
        .on_update(selector.as_str(), field.noting("update_fn"))
        .on_delete(selector.as_str(), field.noting("delete_fn").optional())
}

/// The versions in which operators have watched the kind, in order and without repetitions.
fn watched_versions(field: &Field) -> Vec<String> {
    let root = format!("/apis/{}/", field.group);
    let asked = field.bed.asked().into_iter();
    let watches = asked.filter(|asked| {
        let looks = ["list", "watch"].contains(&asked.verb.as_str());
        looks && asked.path.ends_with(KIND) && asked.user_agent != Bed::USER_AGENT
    });
    let mut versions: Vec<String> = watches
        .filter_map(|asked| {
            let rest = asked.path.strip_prefix(&root)?;
            Some(rest.split('/').next()?.to_owned())
        })
        .collect();
    versions.dedup();
    versions
}

async fn a_kind_that_comes_while_discovery_is_out_is_served_afterwards(bed: Bed) {
    let field = Field::bare(bed);
    let registry = Registry::new().on_create(field.selector(), field.noting("create_fn"));
    let working = field.start(registry);
    field.line("Unresolved resources cannot be served").await;
    let server = field.bed.in_process().expect("it is in the process");
    let of_operator = |path: &str| path == "/api" || path == "/apis";
    let out = server.fault(Fault::answer(503).when(move |asked| of_operator(&asked.path)));
    field.serve().await;
    field.create("a", json!({})).await;
    // A minute of virtual time: that is how long the outage lasts.
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(out.hits() > 1);
    drop(out);
    field.until("it is handled", "a", is_handled).await;
    working.stop().await;
    assert_eq!(field.calls.all(), ["create_fn a"]);
}

async fn a_new_preferred_version_takes_over_the_objects(bed: Bed) {
    let field = Field::bare(bed);
    define(&field, &[("v1", true, true)]).await;
    let working = field.start(of_all(&field));
    field.create("a", json!({})).await;
    field.until("it is handled", "a", is_handled).await;
    define(&field, &[("v1", true, true), ("v2", true, false)]).await;
    let watching = format!("Starting the watch-stream for {KIND}.v2.{}", field.group);
    field.line(&watching).await;
    field.create("b", json!({})).await;
    field.until("it is handled", "b", is_handled).await;
    field.patch("a", json!({"spec": {"size": 2}})).await;
    let updated = |object: &Value| {
        crate::operating::last_handled(object).is_some_and(|last| last["spec"]["size"] == 2)
    };
    field.until("its change is handled", "a", updated).await;
    field.delete("b").await;
    field.until_gone("b").await;
    field.calls.until(4).await;
    working.stop().await;
    assert_eq!(
        field.calls.all(),
        ["create_fn a", "create_fn b", "update_fn a", "delete_fn b"]
    );
}

async fn of_two_versions_of_a_kind_one_is_served(bed: Bed) {
    let field = Field::bare(bed);
    define(&field, &[("v1beta1", true, true), ("v1", true, false)]).await;
    let group = field.group.as_str();
    let registry = Registry::new()
        .on_create((group, "v1beta1", KIND), field.noting("older_fn"))
        .on_create((group, "v1", KIND), field.noting("newer_fn"));
    let working = field.start(registry);
    field.create("a", json!({})).await;
    field.until("it is handled", "a", is_handled).await;
    let told = field.line("is not served to 'older_fn'").await;
    working.stop().await;
    assert!(
        told.contains(&format!("{KIND}.v1beta1.{group}"))
            && told.contains(&format!("{KIND}.v1.{group}")),
        "{told}"
    );
    assert_eq!(field.calls.all(), ["newer_fn a"]);
    assert_eq!(watched_versions(&field), ["v1"]);
}

async fn while_the_server_is_away_one_line_tells_it(bed: Bed) {
    let field = Field::of(bed).await;
    let mut registry = Registry::new().on_create(field.selector(), field.noting("create_fn"));
    for kind in ["configmaps", "secrets", "services", "pods"] {
        registry = registry.on_event(kind, field.noting(kind));
    }
    let working = field.start(registry);
    field.create("a", json!({})).await;
    field.until("it is handled", "a", is_handled).await;
    let server = field.bed.in_process().expect("it is in the process");
    let by_operator = |agent: Option<&str>| agent != Some(Bed::USER_AGENT);
    let away = server
        .fault(Fault::drop_before().when(move |asked| by_operator(asked.user_agent.as_deref())));
    drop(server.fault(Fault::cut().on(Verb::Watch)));
    // Five minutes of virtual time, in which each watch tries again and again.
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(away.hits() > 50, "{}", away.hits());
    drop(away);
    field.line("Requests succeed again: ").await;
    field.create("b", json!({})).await;
    field.until("it is handled", "b", is_handled).await;
    working.stop().await;
    let lines = field.bed.lines();
    let loud = |line: &str| {
        [" WARN ", "ERROR "]
            .iter()
            .any(|level| line.contains(level))
    };
    let troubles = lines.count(loud);
    assert_eq!(troubles, 1, "{:#?}", lines.all());
    let over = |line: &str| line.contains(" INFO ") && line.contains("again");
    assert_eq!(lines.count(over), 1, "{:#?}", lines.all());
}

async fn what_finds_a_version_withdrawn_for_a_moment_is_written_afterwards(bed: Bed) {
    let field = Field::of(bed).await;
    let server = field.bed.in_process().expect("it is in the process");
    let withdrawn = Fault::answer(404).on(Verb::Patch).plural(KIND).times(2);
    let withdrawn = server.fault(withdrawn);
    let registry = Registry::new().on_create(field.selector(), field.noting("create_fn"));
    let working = field.start(registry);
    field.create("a", json!({})).await;
    field.until("it is handled", "a", is_handled).await;
    working.stop().await;
    assert_eq!(withdrawn.hits(), 2);
    assert_eq!(field.calls.all(), ["create_fn a"]);
}

/// Deletion handlers alone: they hold the objects.
fn of_deletions(field: &Field) -> Registry {
    let selector = format!("{KIND}.{}", field.group);
    Registry::new().on_delete(selector.as_str(), field.noting("delete_fn"))
}

/// Define the kind, and let an operator hold the object `a` of it.
async fn hold(field: &Field) -> Working {
    define(field, &[("v1", true, true)]).await;
    let working = field.start(of_deletions(field));
    field.create("a", json!({})).await;
    let is_held = |object: &Value| !object["metadata"]["finalizers"].is_null();
    field.until("it is held", "a", is_held).await;
    working
}

/// Delete the definition, and await that the server says so, also to those who ask what it serves.
async fn undefine(field: &Field) {
    field.bed.delete(DEFINITIONS, &field.kind()).await;
    let is_terminating = |found: Option<&Value>| {
        let conditions = found.and_then(|it| it["status"]["conditions"].as_array());
        conditions.is_some_and(|all| all.iter().any(|it| it["type"] == "Terminating"))
    };
    let what = "the definition is being deleted";
    field
        .bed
        .until(what, DEFINITIONS, &field.kind(), is_terminating)
        .await;
}

async fn until_undefined(field: &Field) {
    let gone = |found: Option<&Value>| found.is_none();
    let what = "the definition is gone";
    field
        .bed
        .until(what, DEFINITIONS, &field.kind(), gone)
        .await;
}

async fn objects_of_a_definition_that_is_being_deleted_are_released_after_a_restart(bed: Bed) {
    let field = Field::bare(bed);
    hold(&field).await.stop().await;
    undefine(&field).await;
    let path = format!("/apis/{}/v1", field.group);
    let served = field.bed.request("GET", &path, None).await;
    let served = served.expect("the version is served");
    let verbs = ["delete", "deletecollection", "get", "list", "watch"];
    assert_eq!(served["resources"][0]["verbs"], json!(verbs));
    let working = field.start(of_deletions(&field));
    until_undefined(&field).await;
    working.stop().await;
    assert_eq!(field.calls.all(), ["delete_fn a"]);
}

async fn objects_of_a_definition_that_is_served_again_while_it_is_being_deleted_are_released(
    bed: Bed,
) {
    let field = Field::bare(bed);
    let working = hold(&field).await;
    define(&field, &[("v1", false, true)]).await;
    let unwatched = format!("Stopping the watch-stream for {KIND}.v1.{}", field.group);
    field.line(&unwatched).await;
    undefine(&field).await;
    define(&field, &[("v1", true, true)]).await;
    until_undefined(&field).await;
    working.stop().await;
    assert_eq!(field.calls.all(), ["delete_fn a"]);
}

async fn a_listing_that_tells_nothing_new_ends_no_look_for_an_object(bed: Bed) {
    let field = Field::of(bed).await;
    let server = field.bed.in_process().expect("it is in the process");
    let _withdrawn = server.fault(Fault::answer(404).on(Verb::Patch).plural(KIND).times(1));
    let away = server.fault(Fault::answer(503).on(Verb::Get).plural(KIND).times(3));
    let registry = Registry::new().on_create(field.selector(), field.noting("create_fn"));
    let working = field.start(registry);
    field.create("a", json!({})).await;
    for _ in 0..50 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        drop(server.fault(Fault::cut().on(Verb::Watch).plural(KIND)));
    }
    assert!(away.hits() > 0);
    field.until("it is handled", "a", is_handled).await;
    working.stop().await;
    assert_eq!(field.calls.all(), ["create_fn a"]);
}
