//! Changes of the served kinds while an operator runs: versions come and go, names become ambiguous, discovery fails. Live objects are not
//! handled again because of that, and handlers see no deletions.

use std::time::Duration;

use kopf_rs::Registry;
use kopf_rs_apiserver::{Fault, Verb};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use crate::operating::{KIND, TestOperator, Working, definition_of_versions, is_handled};

scenarios! {
    a_kind_that_comes_while_discovery_is_out_is_served_afterwards [memory];
    a_new_preferred_version_takes_over_the_objects [memory];
    of_two_versions_of_a_kind_one_is_served;
    an_unreachable_server_is_reported_in_one_line [memory];
    a_write_to_a_briefly_withdrawn_version_is_repeated [memory];
    objects_of_a_definition_that_is_being_deleted_are_released_after_a_restart;
    objects_of_a_definition_that_is_served_again_while_it_is_being_deleted_are_released;
    a_listing_without_news_does_not_end_the_search_for_an_object [memory];
    of_deletion_handlers_for_two_versions_those_of_the_served_one_let_objects_go;
    no_object_is_held_for_a_version_that_is_not_served_any_more;
    a_kind_without_the_preferred_version_of_its_group_is_served;
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Defines the kind in these versions: name, whether it is served, whether it is stored.
async fn define(test: &TestOperator, versions: &[(&str, bool, bool)]) {
    let crd = definition_of_versions(&test.group, versions);
    if test.cluster.get(DEFINITIONS, &test.kind()).await.is_some() {
        test.cluster.patch(DEFINITIONS, &test.kind(), &crd).await;
    } else {
        test.cluster.apply(&crd.to_string()).await;
    }
}

/// Returns handlers for all causes, named after them.
fn of_all(test: &TestOperator) -> Registry {
    let selector = format!("{KIND}.{}", test.group);
    Registry::new()
        .on_create(selector.as_str(), test.noting("create_fn"))
        .on_update(selector.as_str(), test.noting("update_fn"))
        .on_delete(selector.as_str(), test.noting("delete_fn").optional())
}

/// Returns the versions in which operators have watched the kind, in order and without repetitions.
fn watched_versions(test: &TestOperator) -> Vec<String> {
    let root = format!("/apis/{}/", test.group);
    let asked = test.cluster.asked().into_iter();
    let watches = asked.filter(|asked| {
        let looks = ["list", "watch"].contains(&asked.verb.as_str());
        looks && asked.path.ends_with(KIND) && asked.user_agent != TestCluster::USER_AGENT
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

async fn a_kind_that_comes_while_discovery_is_out_is_served_afterwards(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    let registry = Registry::new().on_create(test.selector(), test.noting("create_fn"));
    let working = test.start(registry);
    test.line("Unresolved resources cannot be served").await;
    let server = test.cluster.in_process().expect("it is in the process");
    let of_operator = |path: &str| path == "/api" || path == "/apis";
    let out = server.fault(Fault::answer(503).when(move |asked| of_operator(&asked.path)));
    test.serve().await;
    test.create("a", json!({})).await;
    // Virtual time: the outage lasts one minute.
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(out.hits() > 1);
    drop(out);
    test.until("it is handled", "a", is_handled).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["create_fn a"]);
}

async fn a_new_preferred_version_takes_over_the_objects(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    define(&test, &[("v1", true, true)]).await;
    let working = test.start(of_all(&test));
    test.create("a", json!({})).await;
    test.until("it is handled", "a", is_handled).await;
    define(&test, &[("v1", true, true), ("v2", true, false)]).await;
    let watching = format!("Starting the watch-stream for {KIND}.v2.{}", test.group);
    test.line(&watching).await;
    test.create("b", json!({})).await;
    test.until("it is handled", "b", is_handled).await;
    test.patch("a", json!({"spec": {"size": 2}})).await;
    let updated =
        |object: &Value| crate::operating::last_handled(object).is_some_and(|last| last["spec"]["size"] == 2);
    test.until("its change is handled", "a", updated).await;
    test.delete("b").await;
    test.until_gone("b").await;
    test.calls.until(4).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["create_fn a", "create_fn b", "update_fn a", "delete_fn b"]);
}

async fn of_two_versions_of_a_kind_one_is_served(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    define(&test, &[("v1beta1", true, true), ("v1", true, false)]).await;
    let group = test.group.as_str();
    let registry = Registry::new()
        .on_create((group, "v1beta1", KIND), test.noting("older_fn"))
        .on_create((group, "v1", KIND), test.noting("newer_fn"));
    let working = test.start(registry);
    test.create("a", json!({})).await;
    test.until("it is handled", "a", is_handled).await;
    let told = test.line("is not served to 'older_fn'").await;
    working.stop().await;
    assert!(
        told.contains(&format!("{KIND}.v1beta1.{group}")) && told.contains(&format!("{KIND}.v1.{group}")),
        "{told}"
    );
    assert_eq!(test.calls.all(), ["newer_fn a"]);
    assert_eq!(watched_versions(&test), ["v1"]);
}

async fn an_unreachable_server_is_reported_in_one_line(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let mut registry = Registry::new().on_create(test.selector(), test.noting("create_fn"));
    for kind in ["configmaps", "secrets", "services", "pods"] {
        registry = registry.on_event(kind, test.noting(kind));
    }
    let working = test.start(registry);
    test.create("a", json!({})).await;
    test.until("it is handled", "a", is_handled).await;
    let server = test.cluster.in_process().expect("it is in the process");
    let by_operator = |agent: Option<&str>| agent != Some(TestCluster::USER_AGENT);
    let away = server.fault(Fault::drop_before().when(move |asked| by_operator(asked.user_agent.as_deref())));
    drop(server.fault(Fault::cut().on(Verb::Watch)));
    // Virtual time: the watches retry for five minutes.
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(away.hits() > 50, "{}", away.hits());
    drop(away);
    test.line("Requests succeed again: ").await;
    test.create("b", json!({})).await;
    test.until("it is handled", "b", is_handled).await;
    working.stop().await;
    let lines = test.cluster.lines();
    let loud = |line: &str| [" WARN ", "ERROR "].iter().any(|level| line.contains(level));
    let troubles = lines.count(loud);
    assert_eq!(troubles, 1, "{:#?}", lines.all());
    let over = |line: &str| line.contains(" INFO ") && line.contains("again");
    assert_eq!(lines.count(over), 1, "{:#?}", lines.all());
}

async fn a_write_to_a_briefly_withdrawn_version_is_repeated(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let server = test.cluster.in_process().expect("it is in the process");
    let withdrawn = Fault::answer(404).on(Verb::Patch).plural(KIND).times(2);
    let withdrawn = server.fault(withdrawn);
    let registry = Registry::new().on_create(test.selector(), test.noting("create_fn"));
    let working = test.start(registry);
    test.create("a", json!({})).await;
    test.until("it is handled", "a", is_handled).await;
    working.stop().await;
    assert_eq!(withdrawn.hits(), 2);
    assert_eq!(test.calls.all(), ["create_fn a"]);
}

/// Returns a registry with only a deletion handler, which requires a finalizer.
fn of_deletions(test: &TestOperator) -> Registry {
    let selector = format!("{KIND}.{}", test.group);
    Registry::new().on_delete(selector.as_str(), test.noting("delete_fn"))
}

/// Defines the kind, and lets an operator add its finalizer to the object `a`.
async fn hold(test: &TestOperator) -> Working {
    define(test, &[("v1", true, true)]).await;
    let working = test.start(of_deletions(test));
    test.create("a", json!({})).await;
    test.until("it is held", "a", is_held).await;
    working
}

fn is_held(object: &Value) -> bool {
    !object["metadata"]["finalizers"].is_null()
}

/// Deletes the definition, and waits until the server marks it as terminating; discovery omits the kind from then on.
async fn undefine(test: &TestOperator) {
    test.cluster.delete(DEFINITIONS, &test.kind()).await;
    let is_terminating = |found: Option<&Value>| {
        let conditions = found.and_then(|it| it["status"]["conditions"].as_array());
        conditions.is_some_and(|all| all.iter().any(|it| it["type"] == "Terminating"))
    };
    let what = "the definition is being deleted";
    test.cluster.until(what, DEFINITIONS, &test.kind(), is_terminating).await;
}

async fn until_undefined(test: &TestOperator) {
    let gone = |found: Option<&Value>| found.is_none();
    let what = "the definition is gone";
    test.cluster.until(what, DEFINITIONS, &test.kind(), gone).await;
}

async fn objects_of_a_definition_that_is_being_deleted_are_released_after_a_restart(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    hold(&test).await.stop().await;
    undefine(&test).await;
    let path = format!("/apis/{}/v1", test.group);
    let verbs = json!(["delete", "deletecollection", "get", "list", "watch"]);
    // The server updates this list later than the condition of the definition.
    let reduced = async {
        loop {
            let served = test.cluster.request("GET", &path, None).await;
            if served.expect("the version is served")["resources"][0]["verbs"] == verbs {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let reduced = tokio::time::timeout(test.cluster.server().patience(), reduced).await;
    reduced.expect("objects of this kind can only be read and deleted");
    let working = test.start(of_deletions(&test));
    until_undefined(&test).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["delete_fn a"]);
}

async fn objects_of_a_definition_that_is_served_again_while_it_is_being_deleted_are_released(
    cluster: TestCluster,
) {
    let test = TestOperator::bare(cluster);
    let working = hold(&test).await;
    define(&test, &[("v1", false, true)]).await;
    let unwatched = format!("Stopping the watch-stream for {KIND}.v1.{}", test.group);
    test.line(&unwatched).await;
    undefine(&test).await;
    define(&test, &[("v1", true, true)]).await;
    until_undefined(&test).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["delete_fn a"]);
}

async fn a_listing_without_news_does_not_end_the_search_for_an_object(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let server = test.cluster.in_process().expect("it is in the process");
    let _withdrawn = server.fault(Fault::answer(404).on(Verb::Patch).plural(KIND).times(1));
    let away = server.fault(Fault::answer(503).on(Verb::Get).plural(KIND).times(3));
    let registry = Registry::new().on_create(test.selector(), test.noting("create_fn"));
    let working = test.start(registry);
    test.create("a", json!({})).await;
    for _ in 0..50 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        drop(server.fault(Fault::cut().on(Verb::Watch).plural(KIND)));
    }
    assert!(away.hits() > 0);
    test.until("it is handled", "a", is_handled).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["create_fn a"]);
}

async fn of_deletion_handlers_for_two_versions_those_of_the_served_one_let_objects_go(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    define(&test, &[("v1beta1", true, true), ("v1", true, false)]).await;
    let group = test.group.as_str();
    let registry = Registry::new()
        .on_delete((group, "v1beta1", KIND), test.noting("older_fn"))
        .on_delete((group, "v1", KIND), test.noting("newer_fn"));
    let working = test.start(registry);
    test.create("a", json!({})).await;
    test.until("it is held", "a", is_held).await;
    test.delete("a").await;
    test.until_gone("a").await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["newer_fn a"]);
}

async fn no_object_is_held_for_a_version_that_is_not_served_any_more(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    define(&test, &[("v1beta1", true, true)]).await;
    let group = test.group.as_str();
    let registry = Registry::new()
        .on_delete((group, "v1beta1", KIND), test.noting("older_fn"))
        .on_create((group, "v1", KIND), test.noting("newer_fn"));
    let working = test.start(registry);
    let api_version = format!("{group}/v1beta1");
    let object =
        json!({"apiVersion": api_version, "kind": "KopfExample", "metadata": {"name": "a"}, "spec": {}});
    test.cluster.create(&object).await;
    test.until("it is held", "a", is_held).await;
    define(&test, &[("v1beta1", true, false), ("v1", true, true)]).await;
    test.line(&format!("Starting the watch-stream for {KIND}.v1.{group}")).await;
    test.delete("a").await;
    test.line("The deletion waits for handlers that are not served now: 'older_fn'").await;
    define(&test, &[("v1beta1", false, false), ("v1", true, true)]).await;
    // Only this version is still served.
    let namespace = test.cluster.namespace();
    let kind = format!("/apis/{group}/v1/namespaces/{namespace}/{KIND}");
    let gone = |found: Option<&Value>| found.is_none();
    test.cluster.until("it is gone", &kind, "a", gone).await;
    working.stop().await;
    assert!(test.calls.all().is_empty());
}

/// Another kind of the group has the group's preferred version.
async fn a_kind_without_the_preferred_version_of_its_group_is_served(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    let mut gadgets = definition_of_versions(&test.group, &[("v2", true, true)]);
    gadgets["metadata"]["name"] = json!(format!("kopfgadgets.{}", test.group));
    gadgets["spec"]["names"] =
        json!({"plural": "kopfgadgets", "singular": "kopfgadget", "kind": "KopfGadget"});
    test.cluster.apply(&gadgets.to_string()).await;
    define(&test, &[("v1", true, true)]).await;
    let working = test.start(of_all(&test));
    test.create("a", json!({})).await;
    test.until("it is handled", "a", is_handled).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["create_fn a"]);
}
