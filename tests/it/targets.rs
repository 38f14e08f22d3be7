//! Objects that handlers refer to but do not own: a change of one of them calls a reconciler for the objects that refer to it.

use kopf_rs::{Cause, HandlerError, Index, Registry, indexer};
use kopf_rs_apiserver::{Fault, Verb};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use crate::operating::TestOperator;

scenarios! {
    a_change_of_a_referenced_object_calls_the_objects_that_refer_to_it;
    those_of_before_and_of_now_are_called [memory];
    changes_without_a_watch_are_seen_later [memory];
    changes_before_the_first_listing_are_seen [memory];
}

fn secret(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"password": value}})
}

/// Returns the calls after the first `before`, sorted.
async fn calls_of(test: &TestOperator, before: usize, count: usize) -> Vec<String> {
    let calls = test.calls.until(before + count).await;
    let mut new = calls[before..].to_vec();
    new.sort();
    new
}

/// Creates an object that refers to `first`, then `first` itself, and waits for a call for each. From then on, the operator watches such
/// objects and sees every change.
async fn watched(test: &TestOperator, name: &str, first: &Value) {
    let before = test.calls.all().len();
    let call = format!("r {name}");
    test.create(name, json!({"secret": first["metadata"]["name"]})).await;
    assert_eq!(calls_of(test, before, 1).await, [&*call]);
    test.cluster.create(first).await;
    assert_eq!(calls_of(test, before + 1, 1).await, [&*call]);
}

/// CH59: an index maps a Secret to the objects that refer to it.
async fn a_change_of_a_referenced_object_calls_the_objects_that_refer_to_it(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let by_secret = indexer("by_secret", |cause| {
        let secret: Option<String> = cause.read("spec.secret")?;
        let name = cause.name().to_owned();
        Ok::<_, HandlerError>(secret.map(|secret| (secret, name)))
    });
    let owners = |it: &Cause| {
        assert_eq!(it.body().get("data"), None, "the value is nobody's business here");
        let index: Index<String, String> = it.index("by_secret").expect("there is one");
        index.get(it.name()).iter().cloned().collect::<Vec<_>>()
    };
    let registry = Registry::new()
        .index(test.selector(), by_secret)
        .reconcile(test.selector(), test.noting("r").watches("secrets", owners));
    let working = test.start(registry);
    // Each object refers to its Secret before the Secret exists.
    watched(&test, "b", &secret("other", "1")).await;
    watched(&test, "a", &secret("s", "1")).await;
    let edit = json!({"stringData": {"password": "2"}});
    test.cluster.patch("secrets", "s", &edit).await;
    assert_eq!(calls_of(&test, 4, 1).await, ["r a"]);
    test.patch("a", json!({"spec": {"secret": "t"}})).await;
    assert_eq!(calls_of(&test, 5, 1).await, ["r a"], "the object has changed");
    test.cluster.create(&secret("t", "1")).await;
    assert_eq!(calls_of(&test, 6, 1).await, ["r a"]);
    test.cluster.delete("secrets", "t").await;
    assert_eq!(calls_of(&test, 7, 1).await, ["r a"]);
    working.stop().await;
    assert_eq!(test.calls.all().len(), 8);
}

fn map(name: &str, of: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"of": of}}})
}

/// A label names the objects to call.
fn labelled(test: &TestOperator) -> Registry {
    let owners = |it: &Cause| it.labels().get("of").map(str::to_owned);
    let function = test.noting("r").watches("configmaps", owners);
    Registry::new().reconcile(test.selector(), function)
}

async fn those_of_before_and_of_now_are_called(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let working = test.start(labelled(&test));
    watched(&test, "a", &map("m", "a")).await;
    watched(&test, "b", &map("n", "b")).await;
    test.create("c", json!({})).await;
    assert_eq!(calls_of(&test, 4, 1).await, ["r c"]);
    let move_to = |of: &str| json!({"metadata": {"labels": {"of": of}}});
    test.cluster.patch("configmaps", "m", &move_to("b")).await;
    assert_eq!(calls_of(&test, 5, 2).await, ["r a", "r b"]);
    test.cluster.patch("configmaps", "m", &move_to("nobody")).await;
    assert_eq!(calls_of(&test, 7, 1).await, ["r b"]);
    test.cluster.patch("configmaps", "m", &move_to("c")).await;
    assert_eq!(calls_of(&test, 8, 1).await, ["r c"]);
    working.stop().await;
    assert_eq!(test.calls.all().len(), 9);
}

async fn changes_without_a_watch_are_seen_later(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let working = test.start(labelled(&test));
    watched(&test, "a", &map("m", "a")).await;
    watched(&test, "b", &map("n", "b")).await;
    let server = test.cluster.in_process().expect("a server in the process");
    let watches = server.fault(Fault::answer(503).on(Verb::Watch).plural("configmaps"));
    let lists = server.fault(Fault::answer(503).on(Verb::List).plural("configmaps"));
    drop(server.fault(Fault::cut().on(Verb::Watch).plural("configmaps")));
    test.cluster.delete("configmaps", "m").await;
    server.compact();
    drop((watches, lists));
    assert_eq!(calls_of(&test, 4, 1).await, ["r a"]);
    working.stop().await;
    assert_eq!(test.calls.all().len(), 5);
}

/// The referenced object changes after the call for the object, and before the first list of such objects.
async fn changes_before_the_first_listing_are_seen(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let server = test.cluster.in_process().expect("a server in the process");
    let watches = server.fault(Fault::answer(503).on(Verb::Watch).plural("configmaps"));
    let lists = server.fault(Fault::answer(503).on(Verb::List).plural("configmaps"));
    let working = test.start(labelled(&test));
    test.create("a", json!({})).await;
    test.calls.until(1).await;
    test.cluster.create(&map("m", "a")).await;
    drop((watches, lists));
    assert_eq!(calls_of(&test, 1, 1).await, ["r a"]);
    working.stop().await;
}
