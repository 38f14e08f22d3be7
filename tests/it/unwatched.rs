//! Objects whose watch ends: an unwatched object does not count as deleted.

use std::time::Duration;

use kopf_rs::{EventType, Registry, handler};
use kopf_rs_apiserver::{Fault, Verb};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use crate::operating::{Gate, TestOperator, Working, definition, is_handled, last_handled};

scenarios! {
    an_object_whose_kind_becomes_ambiguous_is_not_deleted;
    an_object_whose_version_is_no_longer_served_is_not_deleted;
    a_handler_whose_watch_is_closed_ends_and_is_written;
    a_version_that_changes_while_a_handler_runs_causes_no_second_call;
    a_version_that_is_withdrawn_while_a_handler_runs_causes_no_second_call;
    outcomes_from_a_time_without_served_versions_are_written_later [memory];
    an_object_that_is_watched_again_while_its_outcome_is_written_is_not_taken_for_new [memory];
    a_deletion_handler_whose_kind_becomes_ambiguous_keeps_its_hold;
    objects_of_a_deleted_namespace_are_deleted_even_if_the_namespace_is_reported_first [memory];
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const STOPPING: &str = "Stopping the watch-stream for kopf";

/// Returns a plural that is unique to this cluster, so that other tests cannot make it ambiguous.
fn plural(test: &TestOperator) -> String {
    format!("kopf{}", test.cluster.namespace().replace('-', ""))
}

/// Returns the definition of that plural in a group.
fn twin(test: &TestOperator, group: &str) -> Value {
    let mut crd = definition(group);
    let plural = plural(test);
    crd["metadata"]["name"] = json!(format!("{plural}.{group}"));
    crd["spec"]["names"] = json!({"plural": plural, "singular": format!("{plural}x"), "kind": "KopfTwin"});
    crd
}

async fn create(test: &TestOperator, version: &str, name: &str) {
    let api_version = format!("{}/{version}", test.group);
    let object = json!({"apiVersion": api_version, "kind": "KopfTwin", "metadata": {"name": name}, "spec": {"size": 1}});
    test.cluster.create(&object).await;
}

/// Returns handlers for the plural in any group and version, which also record deletions and `DELETED` events.
fn handlers(test: &TestOperator) -> Registry {
    let plural = plural(test);
    let calls = test.calls.clone();
    let event = handler("event_fn", move |context| {
        if context.event_type() == Some(EventType::Deleted) {
            calls.note(format!("DELETED {}", context.name()));
        }
        async { Ok(()) }
    });
    Registry::new()
        .on_create(plural.as_str(), test.noting("create_fn"))
        .on_update(plural.as_str(), test.noting("update_fn"))
        .on_delete(plural.as_str(), test.noting("delete_fn").optional())
        .on_event(plural.as_str(), event)
}

/// Serves the kind, and returns its name and another group, in which a kind with the same plural will follow.
async fn with_a_twin_to_come(cluster: TestCluster) -> (TestOperator, String, String) {
    let test = TestOperator::bare(cluster);
    let (kind, other) = (format!("{}.{}", plural(&test), test.group), format!("other-{}", test.group));
    test.cluster.apply(&twin(&test, &test.group).to_string()).await;
    (test, kind, other)
}

async fn an_object_whose_kind_becomes_ambiguous_is_not_deleted(cluster: TestCluster) {
    let (test, kind, other) = with_a_twin_to_come(cluster).await;
    let working = test.start(handlers(&test));
    create(&test, "v1", "a").await;
    let handled = |object: Option<&Value>| object.is_some_and(is_handled);
    test.cluster.until("it is handled", &kind, "a", handled).await;
    test.cluster.apply(&twin(&test, &other).to_string()).await;
    test.line(STOPPING).await;
    test.cluster.delete(DEFINITIONS, &format!("{}.{other}", plural(&test))).await;
    test.cluster.patch(&kind, "a", &json!({"spec": {"size": 2}})).await;
    test.calls.until(2).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["create_fn a", "update_fn a"]);
    let again = format!("Serving {}.v1.{}.", plural(&test), test.group);
    let told = test.cluster.lines().count(|line| line.contains(&again));
    assert_eq!(told, 2, "at the start, and once it is served again");
}

async fn an_object_whose_version_is_no_longer_served_is_not_deleted(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    let mut crd = twin(&test, &test.group);
    let mut v2 = crd["spec"]["versions"][0].clone();
    v2["name"] = json!("v2");
    v2["storage"] = json!(false);
    let versions = crd["spec"]["versions"].as_array_mut();
    versions.expect("versions are a list").push(v2);
    test.cluster.apply(&crd.to_string()).await;
    let plural = plural(&test);
    let selector = (&*test.group, "v2", &*plural);
    let registry = Registry::new()
        .on_create(selector, test.noting("create_fn"))
        .on_delete(selector, test.noting("delete_fn").optional());
    let working = test.start(registry);
    create(&test, "v1", "a").await;
    test.calls.until(1).await;
    let kind = format!("{plural}.{}", test.group);
    let handled = |object: Option<&Value>| object.is_some_and(is_handled);
    test.cluster.until("it is handled", &kind, "a", handled).await;
    for served in [false, true] {
        crd["spec"]["versions"][1]["served"] = json!(served);
        test.cluster.apply(&crd.to_string()).await;
        if !served {
            test.line(STOPPING).await;
        }
    }
    create(&test, "v1", "b").await;
    test.calls.until(2).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["create_fn a", "create_fn b"]);
}

async fn a_handler_whose_watch_is_closed_ends_and_is_written(cluster: TestCluster) {
    let (test, kind, other) = with_a_twin_to_come(cluster).await;
    let gate = Gate::closed();
    let create_fn = test.waiting_with("create_fn", &gate, json!({"made": true}));
    let registry = Registry::new()
        .on_create(plural(&test).as_str(), create_fn)
        .on_create(plural(&test).as_str(), test.noting("second_fn"));
    let working = test.start(registry);
    create(&test, "v1", "a").await;
    test.calls.until(1).await;
    test.cluster.apply(&twin(&test, &other).to_string()).await;
    test.line(STOPPING).await;
    gate.open(2);
    let made = |object: Option<&Value>| {
        object.is_some_and(|object| object["status"]["create_fn"] == json!({"made": true}))
    };
    test.cluster.until("it is written", &kind, "a", made).await;
    test.line("The object is no longer watched").await;
    assert_eq!(test.calls.all(), ["create_fn a"], "nobody else is called");
    test.cluster.delete(DEFINITIONS, &format!("{}.{other}", plural(&test))).await;
    let handled = |object: Option<&Value>| object.is_some_and(is_handled);
    test.cluster.until("it is handled", &kind, "a", handled).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["create_fn a", "second_fn a"]);
}

async fn a_version_that_changes_while_a_handler_runs_causes_no_second_call(cluster: TestCluster) {
    take_over(cluster, true).await;
}

async fn a_version_that_is_withdrawn_while_a_handler_runs_causes_no_second_call(cluster: TestCluster) {
    take_over(cluster, false).await;
}

/// The version v2 takes over from v1 while a handler runs; v1 may continue to be served.
async fn take_over(cluster: TestCluster, is_v1_served: bool) {
    let test = TestOperator::bare(cluster);
    let kind = format!("/apis/{}/v2/namespaces/{}/{}", test.group, test.cluster.namespace(), plural(&test));
    let mut crd = twin(&test, &test.group);
    test.cluster.apply(&crd.to_string()).await;
    let gate = Gate::closed();
    let held = gate.clone();
    let create_fn = test.handler("create_fn", move |context| {
        let gate = held.clone();
        async move {
            if context.name() == "a" {
                gate.pass().await;
            }
            Ok(json!({"made": true}))
        }
    });
    let registry = Registry::new()
        .on_create(plural(&test).as_str(), create_fn)
        .on_delete(plural(&test).as_str(), test.noting("delete_fn").optional());
    let working = test.start(registry);
    create(&test, "v1", "a").await;
    test.calls.until(1).await;
    let mut v2 = crd["spec"]["versions"][0].clone();
    v2["name"] = json!("v2");
    v2["storage"] = json!(!is_v1_served);
    crd["spec"]["versions"][0]["storage"] = json!(is_v1_served);
    crd["spec"]["versions"][0]["served"] = json!(is_v1_served);
    let versions = crd["spec"]["versions"].as_array_mut();
    versions.expect("versions are a list").push(v2);
    test.cluster.apply(&crd.to_string()).await;
    let starting = format!("Starting the watch-stream for {}.v2.", plural(&test));
    test.line(&starting).await;
    create(&test, "v2", "b").await;
    test.calls.until(2).await;
    let handled = |object: Option<&Value>| object.is_some_and(is_handled);
    test.cluster.until("it is handled", &kind, "b", handled).await;
    gate.open(2);
    test.cluster.until("it is handled", &kind, "a", handled).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["create_fn a", "create_fn b"]);
}

async fn a_deletion_handler_whose_kind_becomes_ambiguous_keeps_its_hold(cluster: TestCluster) {
    let (test, kind, other) = with_a_twin_to_come(cluster).await;
    let registry = Registry::new()
        .on_delete(plural(&test).as_str(), test.noting("delete_fn"))
        .on_create(kind.as_str(), test.noting("create_fn"))
        .on_update(kind.as_str(), test.noting("update_fn"));
    let working = test.start(registry);
    create(&test, "v1", "a").await;
    let handled = |object: Option<&Value>| object.is_some_and(is_handled);
    test.cluster.until("it is handled", &kind, "a", handled).await;
    test.cluster.apply(&twin(&test, &other).to_string()).await;
    test.line("Ambiguous resources will not be served").await;
    test.cluster.patch(&kind, "a", &json!({"spec": {"size": 2}})).await;
    let updated =
        |object: Option<&Value>| object.and_then(last_handled).is_some_and(|last| last["spec"]["size"] == 2);
    let object = test.cluster.until("its change is handled", &kind, "a", updated).await;
    assert_eq!(object["metadata"]["finalizers"], json!(["tester.kopf.rs/finalizer"]));
    test.cluster.delete(&kind, "a").await;
    test.line("The deletion waits for handlers that are not served now: 'delete_fn'").await;
    test.cluster.delete(DEFINITIONS, &format!("{}.{other}", plural(&test))).await;
    let gone = |object: Option<&Value>| object.is_none();
    test.cluster.until("it is gone", &kind, "a", gone).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["create_fn a", "update_fn a", "delete_fn a"]);
}

async fn objects_of_a_deleted_namespace_are_deleted_even_if_the_namespace_is_reported_first(
    cluster: TestCluster,
) {
    let test = TestOperator::bare(cluster);
    let kind = format!("{}.{}", plural(&test), test.group);
    test.cluster.apply(&twin(&test, &test.group).to_string()).await;
    let server = test.cluster.in_process().expect("it is in the process");
    let late = Fault::late(Duration::from_secs(2));
    let _late = server.fault(late.on(Verb::Watch).plural(plural(&test)));
    let working = test.start(handlers(&test));
    create(&test, "v1", "a").await;
    let handled = |object: Option<&Value>| object.is_some_and(is_handled);
    test.cluster.until("it is handled", &kind, "a", handled).await;
    test.cluster.delete("namespaces", test.cluster.namespace()).await;
    test.line(STOPPING).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["create_fn a", "DELETED a", "delete_fn a"]);
}

async fn outcomes_from_a_time_without_served_versions_are_written_later(cluster: TestCluster) {
    let withdrawn = Withdrawn::while_a_handler_runs(cluster, 1).await;
    // A minute of virtual time, in which no version accepts writes.
    tokio::time::sleep(Duration::from_secs(60)).await;
    withdrawn.serve_again().await;
    assert_eq!(withdrawn.stop_once_handled(1).await, ["create_fn a"]);
}

async fn an_object_that_is_watched_again_while_its_outcome_is_written_is_not_taken_for_new(
    cluster: TestCluster,
) {
    let withdrawn = Withdrawn::while_a_handler_runs(cluster, 2).await;
    // The write is in flight when the new watch lists the object, and reaches the server after that.
    let plural = plural(&withdrawn.test);
    let server = withdrawn.test.cluster.in_process();
    let server = server.expect("it is in the process");
    let late = |verb, seconds| {
        let fault = Fault::delay(Duration::from_secs(seconds));
        server.fault(fault.on(verb).plural(&*plural))
    };
    let _late = [late(Verb::List, 10), late(Verb::Watch, 10), late(Verb::Patch, 25)];
    withdrawn.serve_again().await;
    assert_eq!(withdrawn.stop_once_handled(2).await, ["create_fn a", "update_fn a"]);
}

/// A kind whose only version was withdrawn while a handler ran, so that its result is not written yet.
struct Withdrawn {
    test: TestOperator,
    working: Working,
    crd: Value,
}

impl Withdrawn {
    /// Creates the object with size 1, and sets this size while the handler runs.
    async fn while_a_handler_runs(cluster: TestCluster, size: u32) -> Self {
        let test = TestOperator::bare(cluster);
        let crd = twin(&test, &test.group);
        test.cluster.apply(&crd.to_string()).await;
        let gate = Gate::closed();
        let create_fn = test.waiting_with("create_fn", &gate, json!({"made": true}));
        let registry = Registry::new()
            .on_create(plural(&test).as_str(), create_fn)
            .on_update(plural(&test).as_str(), test.noting("update_fn"));
        let working = test.start(registry);
        let it = Self { test, working, crd };
        create(&it.test, "v1", "a").await;
        it.test.calls.until(1).await;
        let merge = json!({"spec": {"size": size}});
        it.test.cluster.patch(&it.kind(), "a", &merge).await;
        it.serve(false).await;
        it.test.line(STOPPING).await;
        gate.open(2);
        it.test.line("Patching was skipped").await;
        it
    }

    async fn serve_again(&self) {
        self.serve(true).await;
    }

    async fn serve(&self, served: bool) {
        let mut version = self.crd["spec"]["versions"][0].clone();
        version["served"] = json!(served);
        let merge = json!({"spec": {"versions": [version]}});
        let kind = self.kind();
        self.test.cluster.patch(DEFINITIONS, &kind, &merge).await;
    }

    fn kind(&self) -> String {
        format!("{}.{}", plural(&self.test), self.test.group)
    }

    /// Waits until the object is handled with this size, stops the operator, and returns the calls.
    async fn stop_once_handled(self, size: u32) -> Vec<String> {
        let handled = |object: Option<&Value>| {
            let last = object.and_then(last_handled);
            last.is_some_and(|last| last["spec"]["size"] == size)
        };
        let (cluster, kind) = (&self.test.cluster, self.kind());
        cluster.until("it is handled", &kind, "a", handled).await;
        self.working.stop().await;
        self.test.calls.all()
    }
}
