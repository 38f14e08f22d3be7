//! Servers that refuse requests, lose data, hang or disconnect: no handler is called twice, and no result is lost.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kopf_rs::{EventType, Registry, TemporaryError, handler};
use kopf_rs_apiserver::{ApiServer, Fault, Verb};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::operating::{Gate, TestOperator, Working, definition, is_handled};

scenarios! {
    refused_and_lost_writes_are_repeated_without_another_call [memory];
    half_of_all_writes_are_refused_with_a_time_to_wait [memory];
    a_conflict_over_the_finalizer_is_solved [memory];
    a_status_subresource_that_goes_away_loses_no_outcome;
    a_status_subresource_that_comes_back_loses_no_outcome [memory];
    a_kind_without_a_status_is_asked_for_its_subresource_once [memory];
    an_outage_during_the_retries_loses_no_attempt [memory];
    an_outage_is_reported_once_at_its_begin_and_once_at_its_end [memory];
    one_object_that_is_always_refused_silences_no_outage [memory];
    a_deleted_object_is_in_no_outage_any_more [memory];
    outcomes_that_an_outage_delays_are_reported_in_one_line [memory];
    watches_that_break_or_fall_silent_are_renewed [memory];
    objects_deleted_during_a_gap_are_reported [memory];
    a_server_that_is_late_is_waited_for [memory];
    a_forbidden_kind_is_reported_and_the_others_continue [memory];
    once_counts_a_forbidden_kind_as_not_handled [memory];
    once_reports_refusals_of_the_server [memory];
    once_gives_up_forbidden_writes [memory];
    outcomes_are_written_when_the_operator_stops_in_a_conflict [memory];
    changes_of_event_handlers_survive_conflicts [memory];
    rejected_credentials_end_the_operator_immediately [memory];
    a_patch_that_is_refused_is_reported_and_blocks_nothing;
    a_result_that_the_schema_refuses_blocks_nothing [real];
    an_object_whose_annotations_are_full_is_handled_and_let_go;
}

fn server(test: &TestOperator) -> &ApiServer {
    test.cluster.in_process().expect("this server is in the process")
}

async fn refused_and_lost_writes_are_repeated_without_another_call(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let create = test.handler("create_fn", |_| async { Ok(json!({"made": true})) });
    let registry = Registry::new()
        .on_create(test.selector(), create)
        .on_create(test.selector(), test.noting("second_fn"));
    let working = test.start(registry);
    let faults = [
        ("refused-409", Fault::answer(409)),
        ("refused-429", Fault::answer(429).retry_after(Duration::from_secs(1))),
        ("refused-500", Fault::answer(500)),
        ("refused-503", Fault::answer(503)),
        ("dropped", Fault::drop_before()),
        ("lost", Fault::drop_after()),
        ("lost-500", Fault::answer_after_write(500)),
    ];
    for (name, fault) in faults {
        for nth in 1..=3 {
            let name = format!("{name}-{nth}");
            let fault = fault.clone().on(Verb::Patch).name(&name).nth(nth).times(2);
            let armed = server(&test).fault(fault);
            test.create(&name, json!({})).await;
            let object = test.until("it is handled", &name, is_handled).await;
            assert_eq!(object["status"]["create_fn"], json!({"made": true}), "{name}");
            assert!(armed.hits() > 0, "{name}");
        }
    }
    working.stop().await;
    let mut calls = test.calls.all();
    let count = calls.len();
    calls.sort();
    calls.dedup();
    assert_eq!((count, calls.len()), (42, 42), "a handler was called twice: {:?}", test.calls.all());
}

async fn half_of_all_writes_are_refused_with_a_time_to_wait(cluster: TestCluster) {
    const WAIT: Duration = Duration::from_secs(2);
    let test = TestOperator::of(cluster).await;
    let earliest = Mutex::new(BTreeMap::new());
    let early = Arc::new(Mutex::new(Vec::new()));
    let (noted, count) = (early.clone(), AtomicUsize::new(0));
    let every_second = Fault::answer(429).retry_after(WAIT).on(Verb::Patch);
    let every_second = every_second.when(move |request| {
        let (now, name) = (Instant::now(), request.name.clone());
        let mut earliest = earliest.lock().expect("no panic");
        if earliest.get(&name).is_some_and(|it| now < *it) {
            noted.lock().expect("no panic").push(name.clone());
        }
        let is_refused = count.fetch_add(1, Ordering::Relaxed) % 2 == 0;
        if is_refused {
            earliest.insert(name, now + WAIT);
        }
        is_refused
    });
    let armed = server(&test).fault(every_second);
    let working = test.start(Registry::new().on_create(test.selector(), test.noting("create_fn")));
    let names: Vec<_> = (0..20).map(|number| format!("object-{number}")).collect();
    for name in &names {
        test.create(name, json!({})).await;
    }
    for name in &names {
        test.until("it is handled", name, is_handled).await;
    }
    working.stop().await;
    assert!(armed.hits() >= names.len(), "{}", armed.hits());
    assert_eq!(*early.lock().expect("no panic"), [None::<String>; 0]);
    assert_eq!(test.calls.all().len(), names.len());
}

async fn a_status_subresource_that_goes_away_loses_no_outcome(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let create = test.waiting_with("create_fn", &gate, json!({"made": true}));
    let working = test.start(Registry::new().on_create(test.selector(), create));
    test.create("a", json!({})).await;
    test.calls.until(1).await;
    let mut crd = definition(&test.group);
    crd["spec"]["versions"][0]["subresources"] = json!({});
    test.cluster.apply(&crd.to_string()).await;
    gate.open(1);
    let object = test.until("it is handled", "a", is_handled).await;
    assert_eq!(object["status"]["create_fn"], json!({"made": true}));
    working.stop().await;
    assert_eq!(test.calls.all(), ["create_fn a"]);
}

/// The handlers restore the subresource themselves, so the operator cannot have discovered it when it writes their results.
async fn a_status_subresource_that_comes_back_loses_no_outcome(cluster: TestCluster) {
    const LOST: &str = "Merge-patching finished with inconsistencies";
    let test = TestOperator::bare(cluster);
    let mut crd = definition(&test.group);
    crd["spec"]["versions"][0]["subresources"] = json!({});
    test.cluster.apply(&crd.to_string()).await;
    let name = crd["metadata"]["name"].as_str().unwrap_or_default();
    let url = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
    let subresources = json!([
        {"op": "replace", "path": "/spec/versions/0/subresources", "value": {"status": {}}},
    ]);
    let client = test.cluster.client();
    let create = test.handler("create_fn", move |context| {
        let client = client.clone();
        let again = http::Request::patch(&url)
            .header("content-type", "application/json-patch+json")
            .body(subresources.to_string().into_bytes());
        async move {
            client.request::<Value>(again?).await?;
            if context.name() == "by-function" {
                context.patch(|patch| {
                    patch.transform(|object| object["status"]["seen"] = json!(true));
                });
            } else {
                context.patch(|patch| patch["status"]["seen"] = json!(true));
            }
            Ok(Value::Null)
        }
    });
    let working = test.start(Registry::new().on_create(test.selector(), create));
    for name in ["a", "by-function"] {
        test.cluster.apply(&crd.to_string()).await;
        // The operator has discovered by then that the subresource is gone.
        tokio::time::sleep(Duration::from_secs(60)).await;
        test.create(name, json!({})).await;
        let is_seen = |object: &Value| object["status"]["seen"] == true && is_handled(object);
        test.until("its status is kept", name, is_seen).await;
    }
    working.stop().await;
    assert_eq!(test.calls.all(), ["create_fn a", "create_fn by-function"]);
    assert_eq!(test.cluster.lines().count(|line| line.contains(LOST)), 0);
}

/// The schema prunes the status. Some servers forbid the status path of a kind without that subresource, as the fault does.
async fn a_kind_without_a_status_is_asked_for_its_subresource_once(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    let mut crd = definition(&test.group);
    let version = &mut crd["spec"]["versions"][0];
    version["subresources"] = json!({});
    version["schema"]["openAPIV3Schema"]["properties"]["status"] = json!({"type": "object"});
    test.cluster.apply(&crd.to_string()).await;
    let asked =
        server(&test).fault(Fault::answer(403).on(Verb::Patch).plural("kopfexamples").subresource("status"));
    let create = test.handler("create_fn", |_| async { Ok(json!({"made": true})) });
    let working = test.start(Registry::new().on_create(test.selector(), create));
    for name in ["a", "b"] {
        test.create(name, json!({})).await;
        test.until("it is handled", name, is_handled).await;
    }
    test.line("status.create_fn.made is missing").await;
    working.stop().await;
    assert_eq!(asked.hits(), 1);
    assert_eq!(test.calls.all(), ["create_fn a", "create_fn b"]);
}

async fn a_conflict_over_the_finalizer_is_solved(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new()
        .on_create(test.selector(), test.noting("create_fn"))
        .on_delete(test.selector(), test.noting("delete_fn"));
    let _conflict = server(&test).fault(Fault::answer(409).on(Verb::Patch).plural("kopfexamples").times(1));
    let working = test.start(registry);
    test.create("a", json!({})).await;
    test.until("it is handled", "a", is_handled).await;
    let _lost = server(&test).fault(Fault::drop_after().on(Verb::Patch).plural("kopfexamples").times(1));
    test.delete("a").await;
    test.until_gone("a").await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["create_fn a", "delete_fn a"]);
}

async fn an_outage_during_the_retries_loses_no_attempt(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let calls = test.calls.clone();
    let create = handler("create_fn", move |context| {
        calls.note(format!("attempt {}", context.retry()));
        async move {
            if context.retry() < 2 {
                return Err(TemporaryError::new("not yet").delay(0.2).into());
            }
            Ok(())
        }
    });
    let working = test.start(Registry::new().on_create(test.selector(), create));
    let outage = server(&test).fault(Fault::answer(503).on(Verb::Patch).plural("kopfexamples").times(6));
    test.create("a", json!({})).await;
    test.until("it is handled", "a", is_handled).await;
    working.stop().await;
    assert_eq!(outage.hits(), 6);
    assert_eq!(test.calls.all(), ["attempt 0", "attempt 1", "attempt 2"]);
}

async fn an_outage_is_reported_once_at_its_begin_and_once_at_its_end(cluster: TestCluster) {
    const OBJECTS: usize = 20;
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new().on_create(test.selector(), test.noting("create_fn"));
    let working = test.start(registry);
    let outage = server(&test).fault(Fault::answer(503).on(Verb::Patch).plural("kopfexamples"));
    let names: Vec<String> = (0..OBJECTS).map(|nth| format!("a{nth}")).collect();
    for name in &names {
        test.create(name, json!({})).await;
    }
    test.calls.until(OBJECTS).await;
    // Virtual time: the operator retries for each object.
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(outage.hits() > 10 * OBJECTS, "{}", outage.hits());
    outage.clear();
    for name in &names {
        test.until("it is handled", name, is_handled).await;
    }
    let over = format!("Requests succeed again: {OBJECTS} objects had to wait, the first for ");
    test.line(&over).await;
    working.stop().await;
    let lines = test.cluster.lines();
    let told = |line: &str| line.contains(" WARN ") && line.contains("Patching failed");
    assert_eq!(lines.count(told), 1);
    assert_eq!(lines.count(|line| line.contains(&over)), 1);
    assert_eq!(test.calls.all().len(), OBJECTS);
}

/// The server always refuses writes to one object, and later writes to all objects.
async fn one_object_that_is_always_refused_silences_no_outage(cluster: TestCluster) {
    const OBJECTS: usize = 20;
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new().on_create(test.selector(), test.noting("create_fn"));
    let working = test.start(registry);
    let refused = || Fault::answer(503).on(Verb::Patch).plural("kopfexamples");
    let _always = server(&test).fault(refused().name("always"));
    test.create("always", json!({})).await;
    let told = |line: &str| line.contains(" WARN ") && line.contains("Patching failed");
    for outage in 1..=2 {
        // Virtual time: long enough for the next outage to count as a new one.
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(test.cluster.lines().count(told), outage);
        let all = server(&test).fault(refused());
        let names = (0..OBJECTS).map(|nth| format!("a{outage}-{nth}"));
        let names: Vec<String> = names.collect();
        for name in &names {
            test.create(name, json!({})).await;
        }
        test.line("; 10 objects are waiting: ").await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        all.clear();
        for name in &names {
            test.until("it is handled", name, is_handled).await;
        }
        tokio::time::sleep(Duration::from_secs(600)).await;
        let over = "Requests succeed again: 20 objects had to wait, the first for ";
        let over = |line: &str| line.contains(over) && line.ends_with("; 1 is still waiting.");
        assert_eq!(test.cluster.lines().count(over), outage);
    }
    working.stop().await;
    assert_eq!(test.cluster.lines().count(told), 3);
}

async fn a_deleted_object_is_in_no_outage_any_more(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let registry = Registry::new()
        .on_create(test.selector(), test.noting("create_fn"))
        .on_delete(test.selector(), test.waiting("delete_fn", &gate).optional());
    let working = test.start(registry);
    let _refused = server(&test).fault(Fault::answer(503).on(Verb::Patch).plural("kopfexamples"));
    test.create("a", json!({})).await;
    test.line("Patching failed").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    test.delete("a").await;
    test.calls.until(2).await;
    test.line("No object waits for a retry any more").await;
    gate.open(1);
    working.stop().await;
    assert_eq!(test.calls.all(), ["create_fn a", "delete_fn a"]);
}

async fn outcomes_that_an_outage_delays_are_reported_in_one_line(cluster: TestCluster) {
    const OBJECTS: usize = 5;
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new().on_create(test.selector(), test.noting("create_fn"));
    let working = test.start(registry);
    let _outage = server(&test).fault(Fault::answer(503).on(Verb::Patch).plural("kopfexamples"));
    for nth in 0..OBJECTS {
        test.create(&format!("a{nth}"), json!({})).await;
    }
    test.calls.until(OBJECTS).await;
    // Virtual time: the operator logs the outage.
    tokio::time::sleep(Duration::from_secs(300)).await;
    working.stop().await;
    let lines = test.cluster.lines();
    let told = "The outcomes of 5 objects could not be written before the exit: their handlers will be called again at the next start.";
    assert_eq!(lines.count(|line| line.contains(told)), 1);
    assert_eq!(lines.count(|line| line.contains("ERROR")), 1);
}

async fn watches_that_break_or_fall_silent_are_renewed(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let mut settings = kopf_rs::Settings::default();
    settings.watching.inactivity_timeout = Duration::from_secs(5);
    let registry = Registry::new().on_create(test.selector(), test.noting("create_fn"));
    let operator = test.operator(registry).settings(settings);
    let working = crate::operating::Working::start(&test.cluster, operator);
    test.create("first", json!({})).await;
    test.until("it is handled", "first", is_handled).await;
    let faults = [
        ("cut", Fault::cut()),
        ("reset", Fault::reset()),
        ("gone", Fault::gone()),
        ("stall", Fault::stall()),
        ("refused", Fault::answer(500)),
    ];
    for (name, fault) in faults {
        let fault = fault.on(Verb::Watch).plural("kopfexamples").times(2);
        let armed = server(&test).fault(fault);
        if name == "refused" {
            drop(server(&test).fault(Fault::cut().on(Verb::Watch).plural("kopfexamples")));
        }
        let before = test.calls.all().len();
        test.create(name, json!({})).await;
        test.calls.until(before + 1).await;
        drop(armed);
        test.until("it is handled", name, is_handled).await;
    }
    working.stop().await;
}

async fn objects_deleted_during_a_gap_are_reported(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let calls = test.calls.clone();
    let event = handler("event_fn", move |context| {
        let event = context.event_type().and_then(EventType::as_str);
        calls.note(format!("{} {}", context.name(), event.unwrap_or("listed")));
        async { Ok(()) }
    });
    let working = test.start(Registry::new().on_event(test.selector(), event));
    test.create("a", json!({})).await;
    test.calls.until(1).await;
    let silent = server(&test).fault(Fault::answer(503).on(Verb::Watch).plural("kopfexamples"));
    let lists = server(&test).fault(Fault::answer(503).on(Verb::List).plural("kopfexamples"));
    drop(server(&test).fault(Fault::cut().on(Verb::Watch).plural("kopfexamples")));
    test.delete("a").await;
    server(&test).compact();
    drop((silent, lists));
    test.create("b", json!({})).await;
    test.calls.until(3).await;
    working.stop().await;
    let mut calls = test.calls.all();
    calls[1..].sort();
    assert_eq!(calls[0].split(' ').next(), Some("a"));
    assert_eq!(calls[1], "a DELETED");
    assert!(calls[2].starts_with("b "), "{calls:?}");
}

async fn a_server_that_is_late_is_waited_for(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    test.create("a", json!({})).await;
    let down = server(&test).fault(Fault::answer(503).on(Verb::Other).times(20));
    let registry = Registry::new().on_create(test.selector(), test.noting("create_fn"));
    let working = test.start(registry);
    test.line("API discovery failed; will retry in").await;
    drop(down);
    test.until("it is handled", "a", is_handled).await;
    working.stop().await;
}

async fn a_forbidden_kind_is_reported_and_the_others_continue(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new()
        .on_create(test.selector(), test.noting("create_fn"))
        .on_event("configmaps", test.noting("event_fn"));
    let forbidden = [Verb::List, Verb::Watch]
        .map(|verb| server(&test).fault(Fault::answer(403).on(verb).plural("configmaps")));
    let working = test.start(registry);
    test.create("a", json!({})).await;
    test.until("it is handled", "a", is_handled).await;
    // The refusal does not come from RBAC, so no rule would help; `rights` has the cases with RBAC.
    let told = test.line("is forbidden; will retry").await;
    assert!(told.contains("configmaps.v1 in"), "{told}");
    drop(forbidden);
    let told = test.line("works again.").await;
    assert!(told.contains("configmaps.v1 in"), "{told}");
    working.stop().await;
}

async fn once_counts_a_forbidden_kind_as_not_handled(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let _forbidden = [Verb::List, Verb::Watch]
        .map(|verb| server(&test).fault(Fault::answer(403).on(verb).plural("configmaps")));
    test.create("a", json!({})).await;
    let registry = Registry::new()
        .on_create("configmaps", test.noting("map_fn"))
        .on_create(test.selector(), test.noting("create_fn"));
    let operator = test.operator(registry).once();
    let ended = Working::start(&test.cluster, operator).end().await;
    let report = ended.expect("it ends");
    assert_eq!(test.calls.all(), ["create_fn a"]);
    let words = format!("configmaps.v1 in '{}' cannot be watched: forbidden: ", test.cluster.namespace());
    let [unserved] = &report.unserved[..] else {
        panic!("{report:?}");
    };
    assert!(unserved.starts_with(&words), "{unserved}");
}

async fn once_reports_refusals_of_the_server(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    for name in ["a", "b", "c"] {
        test.create(name, json!({})).await;
    }
    let label = |context: &kopf_rs::Context| {
        context.patch(|patch| patch["metadata"]["labels"]["size"] = json!("no label!"));
    };
    let create = test.handler("create_fn", move |context| async move {
        if context.name() == "a" {
            label(&context);
        }
        Ok(Value::Null)
    });
    let event = test.handler("event_fn", move |context| async move {
        if context.name() == "b" {
            label(&context);
        }
        Ok(Value::Null)
    });
    let registry = Registry::new().on_create(test.selector(), create).on_event(test.selector(), event);
    let operator = test.operator(registry).once();
    let ended = Working::start(&test.cluster, operator).end().await;
    let report = ended.expect("it ends");
    let told = |name: &str, whose: &str| {
        let (kind, namespace) = (test.group.as_str(), test.cluster.namespace());
        let line = format!(
            "kopfexamples.v1.{kind} {namespace}/{name}: the server has refused the changes of {whose}:"
        );
        let mut all = report.unserved.iter();
        all.any(|found| found.starts_with(&line) && found.contains("no label!"))
    };
    assert!(told("a", "'create_fn'"), "{report:?}");
    assert!(told("b", "'create_fn'") || told("b", "on_event handlers") || told("b", "handlers"));
    assert!(!report.unserved.iter().any(|line| line.contains("/c ")));
}

async fn once_gives_up_forbidden_writes(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    for name in ["a", "b"] {
        test.create(name, json!({})).await;
    }
    let panicking = test.noting("other_fn").when(|cause| match cause.name() {
        "b" => panic!("no idea"),
        _ => false,
    });
    let registry = Registry::new()
        .on_create(test.selector(), test.noting("create_fn"))
        .on_update(test.selector(), panicking);
    let _forbidden = server(&test).fault(Fault::answer(403).on(Verb::Patch));
    let operator = test.operator(registry).once();
    let ended = Working::start(&test.cluster, operator).end().await;
    let report = ended.expect("it ends");
    assert_eq!(test.calls.all(), ["create_fn a"]);
    let [panicked, forbidden] = &report.unserved[..] else {
        panic!("{report:?}");
    };
    let kind = format!("kopfexamples.v1.{}", test.group);
    assert!(panicked.starts_with(&format!("{kind} cannot be handled: ")), "{panicked}");
    assert!(forbidden.starts_with(&format!("{kind} cannot be written: forbidden: ")), "{forbidden}");
}

async fn outcomes_are_written_when_the_operator_stops_in_a_conflict(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let create = test.handler("create_fn", |_| async { Ok(json!({"made": true})) });
    let registry = || Registry::new().on_create(test.selector(), create.clone());
    let conflicts = server(&test).fault(Fault::answer(409).on(Verb::Patch));
    let working = test.start(registry());
    test.create("a", json!({})).await;
    let mut pulse = tokio::time::interval(Duration::from_millis(20));
    while conflicts.hits() < 10 {
        pulse.tick().await;
    }
    drop(conflicts);
    working.stop().await;
    let object = test.get("a").await;
    assert_eq!(object["status"]["create_fn"], json!({"made": true}));
    let working = test.start(registry());
    test.until("it is handled", "a", is_handled).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["create_fn a"]);
}

async fn changes_of_event_handlers_survive_conflicts(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let event = handler("event_fn", |context: kopf_rs::Context| async move {
        let size = context.body().spec()["size"].clone();
        context.patch(|patch| patch.transform(move |object| object["status"]["seen"] = size.clone()));
        Ok(())
    });
    let registry =
        Registry::new().on_event(test.selector(), event).on_create(test.selector(), test.noting("create_fn"));
    let working = test.start(registry);
    test.create("a", json!({"size": 1})).await;
    let seen = |size: u64| move |object: &Value| object["status"]["seen"] == size && is_handled(object);
    test.until("the first is seen", "a", seen(1)).await;
    let _conflicts = server(&test).fault(Fault::answer(409).on(Verb::Patch).nth(2).times(5));
    test.patch("a", json!({"spec": {"size": 2}})).await;
    test.until("the second is seen", "a", seen(2)).await;
    working.stop().await;
}

async fn rejected_credentials_end_the_operator_immediately(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let _refused = server(&test).fault(Fault::answer(401).on(Verb::Other));
    let registry = Registry::new()
        .on_create(test.selector(), test.noting("create_fn"))
        .on_cleanup(test.noting("cleanup_fn"));
    let ended = test.start(registry).end().await;
    let error = ended.expect_err("it cannot work").to_string();
    assert!(error.contains("credentials"), "{error}");
    assert_eq!(test.calls.all(), ["cleanup_fn "]);
}

async fn a_patch_that_is_refused_is_reported_and_blocks_nothing(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let create = test.handler("create_fn", |context| async move {
        context.patch(|patch| patch["metadata"]["labels"]["size"] = json!("no label!"));
        Ok(json!({"made": true}))
    });
    let registry = Registry::new()
        .on_create(test.selector(), create)
        .on_delete(test.selector(), test.noting("delete_fn"));
    let working = test.start(registry);
    test.create("a", json!({"size": 1})).await;
    let line = test.line("Patching was refused").await;
    assert!(line.contains("metadata.labels") && line.contains("no label!"), "{line}");
    let object = test.until("it is handled", "a", is_handled).await;
    assert_eq!(object["status"]["create_fn"], json!({"made": true}));
    assert_eq!(object["metadata"]["labels"], Value::Null);
    test.delete("a").await;
    test.until_gone("a").await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["create_fn a", "delete_fn a"]);
}

async fn a_result_that_the_schema_refuses_blocks_nothing(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    test.serve_strictly().await;
    let create = test.handler("create_fn", |_| async { Ok(json!({"not": "a number"})) });
    let registry = Registry::new()
        .on_create(test.selector(), create)
        .on_create(test.selector(), test.noting("second_fn"));
    let working = test.start(registry);
    test.create("a", json!({})).await;
    test.line("Patching was refused").await;
    let object = test.until("it is handled", "a", is_handled).await;
    working.stop().await;
    assert_eq!(object["status"], Value::Null);
    assert_eq!(test.calls.all(), ["create_fn a", "second_fn a"]);
}

async fn an_object_whose_annotations_are_full_is_handled_and_let_go(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new()
        .on_create(test.selector(), test.handler("create_fn", |_| async { Ok(json!({"made": true})) }))
        .on_create(test.selector(), test.noting("second_fn"))
        .on_update(test.selector(), test.noting("update_fn"))
        .on_delete(test.selector(), test.noting("delete_fn"));
    let working = test.start(registry);
    let full = json!({"example.com/notes": "x".repeat(262_144 - 100)});
    let object = json!({
        "apiVersion": format!("{}/v1", test.group),
        "kind": "KopfExample",
        "metadata": {"name": "a", "annotations": full},
        "spec": {},
    });
    test.cluster.create(&object).await;
    test.line("Creation is processed: 2 succeeded; 0 failed.").await;
    let told = test.line("The annotations of this object would take").await;
    assert!(
        told.contains("bytes of the 262144 that Kubernetes allows")
            && told.contains("Remove large annotations"),
        "{told}"
    );
    let made = |object: &Value| object["status"]["create_fn"]["made"] == true;
    test.until("its result is there", "a", made).await;
    let warned = |line: &str| line.contains("would take") && line.contains("WARN");
    assert_eq!(test.cluster.lines().count(warned), 1, "said once");
    // The operator remembers the handled state in memory, so it detects the change and knows the former state.
    test.patch("a", json!({"spec": {"size": 1}})).await;
    test.calls.until(3).await;
    test.delete("a").await;
    test.until_gone("a").await;
    working.stop().await;
    assert!(test.writes("a").await <= 6, "{} writes", test.writes("a").await);
    assert_eq!(test.calls.all(), ["create_fn a", "second_fn a", "update_fn a", "delete_fn a"]);
}
