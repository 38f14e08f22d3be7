//! PATCH requests that fail: their response is lost, their version is withdrawn, or their caller has stopped waiting.

use std::time::Duration;

use kopf_rs::{Callback, Context, EventType, Registry, TemporaryError, handler};
use kopf_rs_apiserver::{ApiServer, Fault, FaultHandle, Verb};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use crate::operating::{Gate, KIND, TestOperator, definition, definition_of_versions, is_handled};

scenarios! {
    a_function_counts_once_though_the_answer_to_its_patch_is_lost [memory];
    a_function_counts_once_though_another_writer_comes_between_its_parts [memory];
    a_function_loses_nothing_when_the_status_subresource_disappears;
    a_function_finds_no_status_subresource [memory];
    an_outage_is_over_when_an_event_handler_is_written [memory];
    an_outage_is_over_when_its_last_object_is_gone [memory];
    an_outage_is_over_when_the_server_answers_whatever_it_says [memory];
    changes_of_an_event_handler_survive_the_end_of_its_version;
    an_object_is_handled_in_its_new_version_although_the_first_read_fails [memory];
    outcomes_are_written_when_the_watch_is_closed_in_conflicts [memory];
}

fn server(test: &TestOperator) -> &ApiServer {
    let server = test.cluster.in_process();
    server.expect("this server is in the process")
}

/// Makes requests of the operator with `verb` fail with 503 from now on.
fn busy(test: &TestOperator, verb: Verb) -> FaultHandle {
    let by_operator = |agent: Option<&str>| agent != Some(TestCluster::USER_AGENT);
    let fault = Fault::answer(503).on(verb);
    server(test).fault(fault.when(move |asked| by_operator(asked.user_agent.as_deref())))
}

/// A handler that appends to lists, so that the lists show how often its patch function ran.
fn pushing(id: &str) -> Callback {
    handler(id, |context: Context| async move {
        context.patch(|patch| {
            patch.transform(|object| {
                for part in ["spec", "status"] {
                    match object[part]["items"].as_array_mut() {
                        Some(items) => items.push(json!("one")),
                        None => object[part]["items"] = json!(["one"]),
                    }
                }
            });
        });
        Ok(())
    })
}

async fn a_function_counts_once_though_the_answer_to_its_patch_is_lost(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let working = test.start(Registry::new().on_create(test.selector(), pushing("create_fn")));
    let faults = [("dropped", Fault::drop_after()), ("refused", Fault::answer_after_write(500))];
    for (name, fault) in faults {
        // The status is written first, then the rest.
        for nth in 1..=2 {
            let name = format!("{name}-{nth}");
            let fault = fault.clone().on(Verb::Patch).name(&name).nth(nth).times(1);
            let armed = server(&test).fault(fault);
            test.create(&name, json!({})).await;
            let object = test.until("it is handled", &name, is_handled).await;
            assert_eq!(armed.hits(), 1, "{name}");
            assert_eq!(object["spec"]["items"], json!(["one"]), "{name}");
            assert_eq!(object["status"]["items"], json!(["one"]), "{name}");
        }
    }
    working.stop().await;
}

async fn a_function_counts_once_though_another_writer_comes_between_its_parts(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let working = test.start(Registry::new().on_create(test.selector(), pushing("create_fn")));
    let by_operator = |agent: Option<&str>| agent != Some(TestCluster::USER_AGENT);
    let late = Fault::delay(Duration::from_secs(5)).on(Verb::Patch);
    let late = late.when(move |asked| by_operator(asked.user_agent.as_deref()));
    let _late = server(&test).fault(late.name("a").nth(2).times(1));
    test.create("a", json!({})).await;
    let is_half_done = |object: &Value| object["status"]["items"].is_array();
    test.until("the status is written", "a", is_half_done).await;
    test.patch("a", json!({"spec": {"items": ["theirs"]}})).await;
    let object = test.until("it is handled", "a", is_handled).await;
    working.stop().await;
    assert_eq!(object["spec"]["items"], json!(["theirs", "one"]));
    assert_eq!(object["status"]["items"], json!(["one"]));
}

async fn a_function_loses_nothing_when_the_status_subresource_disappears(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let held = gate.clone();
    let calls = test.calls.clone();
    let create = handler("create_fn", move |context: Context| {
        calls.note("create_fn");
        let gate = held.clone();
        async move {
            gate.pass().await;
            context.patch(|patch| patch.transform(|object| object["status"]["made"] = json!(true)));
            Ok(())
        }
    });
    let working = test.start(Registry::new().on_create(test.selector(), create));
    test.create("a", json!({})).await;
    test.calls.until(1).await;
    let mut crd = definition(&test.group);
    crd["spec"]["versions"][0]["subresources"] = json!({});
    test.cluster.apply(&crd.to_string()).await;
    gate.open(1);
    let object = test.until("it is handled", "a", is_handled).await;
    assert_eq!(object["status"]["made"], true);
    working.stop().await;
    assert_eq!(test.calls.all(), ["create_fn"]);
}

/// A server without the status path, although discovery lists it.
async fn a_function_finds_no_status_subresource(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let _missing = server(&test).fault(Fault::answer(404).on(Verb::Patch).subresource("status"));
    let registry = Registry::new().on_create(test.selector(), pushing("create_fn"));
    let working = test.start(registry);
    test.create("a", json!({})).await;
    let object = test.until("it is handled", "a", is_handled).await;
    working.stop().await;
    assert_eq!(object["spec"]["items"], json!(["one"]));
}

async fn an_outage_is_over_when_an_event_handler_is_written(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let held = gate.clone();
    let calls = test.calls.clone();
    let event = handler("event_fn", move |context: Context| {
        let (gate, calls) = (held.clone(), calls.clone());
        async move {
            // The echo of the write for `create_fn`.
            if context.event_type() == Some(EventType::Modified) {
                calls.note("event_fn");
                gate.pass().await;
                context.patch(|patch| patch["status"]["seen"] = json!(true));
            }
            Ok(())
        }
    });
    let registry = Registry::new()
        .on_create(test.selector(), handler("create_fn", |_| async { Ok(()) }))
        .on_event(test.selector(), event);
    let working = test.start(registry);
    test.create("a", json!({})).await;
    test.calls.until(1).await;
    let outage = busy(&test, Verb::Patch);
    gate.open(9);
    test.line("Patching failed; will retry in").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    drop(outage);
    test.line("Requests succeed again: 1 object had to wait").await;
    working.stop().await;
}

async fn an_outage_is_over_when_its_last_object_is_gone(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new().on_create(test.selector(), test.noting("create_fn"));
    let working = test.start(registry);
    let _outage = busy(&test, Verb::Patch);
    test.create("a", json!({})).await;
    test.calls.until(1).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    test.delete("a").await;
    let told = test.line("No object waits for a retry any more ").await;
    assert!(told.contains("the server answers 503 for "), "{told}");
    working.stop().await;
}

async fn an_outage_is_over_when_the_server_answers_whatever_it_says(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let create = handler("create_fn", |context: Context| async move {
        if context.retry() == 0 {
            return Err(TemporaryError::new("not yet").delay(86_400.0).into());
        }
        Ok(())
    });
    let working = test.start(Registry::new().on_create(test.selector(), create));
    let outage = busy(&test, Verb::Patch);
    test.create("a", json!({})).await;
    test.line("Patching failed; will retry in").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    // The server is available again, but another client was faster: conflicts must not keep the outage open.
    let refused = Fault::answer(409).on(Verb::Patch).name("a").times(3);
    let _refused = server(&test).fault(refused);
    drop(outage);
    let over = test.line("Requests succeed again: 1 object had to wait").await;
    let conflicts = test.line("Could not apply the patch in full").await;
    working.stop().await;
    let (over, conflicts) = (position(&test, &over), position(&test, &conflicts));
    assert!(over < conflicts, "{over} {conflicts}");
}

/// Returns the index of the first such line.
fn position(test: &TestOperator, line: &str) -> usize {
    let all = test.cluster.lines().all();
    let position = all.iter().position(|it| it == line);
    position.expect("the line is there")
}

/// Redefines the kind, and waits until the operator watches its second version.
async fn redefine(test: &TestOperator, crd: &Value) {
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    test.cluster.patch(definitions, &test.kind(), crd).await;
    let watching = format!("Starting the watch-stream for {KIND}.v2.{}", test.group);
    test.line(&watching).await;
}

async fn changes_of_an_event_handler_survive_the_end_of_its_version(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let held = gate.clone();
    let calls = test.calls.clone();
    let event = handler("event_fn", move |context: Context| {
        let (gate, calls) = (held.clone(), calls.clone());
        async move {
            // The echo of the write for `create_fn`.
            if context.event_type() == Some(EventType::Modified) && calls.all().is_empty() {
                calls.note("event_fn");
                gate.pass().await;
                context.patch(|patch| patch["status"]["wanted"] = json!(true));
            }
            Ok(())
        }
    });
    let selector = test.kind();
    let registry = Registry::new()
        .on_create(selector.as_str(), handler("create_fn", |_| async { Ok(()) }))
        .on_event(selector.as_str(), event);
    let working = test.start(registry);
    test.create("first", json!({})).await;
    test.calls.until(1).await;
    let crd = definition_of_versions(&test.group, &[("v1", false, false), ("v2", true, true)]);
    redefine(&test, &crd).await;
    gate.open(1);
    let (group, namespace) = (&test.group, test.cluster.namespace());
    let path = format!("/apis/{group}/v2/namespaces/{namespace}/{KIND}");
    let wanted = |object: Option<&Value>| object.is_some_and(|it| it["status"]["wanted"] == true);
    test.cluster.until("it is there", &path, "first", wanted).await;
    working.stop().await;
}

async fn an_object_is_handled_in_its_new_version_although_the_first_read_fails(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let calls = test.calls.clone();
    let create = handler("create_fn", move |context: Context| {
        let version = context.body()["apiVersion"].as_str().unwrap_or_default();
        let version = version.rsplit('/').next().unwrap_or_default();
        calls.note(format!("{version} {}", context.retry()));
        async move {
            if context.retry() == 0 {
                return Err(TemporaryError::new("not yet").delay(30.0).into());
            }
            Ok(())
        }
    });
    let selector = test.kind();
    let working = test.start(Registry::new().on_create(selector.as_str(), create));
    test.create("a", json!({})).await;
    test.line("Sleeping for").await;
    let unread = busy(&test, Verb::Get);
    let crd = definition_of_versions(&test.group, &[("v1", true, true), ("v2", true, false)]);
    redefine(&test, &crd).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(unread.hits() > 3, "{}", unread.hits());
    drop(unread);
    test.until("it is handled", "a", is_handled).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["v1 0", "v2 1"]);
}

async fn outcomes_are_written_when_the_watch_is_closed_in_conflicts(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let create = test.waiting_with("create_fn", &gate, json!({"made": true}));
    let working = test.start(Registry::new().on_create(KIND, create));
    test.create("a", json!({})).await;
    test.calls.until(1).await;
    let conflicts = server(&test).fault(Fault::answer(409).on(Verb::Patch).name("a"));
    // Two kinds with one name are ambiguous, so the operator watches neither.
    let other = format!("other-{}", test.group);
    test.cluster.apply(&definition(&other).to_string()).await;
    test.line("Stopping the watch-stream for kopf").await;
    gate.open(1);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!((1..60).contains(&conflicts.hits()), "{}", conflicts.hits());
    drop(conflicts);
    let made = |object: &Value| object["status"]["create_fn"] == json!({"made": true});
    test.until("it is written", "a", made).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["create_fn a"]);
}
