//! Objects that handlers refer to and do not own: a change of one of them calls a reconciler for those whom it concerns.

use kopf_rs::{Cause, HandlerError, Index, Registry, indexer};
use kopf_rs_apiserver::{Fault, Verb};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use crate::operating::TestOperator;

scenarios! {
    a_change_of_what_is_referred_to_calls_those_whom_it_concerns [memory];
    those_of_before_and_of_now_are_called [memory];
    what_changes_while_nobody_watches_is_seen_later [memory];
}

fn secret(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"password": value}})
}

/// Calls that are made of a change of this object, before which there were so many.
async fn calls_of(test: &TestOperator, before: usize, count: usize) -> Vec<String> {
    let calls = test.calls.until(before + count).await;
    let mut new = calls[before..].to_vec();
    new.sort();
    new
}

/// CH59: an index says who refers to a Secret.
async fn a_change_of_what_is_referred_to_calls_those_whom_it_concerns(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let by_secret = indexer("by_secret", |cause| {
        let secret: Option<String> = cause.read("spec.secret")?;
        let name = cause.name().to_owned();
        Ok::<_, HandlerError>(secret.map(|secret| (secret, name)))
    });
    let owners = |it: &Cause| {
        assert_eq!(
            it.body().get("data"),
            None,
            "the value is nobody's business here"
        );
        let index: Index<String, String> = it.index("by_secret").expect("there is one");
        index.get(it.name()).iter().cloned().collect::<Vec<_>>()
    };
    let registry = Registry::new()
        .index(test.selector(), by_secret)
        .reconcile(test.selector(), test.noting("r").watches("secrets", owners));
    let working = test.start(registry);
    test.create("a", json!({"secret": "s"})).await;
    test.create("b", json!({"secret": "other"})).await;
    test.calls.until(2).await;
    test.line("Reconciler 'r' succeeded").await;
    test.cluster.create(&secret("s", "1")).await;
    assert_eq!(
        calls_of(&test, 2, 1).await,
        ["r a"],
        "it was named before it was there"
    );
    let edit = json!({"stringData": {"password": "2"}});
    test.cluster.patch("secrets", "s", &edit).await;
    assert_eq!(calls_of(&test, 3, 1).await, ["r a"]);
    test.patch("a", json!({"spec": {"secret": "t"}})).await;
    assert_eq!(
        calls_of(&test, 4, 1).await,
        ["r a"],
        "the object has changed"
    );
    test.cluster.create(&secret("t", "1")).await;
    assert_eq!(calls_of(&test, 5, 1).await, ["r a"]);
    test.cluster.delete("secrets", "t").await;
    assert_eq!(calls_of(&test, 6, 1).await, ["r a"]);
    working.stop().await;
    assert_eq!(test.calls.all().len(), 7);
}

fn map(name: &str, of: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"of": of}}})
}

/// The label says whom it concerns.
fn labelled(test: &TestOperator) -> Registry {
    let owners = |it: &Cause| it.labels().get("of").map(str::to_owned);
    let function = test.noting("r").watches("configmaps", owners);
    Registry::new().reconcile(test.selector(), function)
}

async fn those_of_before_and_of_now_are_called(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    for name in ["a", "b", "c"] {
        test.create(name, json!({})).await;
    }
    test.cluster.create(&map("m", "a")).await;
    let working = test.start(labelled(&test));
    // Once for themselves.
    test.calls.until(3).await;
    test.line("Reconciler 'r' succeeded").await;
    let move_to = |of: &str| json!({"metadata": {"labels": {"of": of}}});
    test.cluster.patch("configmaps", "m", &move_to("b")).await;
    assert_eq!(calls_of(&test, 3, 2).await, ["r a", "r b"]);
    test.cluster
        .patch("configmaps", "m", &move_to("nobody"))
        .await;
    assert_eq!(calls_of(&test, 5, 1).await, ["r b"]);
    test.cluster.patch("configmaps", "m", &move_to("c")).await;
    assert_eq!(calls_of(&test, 6, 1).await, ["r c"]);
    working.stop().await;
    assert_eq!(test.calls.all().len(), 7);
}

async fn what_changes_while_nobody_watches_is_seen_later(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    test.create("a", json!({})).await;
    test.create("b", json!({})).await;
    test.cluster.create(&map("m", "a")).await;
    test.cluster.create(&map("n", "b")).await;
    let working = test.start(labelled(&test));
    test.calls.until(2).await;
    test.line("Reconciler 'r' succeeded").await;
    let server = test.cluster.in_process().expect("a server in the process");
    let watches = server.fault(Fault::answer(503).on(Verb::Watch).plural("configmaps"));
    let lists = server.fault(Fault::answer(503).on(Verb::List).plural("configmaps"));
    drop(server.fault(Fault::cut().on(Verb::Watch).plural("configmaps")));
    test.cluster.delete("configmaps", "m").await;
    server.compact();
    drop((watches, lists));
    assert_eq!(calls_of(&test, 2, 1).await, ["r a"]);
    working.stop().await;
    assert_eq!(test.calls.all().len(), 3);
}
