//! The status as a value that handlers change: conditions, the observed generation, and no write without a change.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use kopf_rs::{Callback, Context, PermanentError, Registry, Settings, Status, TemporaryError, handler};
use kopf_rs_tests::{TestCluster, scenarios};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::operating::{Gate, TestOperator, Working, definition, is_handled};

scenarios! {
    conditions_of_others_stay_as_they_are;
    a_condition_that_another_writer_adds_meanwhile_is_kept [memory];
    a_condition_is_kept_without_a_status_subresource_too [memory];
    a_status_that_stays_as_it_is_costs_no_write [memory];
    a_status_that_is_wiped_is_written_once_more_and_calls_no_handler;
    the_generation_observed_is_the_one_that_the_call_has_seen [memory];
    a_status_write_calls_no_handler_of_changes [memory];
    a_field_that_the_schema_lacks_is_reported_once_and_not_written_again;
    an_empty_value_that_the_server_leaves_out_hides_no_later_one;
    the_outcome_of_handlers_is_shown_as_conditions [memory];
    conditions_of_outcomes_cost_one_write_per_change_of_them [memory];
    a_ready_condition_of_a_handler_stays_its_own [memory];
    a_failed_attempt_shows_its_condition_and_not_its_generation [memory];
    sub_handlers_daemons_and_timers_change_the_status_too;
    reconcilers_and_timers_count_for_conditions_too [memory];
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct MyStatus {
    size: Option<u64>,
    /// Has the same name as a field of [`Status`].
    value: Option<u64>,
    observed_generation: Option<i64>,
}

/// A handler that writes the object's size and a `Ready` condition into the status.
fn sizing(test: &TestOperator, id: &str) -> Callback {
    test.handler(id, |context| async move {
        let size = context.spec::<Value>()?["size"].as_u64();
        context.change_status(|status: &mut Status<MyStatus>| {
            status.size = size;
            status.value = size;
            let is_small = size.is_some_and(|it| it < 10);
            let reason = if is_small { "Small" } else { "TooLarge" };
            status.conditions().set("Ready", is_small, reason, "");
        })?;
        Ok(Value::Null)
    })
}

fn sized(test: &TestOperator) -> Registry {
    Registry::new()
        .on_create(test.selector(), sizing(test, "create_fn"))
        .on_update(test.selector(), sizing(test, "update_fn"))
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let list = object["status"]["conditions"].as_array();
    let mut list = list.into_iter().flatten();
    list.find(|it| it["type"] == kind).unwrap_or(&Value::Null)
}

fn theirs() -> Value {
    json!({"type": "Theirs", "status": "True", "reason": "Yes", "message": "", "lastTransitionTime": "2020-01-01T00:00:00Z"})
}

fn has_size(size: u64) -> impl Fn(&Value) -> bool {
    move |object| object["status"]["size"] == size && is_handled(object)
}

async fn put_status(test: &TestOperator, name: &str, status: Value) {
    test.patch(&format!("{name}/status"), json!({"status": status})).await;
}

/// CH48
async fn conditions_of_others_stay_as_they_are(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let working = test.start(sized(&test));
    test.create("a", json!({"size": 1})).await;
    let object = test.until("it is handled", "a", has_size(1)).await;
    let since = condition(&object, "Ready")["lastTransitionTime"].clone();
    let mut other = theirs();
    other["type"] = json!("Other");
    let all = json!([theirs(), condition(&object, "Ready"), other]);
    put_status(&test, "a", json!({"conditions": all})).await;
    tokio::time::sleep(Duration::from_millis(1100)).await;
    test.patch("a", json!({"spec": {"size": 2}})).await;
    let object = test.until("it is handled", "a", has_size(2)).await;
    assert_eq!(condition(&object, "Ready")["lastTransitionTime"], since);
    test.patch("a", json!({"spec": {"size": 20}})).await;
    let object = test.until("it is handled", "a", has_size(20)).await;
    working.stop().await;
    let list = &object["status"]["conditions"];
    assert_eq!([&list[0], &list[2]], [&theirs(), &other]);
    assert_eq!(list[1]["status"], "False");
    assert_eq!(list[1]["reason"], "TooLarge");
    assert_ne!(list[1]["lastTransitionTime"], since);
    assert_eq!(list[3], Value::Null);
}

/// Another controller writes its condition after the handler was called.
async fn other_writer(test: TestOperator, write: impl AsyncFn(&TestOperator, Value)) -> Value {
    let gate = Gate::closed();
    let held = gate.clone();
    let create = test.handler("create_fn", move |context: Context| {
        let gate = held.clone();
        async move {
            gate.pass().await;
            context.change_status(|status: &mut Status<MyStatus>| {
                status.conditions().set("Ready", true, "Yes", "");
            })?;
            Ok(Value::Null)
        }
    });
    let working = test.start(Registry::new().on_create(test.selector(), create));
    test.create("a", json!({})).await;
    test.calls.until(1).await;
    write(&test, json!({"conditions": [theirs()]})).await;
    gate.open(1);
    let object = test.until("it is handled", "a", is_handled).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["create_fn a"]);
    object
}

async fn a_condition_that_another_writer_adds_meanwhile_is_kept(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let object = other_writer(test, async |test, status| {
        put_status(test, "a", status).await;
    })
    .await;
    assert_eq!(*condition(&object, "Theirs"), theirs());
    assert_eq!(condition(&object, "Ready")["status"], "True");
}

async fn a_condition_is_kept_without_a_status_subresource_too(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    let mut crd = definition(&test.group);
    crd["spec"]["versions"][0]["subresources"] = json!({});
    test.cluster.apply(&crd.to_string()).await;
    let write = async |test: &TestOperator, status| {
        test.patch("a", json!({"status": status})).await;
    };
    let object = other_writer(test, write).await;
    assert_eq!(*condition(&object, "Theirs"), theirs());
    let ready = condition(&object, "Ready");
    assert_eq!(ready["status"], "True");
    // Without the subresource, status writes increase the generation, so it cannot be reported as observed.
    assert_eq!(ready["observedGeneration"], Value::Null);
    assert_eq!(object["status"]["observedGeneration"], Value::Null);
}

/// The calls of a timer, and the message that it is to write.
#[derive(Default)]
struct Ticks {
    count: AtomicUsize,
    is_second: AtomicBool,
}

/// Returns a timer that writes its condition at each call.
fn ticking(test: &TestOperator, ticks: &Arc<Ticks>) -> Registry {
    let ticks = ticks.clone();
    let timer = handler("tick", move |context: Context| {
        ticks.count.fetch_add(1, Ordering::Relaxed);
        let is_second = ticks.is_second.load(Ordering::Relaxed);
        let message = if is_second { "second" } else { "first" };
        async move {
            context.change_status(|status: &mut Status<MyStatus>| {
                status.size = Some(1);
                status.conditions().set("Ready", true, "Yes", message);
            })
        }
    });
    Registry::new()
        .timer(test.selector(), timer.interval(0.2))
        .on_update(test.selector(), test.noting("update_fn"))
}

async fn until_ticks(ticks: &AtomicUsize, count: usize) {
    let mut pulse = tokio::time::interval(Duration::from_millis(100));
    while ticks.load(Ordering::Relaxed) < count {
        pulse.tick().await;
    }
}

/// CH49, its first half
async fn a_status_that_stays_as_it_is_costs_no_write(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let ticks = Arc::<Ticks>::default();
    let working = test.start(ticking(&test, &ticks));
    test.create("a", json!({})).await;
    let first = |object: &Value| condition(object, "Ready")["message"] == "first";
    let object = test.until("it is written", "a", first).await;
    let since = condition(&object, "Ready")["lastTransitionTime"].clone();
    let before = test.all_writes("a").await;
    until_ticks(&ticks.count, 10).await;
    assert_eq!(test.all_writes("a").await, before);
    ticks.is_second.store(true, Ordering::Relaxed);
    let second = |object: &Value| condition(object, "Ready")["message"] == "second";
    let object = test.until("it is written", "a", second).await;
    assert_eq!(condition(&object, "Ready")["lastTransitionTime"], since);
    let count = ticks.count.load(Ordering::Relaxed);
    until_ticks(&ticks.count, count + 10).await;
    assert_eq!(test.all_writes("a").await, before + 1);
    working.stop().await;
    assert_eq!(test.calls.all(), [""; 0]);
}

/// CH49, its second half
async fn a_status_that_is_wiped_is_written_once_more_and_calls_no_handler(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let ticks = Arc::<Ticks>::default();
    let working = test.start(ticking(&test, &ticks));
    test.create("a", json!({})).await;
    let is_ready = |object: &Value| condition(object, "Ready")["status"] == "True" && is_handled(object);
    test.until("it is written", "a", is_ready).await;
    let before = test.all_writes("a").await;
    put_status(&test, "a", json!({"conditions": null, "size": null})).await;
    test.until("it is written again", "a", is_ready).await;
    let count = ticks.count.load(Ordering::Relaxed);
    until_ticks(&ticks.count, count + 2).await;
    assert_eq!(test.all_writes("a").await, before + 1);
    working.stop().await;
    assert_eq!(test.calls.all(), [""; 0]);
}

/// CH51, and the seen half of CH50
async fn the_generation_observed_is_the_one_that_the_call_has_seen(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let held = gate.clone();
    let update = test.handler("update_fn", move |context: Context| {
        let gate = held.clone();
        async move {
            gate.pass().await;
            context.change_status(|status: &mut Status<MyStatus>| {
                status.conditions().set("Ready", true, "Yes", "");
            })?;
            Ok(Value::Null)
        }
    });
    let registry = Registry::new()
        .on_create(test.selector(), sizing(&test, "create_fn"))
        .on_update(test.selector(), update);
    let working = test.start(registry);
    test.create("a", json!({"size": 1})).await;
    let object = test.until("it is handled", "a", has_size(1)).await;
    let seen = |object: &Value| {
        let of_condition = &condition(object, "Ready")["observedGeneration"];
        [of_condition, &object["status"]["observedGeneration"]].map(Value::as_i64)
    };
    assert_eq!(seen(&object), [Some(1); 2]);
    test.patch("a", json!({"spec": {"size": 2}})).await;
    test.calls.until(2).await;
    // `kubectl wait` continues to wait, because the condition refers to another generation.
    let object = test.patch("a", json!({"spec": {"size": 3}})).await;
    assert_eq!(object["metadata"]["generation"], 3);
    assert_eq!(seen(&object), [Some(1); 2]);
    gate.open(1);
    let second = |object: &Value| seen(object) == [Some(2); 2];
    test.until("the second is observed", "a", second).await;
    test.calls.until(3).await;
    gate.open(1);
    let third = |object: &Value| seen(object) == [Some(3); 2];
    test.until("the third is observed", "a", third).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["create_fn a", "update_fn a", "update_fn a"]);
}

/// CH52, its second half: with a status subresource, and without one.
async fn a_status_write_calls_no_handler_of_changes(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let mut crd = definition(&test.group);
    for has_subresource in [true, false] {
        if !has_subresource {
            crd["spec"]["versions"][0]["subresources"] = json!({});
            test.cluster.apply(&crd.to_string()).await;
        }
        let working = test.start(sized(&test));
        let name = format!("a-{has_subresource}");
        test.create(&name, json!({"size": 1})).await;
        test.until("it is handled", &name, has_size(1)).await;
        test.patch(&name, json!({"spec": {"size": 2}})).await;
        test.until("it is handled", &name, has_size(2)).await;
        // Events arrive in order, so a call for the status write would have come before this one.
        test.create(&format!("b-{has_subresource}"), json!({"size": 1})).await;
        let last = format!("b-{has_subresource}");
        test.until("it is handled", &last, has_size(1)).await;
        working.stop().await;
        let calls = test.calls.all();
        let of_object = calls.iter().filter(|it| it.ends_with(&name)).count();
        assert_eq!(of_object, 2, "{calls:?}");
    }
}

/// CH52, its first half
async fn a_field_that_the_schema_lacks_is_reported_once_and_not_written_again(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    let mut crd = definition(&test.group);
    let string = json!({"type": "string"});
    let condition = json!({"type": "object", "properties": {
        "type": string, "status": string, "reason": string, "message": string, "lastTransitionTime": string,
    }});
    let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["status"] = json!({"type": "object", "properties": {
        "size": {"type": "integer"}, "conditions": {"type": "array", "items": condition},
    }});
    test.cluster.apply(&crd.to_string()).await;
    let ticks: Arc<AtomicUsize> = Arc::default();
    let counted = ticks.clone();
    let timer = handler("tick", move |context: Context| {
        counted.fetch_add(1, Ordering::Relaxed);
        async move {
            context.change_status(|status: &mut Status<Value>| {
                status["size"] = json!(1);
                status["url"] = json!("https://example.com");
                status.conditions().set("Ready", true, "Yes", "");
            })
        }
    });
    let working = test.start(Registry::new().timer(test.selector(), timer.interval(0.5)));
    test.create("a", json!({})).await;
    until_ticks(&ticks, 3).await;
    let before = test.all_writes("a").await;
    until_ticks(&ticks, 8).await;
    assert_eq!(test.all_writes("a").await, before);
    let told = test.line("finished with inconsistencies").await;
    for line in [
        "properties.status.properties.url: {type: string}",
        "properties.status.properties.conditions.items.properties.observedGeneration: {type: integer}",
    ] {
        assert!(told.contains(line), "{told}");
    }
    let lines = test.cluster.lines();
    assert_eq!(lines.count(|line| line.contains("finished with inconsistencies")), 1);
    let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["status"]["properties"]["url"] = string;
    test.cluster.apply(&crd.to_string()).await;
    let is_kept = |object: &Value| object["status"]["url"] == "https://example.com";
    test.until("it is written to the new schema", "a", is_kept).await;
    working.stop().await;
}

/// Built-in kinds omit empty values from their output although their schemas have the fields.
async fn an_empty_value_that_the_server_leaves_out_hides_no_later_one(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    let route = |id: &str| {
        test.handler(id, |context| async move {
            let address = context.annotations().get("address").map(str::to_owned);
            context.change_status(|status: &mut Status<Value>| {
                let all = address.map(|ip| json!({"ip": ip}));
                status["loadBalancer"]["ingress"] = all.into_iter().collect();
            })?;
            Ok(Value::Null)
        })
    };
    let registry =
        Registry::new().on_create("services", route("create")).on_update("services", route("update"));
    let working = test.start(registry);
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
    });
    test.cluster.create(&service).await;
    let until = async |what: &str, condition: &dyn Fn(&Value) -> bool| {
        let there = |object: Option<&Value>| object.is_some_and(condition);
        test.cluster.until(what, "services", "s", there).await;
    };
    until("it has no address", &is_handled).await;
    let address = json!({"metadata": {"annotations": {"address": "192.0.2.1"}}});
    test.cluster.patch("services", "s", &address).await;
    let is_shown = |it: &Value| it["status"]["loadBalancer"]["ingress"][0]["ip"] == "192.0.2.1";
    until("its address is shown", &is_shown).await;
    let lines = test.cluster.lines();
    assert_eq!(lines.count(|line| line.contains("inconsistencies")), 0);
    working.stop().await;
}

fn showing(test: &TestOperator, registry: Registry) -> Working {
    let settings = Settings::with(|settings| settings.status.conditions = true);
    Working::start(&test.cluster, test.operator(registry).settings(settings))
}

/// Fails as `spec.fails` demands: temporarily, permanently, or with an arbitrary error.
fn failing(test: &TestOperator, id: &str) -> Callback {
    test.handler(id, |context: Context| async move {
        let spec = context.spec::<Value>()?;
        match spec["fails"].as_str() {
            Some("twice") if context.retry() < 2 => Err(TemporaryError::new("not yet").delay(0.2).into()),
            Some("for good") => Err(PermanentError::new("never").into()),
            _ => Ok(Value::Null),
        }
    })
}

fn ready(object: &Value) -> [&Value; 4] {
    let ready = condition(object, "Ready");
    ["status", "reason", "message", "observedGeneration"].map(|key| &ready[key])
}

/// CH50
async fn the_outcome_of_handlers_is_shown_as_conditions(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new()
        .on_create(test.selector(), failing(&test, "create_fn"))
        .on_update(test.selector(), failing(&test, "update_fn"));
    let working = showing(&test, registry);
    test.create("a", json!({})).await;
    let is = |status: &'static str, generation: i64| {
        move |object: &Value| {
            let [is, _, _, of] = ready(object);
            is == status && *of == generation && is_handled(object)
        }
    };
    let object = test.until("it is ready", "a", is("True", 1)).await;
    let [_, reason, message, _] = ready(&object);
    assert_eq!([reason, message], ["HandlersSucceeded", ""]);
    test.patch("a", json!({"spec": {"fails": "for good"}})).await;
    let object = test.until("it has failed", "a", is("False", 2)).await;
    let [_, reason, message, _] = ready(&object);
    assert_eq!([reason, message], ["PermanentError", "update_fn: never"]);
    assert_eq!(condition(&object, "Stalled")["status"], "True");
    test.patch("a", json!({"spec": {"fails": "twice"}})).await;
    let retried = |object: &Value| ready(object)[1] == "TemporaryError";
    let object = test.until("it is tried again", "a", retried).await;
    assert_eq!(ready(&object)[2], "update_fn: not yet");
    let object = test.until("it is ready", "a", is("True", 3)).await;
    assert_eq!(*condition(&object, "Stalled"), Value::Null);
    working.stop().await;
}

async fn conditions_of_outcomes_cost_one_write_per_change_of_them(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new().on_create(test.selector(), failing(&test, "create_fn"));
    let working = showing(&test, registry);
    let is_ready = |object: &Value| ready(object)[0] == "True" && is_handled(object);
    test.create("a", json!({})).await;
    test.until("it is ready", "a", is_ready).await;
    // One write for the condition, one for the handled state.
    assert_eq!(test.all_writes("a").await, 2);
    test.create("b", json!({"fails": "twice"})).await;
    test.until("it is ready", "b", is_ready).await;
    // One for each of three attempts, and two for the condition, which does not change after the second attempt.
    assert_eq!(test.all_writes("b").await, 5);
    working.stop().await;
    // A restart does not change the conditions.
    let registry = Registry::new()
        .on_create(test.selector(), failing(&test, "create_fn"))
        .on_resume(test.selector(), failing(&test, "resume_fn"));
    let working = showing(&test, registry);
    test.calls_until("resume_fn a").await;
    test.calls_until("resume_fn b").await;
    test.create("last", json!({})).await;
    test.until("it is ready", "last", is_ready).await;
    assert_eq!(test.all_writes("a").await, 2);
    working.stop().await;
}

async fn a_ready_condition_of_a_handler_stays_its_own(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new()
        .on_create(test.selector(), sizing(&test, "create_fn"))
        .on_update(test.selector(), failing(&test, "update_fn"));
    let working = showing(&test, registry);
    test.create("a", json!({"size": 20})).await;
    let object = test.until("it is handled", "a", has_size(20)).await;
    assert_eq!(ready(&object)[..2], ["False", "TooLarge"]);
    test.patch("a", json!({"spec": {"fails": "for good"}})).await;
    let is_stalled = |object: &Value| condition(object, "Stalled")["status"] == "True";
    let object = test.until("it is stalled", "a", is_stalled).await;
    assert_eq!(ready(&object)[..2], ["False", "TooLarge"]);
    working.stop().await;
}

async fn a_failed_attempt_shows_its_condition_and_not_its_generation(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let create = test.handler("create_fn", |context: Context| async move {
        let first = context.retry() == 0;
        context.change_status(|status: &mut Status<MyStatus>| {
            status.conditions().set("Ready", !first, "Tried", "");
        })?;
        if first {
            return Err(TemporaryError::new("not yet").delay(1.0).into());
        }
        Ok(Value::Null)
    });
    let working = test.start(Registry::new().on_create(test.selector(), create));
    test.create("a", json!({})).await;
    let is = |status: &'static str| move |it: &Value| condition(it, "Ready")["status"] == status;
    test.until("it has failed", "a", is("False")).await;
    test.until("it has succeeded", "a", is("True")).await;
    working.stop().await;
}

async fn sub_handlers_daemons_and_timers_change_the_status_too(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let noting = |id: &'static str| {
        handler(id, move |context: Context| async move {
            context.change_status(|status: &mut Status<Value>| {
                status["seen"][id] = json!(true);
                let kind = id.replace('_', "-");
                status.conditions().set(&kind, true, "Seen", "");
            })
        })
    };
    let parent = handler("parent_fn", move |context: Context| async move {
        context.subhandlers()?.add(noting("sub_fn"));
        Ok(())
    });
    let registry = Registry::new()
        .on_create(test.selector(), parent)
        .on_create(test.selector(), noting("create_fn"))
        .on_event(test.selector(), noting("event_fn"))
        .daemon(test.selector(), noting("daemon_fn"))
        .timer(test.selector(), noting("timer_fn").interval(1));
    let working = test.start(registry);
    test.create("a", json!({})).await;
    let all = ["sub", "create", "event", "daemon", "timer"].map(|it| format!("{it}-fn"));
    let has_all = |object: &Value| {
        let holds = |kind: &String| condition(object, kind)["status"] == "True";
        all.iter().all(holds) && is_handled(object)
    };
    let object = test.until("all are there", "a", has_all).await;
    working.stop().await;
    assert_eq!(object["status"]["seen"].as_object().map(serde_json::Map::len), Some(5));
}

async fn reconcilers_and_timers_count_for_conditions_too(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let tick = test.handler("tick_fn", |context: Context| async move {
        let spec = context.spec::<Value>()?;
        if spec["ticks"] == false {
            return Err(TemporaryError::new("no").delay(0.2).into());
        }
        Ok(Value::Null)
    });
    let registry = Registry::new()
        .reconcile(test.selector(), failing(&test, "keep"))
        .on_update(test.selector(), failing(&test, "update_fn"))
        .timer(test.selector(), tick.interval(1));
    let working = showing(&test, registry.clone());
    let says = |wanted: [&'static str; 2], generation: i64| {
        move |object: &Value| {
            let [status, _, message, of] = ready(object);
            [status, message] == wanted && *of == generation
        }
    };
    test.create("a", json!({"fails": "twice"})).await;
    test.until("it is tried again", "a", says(["False", "keep: not yet"], 1)).await;
    test.until("it is ready", "a", says(["True", ""], 1)).await;
    test.patch("a", json!({"spec": {"fails": "for good"}})).await;
    let has_failed = says(["False", "update_fn: never"], 2);
    let object = test.until("both have failed", "a", has_failed).await;
    assert_eq!(condition(&object, "Stalled")["status"], "True");
    test.line("Reconciler 'keep' failed permanently").await;
    test.patch("a", json!({"spec": {"fails": null}})).await;
    let object = test.until("it is ready", "a", says(["True", ""], 3)).await;
    assert_eq!(*condition(&object, "Stalled"), Value::Null);
    test.patch("a", json!({"spec": {"ticks": false}})).await;
    test.until("the timer fails", "a", says(["False", "tick_fn: no"], 4)).await;
    test.patch("a", json!({"spec": {"ticks": true}})).await;
    test.until("it is ready", "a", says(["True", ""], 5)).await;
    working.stop().await;
    let before = test.all_writes("a").await;
    let working = showing(&test, registry);
    let calls = test.calls.all().len();
    test.calls.until(calls + 4).await;
    working.stop().await;
    assert_eq!(test.all_writes("a").await, before);
}
