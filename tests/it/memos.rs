//! Memos: the in-memory state that the handlers of one object share, and the state that the operator keeps for all objects.

use std::sync::Mutex;

use kopf_rs::{Cause, Memo, Registry, handler, indexer};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::json;

use crate::operating::{Gate, TestOperator, definition, is_handled};

scenarios! {
    a_memo_is_shared_by_all_handlers_of_an_object_and_by_no_other [memory];
    a_memo_begins_with_the_values_of_the_operators [memory];
    an_object_of_the_same_name_has_a_memo_of_its_own;
    a_memo_outlives_the_rest_of_an_indexed_object [memory];
    a_memo_outlives_the_watch_of_an_object_that_is_worked_on [memory];
}

/// The number of events of an object.
#[derive(Clone, Default)]
struct Events(u32);

/// A log that all objects write to.
#[derive(Default)]
struct Book(Mutex<Vec<String>>);

fn events(cause: &Cause) -> u32 {
    cause.memo().get::<Events>().map_or(0, |events| events.0)
}

async fn a_memo_is_shared_by_all_handlers_of_an_object_and_by_no_other(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let event = handler("e", |cause| async move {
        cause.memo().insert(format!("an event of {}", cause.name()));
        Ok(())
    });
    let calls = test.calls.clone();
    let timer = handler("t", move |cause| {
        let told = cause.memo().get::<String>();
        calls.note(format!("{} has {told:?}", cause.name()));
        async { Ok(()) }
    });
    let registry = Registry::new().on_event(test.selector(), event).timer(test.selector(), timer);
    for name in ["a", "b"] {
        test.create(name, json!({})).await;
    }
    let working = test.start(registry);
    let mut calls = test.calls.until(2).await;
    working.stop().await;
    calls.sort();
    let expected = ["a", "b"].map(|name| format!("{name} has Some(\"an event of {name}\")"));
    assert_eq!(calls, expected);
}

async fn a_memo_begins_with_the_values_of_the_operators(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let startup = handler("startup", |cause| async move {
        cause.memo().insert(Events(40));
        cause.memo().insert(Book::default());
        Ok(())
    });
    let calls = test.calls.clone();
    let create = handler("c", move |cause| {
        let book = cause.memo().get::<Book>().expect("startup has put it in");
        let mut book = book.0.lock().expect("nobody panics");
        book.push(cause.name().to_owned());
        let own = cause.memo().update::<Events>(|events| events.0 += 1);
        calls.note(format!("{} {book:?}", own.0));
        async { Ok(()) }
    });
    let calls = test.calls.clone();
    let cleanup = handler("cleanup", move |cause| {
        calls.note(format!("{} at the end", events(&cause)));
        async { Ok(()) }
    });
    let registry = Registry::new().on_startup(startup).on_create(test.selector(), create).on_cleanup(cleanup);
    let given = Memo::default();
    given.insert("given".to_owned());
    let operator = test.operator(registry).memo(given.clone());
    let working = crate::operating::Working::start(&test.cluster, operator);
    test.create("a", json!({})).await;
    test.calls.until(1).await;
    test.create("b", json!({})).await;
    test.calls.until(2).await;
    working.stop().await;
    let expected = [r#"41 ["a"]"#, r#"41 ["a", "b"]"#, "40 at the end"];
    assert_eq!(test.calls.all(), expected);
    assert!(given.get::<Book>().is_some(), "it is the operator's own");
}

async fn an_object_of_the_same_name_has_a_memo_of_its_own(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let calls = test.calls.clone();
    let count = handler("e", move |cause| {
        let own = cause.memo().update::<Events>(|events| events.0 += 1);
        calls.note(format!("{}", own.0));
        async { Ok(()) }
    });
    let working = test.start(Registry::new().on_event(test.selector(), count));
    for told in [1, 3] {
        test.create("a", json!({})).await;
        test.calls.until(told).await;
        test.delete("a").await;
        test.calls.until(told + 1).await;
    }
    working.stop().await;
    assert_eq!(test.calls.all(), ["1", "2", "1", "2"]);
}

async fn a_memo_outlives_the_rest_of_an_indexed_object(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let index = indexer("places", |cause| {
        cause.memo().update::<Events>(|events| events.0 += 1);
        (cause.name().to_owned(), ())
    });
    let calls = test.calls.clone();
    let note = handler("e", move |cause| {
        calls.note(format!("{} of {}", events(&cause), cause.name()));
        async { Ok(()) }
    });
    let registry = Registry::new().index(test.selector(), index).on_event(test.selector(), note);
    let working = test.start(registry);
    test.create("a", json!({})).await;
    test.calls.until(1).await;
    test.create("b", json!({})).await;
    test.calls.until(2).await;
    test.patch("a", json!({"spec": {"size": 1}})).await;
    test.calls.until(3).await;
    test.delete("a").await;
    test.calls.until(4).await;
    working.stop().await;
    let expected = ["1 of a", "1 of b", "2 of a", "2 of a"];
    assert_eq!(test.calls.all(), expected);
}

async fn a_memo_outlives_the_watch_of_an_object_that_is_worked_on(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let calls = test.calls.clone();
    let index = indexer("places", move |cause| {
        calls.note(format!("indexed with {}", events(cause)));
        (cause.name().to_owned(), ())
    });
    let held = gate.clone();
    let create = test.handler("c", move |cause| {
        let gate = held.clone();
        async move {
            cause.memo().insert(Events(7));
            gate.pass().await;
            cause.memo().insert(Events(8));
            Ok(json!(null))
        }
    });
    let registry = Registry::new().index(test.selector(), index).on_create(test.selector(), create);
    let working = test.start(registry);
    test.create("a", json!({})).await;
    test.calls_until("c a").await;
    let mut crd = definition(&test.group);
    let mut other = crd["spec"]["versions"][0].clone();
    (other["name"], other["storage"]) = (json!("v2"), json!(false));
    let versions = crd["spec"]["versions"].as_array_mut();
    versions.expect("versions are a list").push(other);
    crd["spec"]["versions"][0]["served"] = json!(false);
    test.cluster.apply(&crd.to_string()).await;
    test.line("Stopping the watch-stream for kopf").await;
    crd["spec"]["versions"][0]["served"] = json!(true);
    test.cluster.apply(&crd.to_string()).await;
    // The object was listed, and its handler is still running.
    test.calls_until("indexed with 7").await;
    gate.open(1);
    test.until("it is handled", "a", is_handled).await;
    test.patch("a", json!({"spec": {"size": 1}})).await;
    test.calls_until("indexed with 8").await;
    working.stop().await;
}
