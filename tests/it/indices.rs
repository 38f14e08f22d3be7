//! Indices: each object is indexed before any handler sees it, and all existing objects are indexed before the first handler is called.

mod troubles;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kopf_rs::{
    Callback, Cause, HandlerError, Index, IndexEntries, PermanentError, Registry, Settings, TemporaryError,
    handler, indexer, indexer_async,
};
use kopf_rs_apiserver::{ApiServer, Fault, Verb};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use crate::operating::{Gate, TestOperator, is_handled};

scenarios! {
    no_handler_is_called_before_all_is_indexed;
    a_value_moves_with_its_object [memory];
    no_entries_differ_from_no_change [memory];
    values_without_keys_stand_together [memory];
    filters_and_deletions_take_values_out [memory];
    a_temporary_error_takes_values_out_for_a_while [memory];
    a_permanent_error_removes_values_permanently [memory];
    an_arbitrary_error_leaves_values_as_they_are [memory];
    a_kind_without_objects_delays_no_others [memory];
    a_kind_that_may_not_be_listed_delays_no_others [memory];
    a_kind_that_cannot_be_listed_for_now_is_waited_for_a_while [memory];
    no_limit_of_workers_is_in_the_way [memory];
    an_answer_to_a_write_is_indexed_before_the_next_handler;
    objects_deleted_during_a_gap_are_removed [memory];
    a_slow_function_holds_up_its_object_and_no_other [memory];
    an_index_is_there_for_activities_filters_daemons_and_sub_handlers [memory];
    an_index_without_a_function_is_refused [memory];
}

fn server(test: &TestOperator) -> &ApiServer {
    let server = test.cluster.in_process();
    server.expect("it runs on a server in the process")
}

/// An index of object names by `spec.place`.
fn by_place() -> Callback {
    indexer("by_place", |cause| {
        let place: Option<String> = cause.read("spec.place")?;
        let name = cause.name().to_owned();
        Ok::<_, HandlerError>(place.map(|place| (place, name)))
    })
}

/// Formats the whole index.
fn shown(cause: &Cause) -> String {
    let index: Index<String, String> = cause.index("by_place").expect("there is one");
    let mut all: Vec<_> = index
        .iter()
        .map(|(place, names)| {
            let mut names = names.to_vec();
            names.sort();
            format!("{place}:{}", names.join("+"))
        })
        .collect();
    all.sort();
    all.join(" ")
}

/// A handler that records the contents of the index at its call.
fn showing(test: &TestOperator, id: &'static str) -> Callback {
    let calls = test.calls.clone();
    handler(id, move |cause| {
        calls.note(format!("{id} {} {}", cause.name(), shown(&cause)));
        async { Ok(()) }
    })
}

fn place(place: &str) -> Value {
    json!({"spec": {"place": place}})
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

async fn no_handler_is_called_before_all_is_indexed(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    for name in ["a", "b", "c"] {
        test.create(name, json!({"place": "x"})).await;
    }
    test.cluster.create(&config_map("other")).await;
    let slow = indexer_async("by_place", |cause| async move {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let place: String = cause.read("spec.place")?;
        Ok::<_, HandlerError>((place, cause.name().to_owned()))
    });
    let registry = Registry::new()
        .index(test.selector(), slow)
        .on_event(test.selector(), showing(&test, "e"))
        .on_event(("v1", "configmaps"), showing(&test, "other").when(|cause| cause.name() == "other"));
    let working = test.start(registry);
    let mut calls = test.calls.until(4).await;
    working.stop().await;
    calls.sort();
    let expected = ["e a", "e b", "e c", "other other"].map(|call| format!("{call} x:a+b+c"));
    assert_eq!(calls[..4], expected);
}

async fn a_value_moves_with_its_object(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry =
        Registry::new().index(test.selector(), by_place()).on_event(test.selector(), showing(&test, "e"));
    let working = test.start(registry);
    test.create("a", json!({"place": "x"})).await;
    test.calls.until(1).await;
    test.create("b", json!({"place": "x"})).await;
    test.calls.until(2).await;
    test.patch("a", place("y")).await;
    test.calls.until(3).await;
    test.patch("b", place("y")).await;
    test.calls.until(4).await;
    working.stop().await;
    let expected = ["e a x:a", "e b x:a+b", "e a x:b y:a", "e b y:a+b"];
    assert_eq!(test.calls.all(), expected);
}

async fn no_entries_differ_from_no_change(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let index = indexer("by_place", |cause| {
        let place: String = cause.read("spec.place")?;
        Ok::<_, HandlerError>(match &*place {
            "same" => IndexEntries::Unchanged,
            "nowhere" => IndexEntries::These(Vec::new()),
            _ => [(place, cause.name().to_owned())].into_iter().collect(),
        })
    });
    let none = indexer("values", |cause| (cause.name().to_owned(), None::<u8>));
    let calls = test.calls.clone();
    let event = handler("e", move |cause| {
        let values: Index<String, Option<u8>> = cause.index("values").expect("there is one");
        calls.note(format!("{} {:?}", shown(&cause), values.get("a")));
        async { Ok(()) }
    });
    let registry = Registry::new()
        .index(test.selector(), index)
        .index(test.selector(), none)
        .on_event(test.selector(), event);
    let working = test.start(registry);
    test.create("a", json!({"place": "x"})).await;
    test.calls.until(1).await;
    test.patch("a", place("same")).await;
    test.calls.until(2).await;
    test.patch("a", place("nowhere")).await;
    test.calls.until(3).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["x:a [None]", "x:a [None]", " [None]"]);
}

async fn values_without_keys_stand_together(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let sizes = indexer("sizes", |cause| {
        let sizes: Vec<u32> = cause.read("spec.sizes")?;
        Ok::<_, HandlerError>(((), sizes))
    });
    let calls = test.calls.clone();
    let event = handler("e", move |cause| {
        let sizes: Index<(), Vec<u32>> = cause.index("sizes").expect("there is one");
        calls.note(format!("{:?}", sizes.get(&())));
        async { Ok(()) }
    });
    let registry = Registry::new().index(test.selector(), sizes).on_event(test.selector(), event);
    let working = test.start(registry);
    test.create("a", json!({"sizes": [1, 2]})).await;
    test.calls.until(1).await;
    test.create("b", json!({"sizes": []})).await;
    let calls = test.calls.until(2).await;
    working.stop().await;
    assert_eq!(calls, ["[[1, 2]]", "[[1, 2], []]"]);
}

async fn filters_and_deletions_take_values_out(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new()
        .index(test.selector(), by_place().label("on", "yes"))
        .on_event(test.selector(), showing(&test, "e"));
    let working = test.start(registry);
    let label = |value: Value| json!({"metadata": {"labels": {"on": value}}});
    test.create("a", json!({"place": "x"})).await;
    test.calls.until(1).await;
    test.patch("a", label(json!("yes"))).await;
    test.calls.until(2).await;
    test.create("b", json!({"place": "x"})).await;
    test.calls.until(3).await;
    test.patch("b", label(json!("yes"))).await;
    test.calls.until(4).await;
    test.patch("a", label(Value::Null)).await;
    test.calls.until(5).await;
    test.delete("b").await;
    test.calls.until(6).await;
    working.stop().await;
    let expected = ["e a ", "e a x:a", "e b x:a", "e b x:a+b", "e a x:b", "e b "];
    assert_eq!(test.calls.all(), expected);
}

/// An index function that fails at its first call for `bad`.
fn failing(test: &TestOperator, error: fn() -> HandlerError) -> Callback {
    let failed = Arc::new(AtomicUsize::new(0));
    let calls = test.calls.clone();
    indexer("by_place", move |cause| {
        let place: String = cause.read("spec.place")?;
        calls.note(format!("indexed at {place}"));
        if place == "bad" && failed.fetch_add(1, Ordering::Relaxed) == 0 {
            return Err(error());
        }
        Ok((place, cause.name().to_owned()))
    })
}

/// Moves the object of these handlers from place to place, each time after the previous event was handled.
async fn visit(test: &TestOperator, places: &[&str], pause: Duration) {
    test.create("a", json!({"place": places[0]})).await;
    for (events, next) in (1..).zip(places) {
        if events > 1 {
            tokio::time::sleep(pause).await;
            test.patch("a", place(next)).await;
        }
        let mut pulse = tokio::time::interval(Duration::from_millis(5));
        let is_told = |call: &&String| call.starts_with("e a");
        while test.calls.all().iter().filter(is_told).count() < events {
            pulse.tick().await;
        }
    }
}

async fn a_temporary_error_takes_values_out_for_a_while(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let index = failing(&test, || TemporaryError::new("later").delay(2).into());
    let registry =
        Registry::new().index(test.selector(), index).on_event(test.selector(), showing(&test, "e"));
    let working = test.start(registry);
    visit(&test, &["x", "bad", "y", "z"], Duration::from_millis(1100)).await;
    working.stop().await;
    let expected = ["indexed at x", "e a x:a", "indexed at bad", "e a ", "e a ", "indexed at z", "e a z:a"];
    assert_eq!(test.calls.all(), expected);
    test.line("Indexer 'by_place' failed temporarily: later").await;
}

async fn a_permanent_error_removes_values_permanently(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let index = failing(&test, || PermanentError::new("never").into());
    let registry =
        Registry::new().index(test.selector(), index).on_event(test.selector(), showing(&test, "e"));
    let working = test.start(registry);
    visit(&test, &["x", "bad", "y"], Duration::ZERO).await;
    working.stop().await;
    let expected = ["indexed at x", "e a x:a", "indexed at bad", "e a ", "e a "];
    assert_eq!(test.calls.all(), expected);
    test.line("Indexer 'by_place' failed permanently: never").await;
}

async fn an_arbitrary_error_leaves_values_as_they_are(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let index = failing(&test, || HandlerError::from("oops"));
    let registry = Registry::new()
        .index(test.selector(), index)
        .on_event(test.selector(), showing(&test, "e"))
        .on_create(test.selector(), test.noting("c"));
    let working = test.start(registry);
    visit(&test, &["x"], Duration::ZERO).await;
    test.until("it is handled", "a", is_handled).await;
    test.patch("a", place("bad")).await;
    test.line("Indexer 'by_place' failed with an exception and will ignore it: oops").await;
    test.patch("a", place("y")).await;
    let mut pulse = tokio::time::interval(Duration::from_millis(5));
    while !test.calls.all().contains(&"e a y:a".to_owned()) {
        pulse.tick().await;
    }
    working.stop().await;
    let calls = test.calls.all();
    assert!(!calls.contains(&"e a ".to_owned()), "{calls:?}");
}

async fn a_kind_without_objects_delays_no_others(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    test.cluster.create(&config_map("other")).await;
    let registry = Registry::new()
        .index(test.selector(), by_place())
        .on_event(("v1", "configmaps"), showing(&test, "e").when(|cause| cause.name() == "other"));
    let working = test.start(registry);
    assert_eq!(test.calls.until(1).await, ["e other "]);
    working.stop().await;
}

/// Runs an operator with an index of a kind whose list requests fail, and with a handler of another kind.
async fn without_a_listing(cluster: TestCluster, code: u16) -> (TestOperator, Duration) {
    let test = TestOperator::of(cluster).await;
    test.cluster.create(&config_map("other")).await;
    let refusal = |verb| Fault::answer(code).on(verb).plural("kopfexamples");
    let _refused = [Verb::List, Verb::Watch].map(|verb| server(&test).fault(refusal(verb)));
    let registry = Registry::new()
        .index(test.selector(), by_place())
        .index(("example.com", "v1", "absents"), indexer("absents", |_| ((), ())))
        .on_event(("v1", "configmaps"), showing(&test, "e").when(|cause| cause.name() == "other"));
    let begun = tokio::time::Instant::now();
    let working = test.start(registry);
    test.calls.until(1).await;
    let waited = begun.elapsed();
    test.line(
        "Handlers are called from now on, but these indices are not complete: 'by_place' (kopfexamples.v1.",
    )
    .await;
    test.line("'absents' (none of the resources that feed it is served)").await;
    working.stop().await;
    (test, waited)
}

async fn a_kind_that_may_not_be_listed_delays_no_others(cluster: TestCluster) {
    let (_, waited) = without_a_listing(cluster, 403).await;
    assert!(waited < Duration::from_secs(5), "{waited:?}");
}

async fn a_kind_that_cannot_be_listed_for_now_is_waited_for_a_while(cluster: TestCluster) {
    let (_, waited) = without_a_listing(cluster, 503).await;
    let expected = Duration::from_secs(55)..Duration::from_secs(75);
    assert!(expected.contains(&waited), "{waited:?}");
}

async fn no_limit_of_workers_is_in_the_way(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    for number in 0..20 {
        test.create(&format!("n{number:02}"), json!({"place": "x"})).await;
    }
    let slow = indexer_async("by_place", |cause| async move {
        tokio::time::sleep(Duration::from_millis(10)).await;
        ("x".to_owned(), cause.name().to_owned())
    });
    let calls = test.calls.clone();
    let create = handler("c", move |cause| {
        let index: Index<String, String> = cause.index("by_place").expect("there is one");
        calls.note(format!("{}", index.get("x").len()));
        async { Ok(()) }
    });
    let registry = Registry::new().index(test.selector(), slow).on_create(test.selector(), create);
    let settings = Settings::with(|settings| settings.queueing.worker_limit = Some(1));
    let operator = test.operator(registry).settings(settings);
    let working = crate::operating::Working::start(&test.cluster, operator);
    let calls = test.calls.until(20).await;
    working.stop().await;
    assert_eq!(calls, ["20"; 20]);
}

async fn an_answer_to_a_write_is_indexed_before_the_next_handler(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let moves = handler("1", |cause| async move {
        cause.patch(|patch| patch.set("spec.place", "y"));
        Ok(())
    });
    let registry = Registry::new()
        .index(test.selector(), by_place())
        .on_create(test.selector(), moves)
        .on_create(test.selector(), showing(&test, "2"));
    let working = test.start(registry);
    test.create("a", json!({"place": "x"})).await;
    let calls = test.calls.until(1).await;
    working.stop().await;
    assert_eq!(calls, ["2 a y:a"]);
}

async fn objects_deleted_during_a_gap_are_removed(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    for name in ["a", "b"] {
        test.create(name, json!({"place": "x"})).await;
    }
    let registry =
        Registry::new().index(test.selector(), by_place()).on_event(test.selector(), showing(&test, "e"));
    let working = test.start(registry);
    test.calls.until(2).await;
    let away = |verb| Fault::answer(503).on(verb).plural("kopfexamples");
    let away = [Verb::List, Verb::Watch].map(|verb| server(&test).fault(away(verb)));
    drop(server(&test).fault(Fault::cut().on(Verb::Watch).plural("kopfexamples")));
    test.delete("a").await;
    test.patch("b", place("y")).await;
    server(&test).compact();
    drop(away);
    let mut pulse = tokio::time::interval(Duration::from_millis(5));
    while test.calls.all().len() < 4 {
        pulse.tick().await;
    }
    working.stop().await;
    let calls = test.calls.all();
    assert_eq!(calls[calls.len() - 1].split(' ').next_back(), Some("y:b"), "{calls:?}");
}

async fn a_slow_function_holds_up_its_object_and_no_other(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let held = gate.clone();
    let slow = indexer_async("by_place", move |cause| {
        let gate = held.clone();
        async move {
            if cause.name() == "slow" {
                gate.pass().await;
            }
            let place: String = cause.read("spec.place")?;
            Ok::<_, HandlerError>((place, cause.name().to_owned()))
        }
    });
    let registry =
        Registry::new().index(test.selector(), slow).on_event(test.selector(), showing(&test, "e"));
    let working = test.start(registry);
    test.line("All existing objects are indexed").await;
    test.create("slow", json!({"place": "x"})).await;
    test.create("quick", json!({"place": "x"})).await;
    assert_eq!(test.calls.until(1).await, ["e quick x:quick"]);
    gate.open(1);
    assert_eq!(test.calls.until(2).await[1], "e slow x:quick+slow");
    working.stop().await;
}

async fn an_index_is_there_for_activities_filters_daemons_and_sub_handlers(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let knows = |cause: &Cause| shown(cause) == "x:a";
    let parent = handler("c", {
        let child = showing(&test, "child");
        move |cause| {
            let subhandlers = cause.subhandlers().expect("a handler of changes");
            subhandlers.add(child.clone());
            async { Ok(()) }
        }
    });
    let registry = Registry::new()
        .on_startup(showing(&test, "startup"))
        .index(test.selector(), by_place())
        .on_create(test.selector(), parent.when(knows))
        .daemon(test.selector(), showing(&test, "d").when(knows))
        .timer(test.selector(), showing(&test, "t").when(knows))
        .on_cleanup(showing(&test, "cleanup"));
    let working = test.start(registry);
    test.create("a", json!({"place": "x"})).await;
    test.until("it is handled", "a", is_handled).await;
    test.calls.until(4).await;
    working.stop().await;
    let mut calls = test.calls.all();
    calls.sort();
    let expected = ["child a x:a", "cleanup  x:a", "d a x:a", "startup  ", "t a x:a"];
    assert_eq!(calls, expected);
}

async fn an_index_without_a_function_is_refused(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new().on_event(test.selector(), showing(&test, "e"));
    let event = handler("e", |cause| async move {
        cause.index::<String, u8>("by_place")?;
        Ok(())
    });
    let registry =
        registry.and(Registry::new().index(test.selector(), by_place()).on_create(test.selector(), event));
    let working = test.start(registry);
    test.create("a", json!({"place": "x"})).await;
    test.line("failed permanently: the index `by_place` is no Index<String, u8>").await;
    working.stop().await;
}
