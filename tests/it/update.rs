//! Changes of objects: handlers see each change once, with the old state.

use kopf_rs::{Context, HandlerResult, PRESENT, PermanentError, Registry, TemporaryError, handler};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use crate::operating::{Gate, TestOperator, is_handled, last_handled};

scenarios! {
    a_wanted_value_is_written_even_if_it_was_there_before [memory];
    an_update_is_one_call_with_its_difference_and_one_write [memory];
    handlers_of_one_id_for_creations_and_updates_do_not_share_their_progress [memory];
    a_change_during_a_cycle_gets_a_cycle_of_its_own [memory];
    a_change_during_creation_becomes_an_update [memory];
    a_storm_ends_with_the_newest_state;
    a_change_that_waits_during_a_restart_has_its_former_value;
}

async fn an_update_is_one_call_with_its_difference_and_one_write(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let seen = test.calls.clone();
    let update = handler("update_fn", move |context| {
        let size = |side: Option<&Value>| side.map(|it| it["spec"]["size"].clone());
        seen.note(format!("{:?} {:?}", size(context.old()), size(context.new())));
        seen.note(format!(
            "{:?}",
            context.diff().iter().map(|item| item.field.to_string()).collect::<Vec<_>>()
        ));
        async { Ok(()) }
    });
    let working = test.start(Registry::new().on_update(test.selector(), update));
    test.create("a", json!({"size": 1})).await;
    test.until("it is handled", "a", is_handled).await;
    test.assert_writes("a", 1).await;
    test.patch("a", json!({"spec": {"size": 2}})).await;
    test.until("it is handled", "a", |object| has_handled(object, 2)).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["Some(Number(1)) Some(Number(2))", r#"["spec.size"]"#]);
    test.assert_writes("a", 2).await;
}

async fn handlers_of_one_id_for_creations_and_updates_do_not_share_their_progress(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let attempt = |what: &'static str, failures: u32| {
        let calls = test.calls.clone();
        move |context: kopf_rs::Context| {
            calls.note(format!("{what} {}", context.retry()));
            let retry = context.retry();
            async move {
                if retry < failures {
                    Err(kopf_rs::TemporaryError::new("not yet").delay(0.1))?;
                }
                Ok(what)
            }
        }
    };
    // Two functions with the same id: the kind of handler distinguishes them.
    let create_fn = handler("same", attempt("create", 1));
    let update_fn = handler("same", attempt("update", 2));
    let registry =
        Registry::new().on_create(test.selector(), create_fn).on_update(test.selector(), update_fn);
    let working = test.start(registry);
    test.create("a", json!({"size": 1})).await;
    test.until("it is handled", "a", is_handled).await;
    test.patch("a", json!({"spec": {"size": 2}})).await;
    let object = test.until("it is handled", "a", |object| has_handled(object, 2)).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["create 0", "create 1", "update 0", "update 1", "update 2"]);
    assert_eq!(object["status"]["same"], "update");
}

async fn a_change_during_a_cycle_gets_a_cycle_of_its_own(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let (calls, held) = (test.calls.clone(), gate.clone());
    let update = handler("update_fn", move |context| {
        let (calls, held) = (calls.clone(), held.clone());
        async move {
            calls.note(format!("{}", context.spec::<Value>()?["size"]));
            held.pass().await;
            Ok(())
        }
    });
    let working = test.start(Registry::new().on_update(test.selector(), update));
    test.create("a", json!({"size": 1})).await;
    test.until("it is handled", "a", is_handled).await;
    test.patch("a", json!({"spec": {"size": 2}})).await;
    test.calls.until(1).await;
    test.patch("a", json!({"spec": {"size": 3}})).await;
    gate.open(1);
    test.calls.until(2).await;
    let object = test.get("a").await;
    assert!(has_handled(&object, 2), "the first cycle has ended with its own target");
    gate.open(1);
    test.until("all is handled", "a", |object| has_handled(object, 3)).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["2", "3"]);
}

async fn a_change_during_creation_becomes_an_update(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let create = test.waiting("create_fn", &gate);
    let registry = Registry::new()
        .on_create(test.selector(), create)
        .on_update(test.selector(), test.noting("update_fn"));
    let working = test.start(registry);
    test.create("a", json!({"size": 1})).await;
    test.calls.until(1).await;
    test.patch("a", json!({"spec": {"size": 2}})).await;
    gate.open(10);
    test.until("all is handled", "a", |object| has_handled(object, 2)).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["create_fn a", "update_fn a"]);
}

async fn a_storm_ends_with_the_newest_state(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new().on_update(test.selector(), test.noting("update_fn"));
    let working = test.start(registry);
    test.create("a", json!({"size": 0})).await;
    test.until("it is handled", "a", is_handled).await;
    for size in 1..=100 {
        test.patch("a", json!({"spec": {"size": size}})).await;
    }
    test.until("all is handled", "a", |object| has_handled(object, 100)).await;
    working.stop().await;
    let writes = test.writes("a").await;
    // A server in another process may be so slow that the operator sees the changes one by one.
    let bound = if test.cluster.in_process().is_some() { 60 } else { 100 };
    assert!(writes < bound, "{writes} writes for 100 changes");
}

fn has_handled(object: &Value, size: u32) -> bool {
    last_handled(object).is_some_and(|essence| essence["spec"]["size"] == size)
}

async fn a_wanted_value_is_written_even_if_it_was_there_before(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let create = test.handler("create_fn", |context| async move {
        context.patch(|patch| patch["status"]["phase"] = json!("A"));
        Ok(Value::Null)
    });
    let door = gate.clone();
    let update = test.handler("update_fn", move |context| {
        let door = door.clone();
        async move {
            door.pass().await;
            context.patch(|patch| patch["status"]["phase"] = json!("A"));
            context.patch(|patch| patch["spec"]["by"] = json!("handler"));
            Ok(Value::Null)
        }
    });
    let registry = Registry::new().on_create(test.selector(), create).on_update(test.selector(), update);
    let working = test.start(registry);
    test.create("o", json!({"size": 1, "by": "handler"})).await;
    test.until("it is handled", "o", is_handled).await;
    test.patch("o", json!({"spec": {"size": 2}})).await;
    test.calls.until(2).await;
    // Others write while the handler runs. Once a later object is handled, the operator has seen these writes.
    let status = json!({"status": {"phase": "B"}});
    test.cluster.patch(&test.kind(), "o/status", &status).await;
    let spec = json!({"spec": {"by": "others"}});
    test.patch("o", spec).await;
    test.create("later", json!({})).await;
    test.until("it is handled", "later", is_handled).await;
    gate.open(9);
    let wanted = |object: &Value| object["status"]["phase"] == "A" && object["spec"]["by"] == "handler";
    test.until("it is as wanted", "o", wanted).await;
    working.stop().await;
}

/// A former value of a declared type, as `old: u64` has it: without one, the handler fails permanently.
fn number(side: Option<&Value>) -> HandlerResult<u64> {
    let number = side.and_then(Value::as_u64);
    Ok(number.ok_or_else(|| PermanentError::new(format!("expected u64, found {side:?}")))?)
}

async fn a_change_that_waits_during_a_restart_has_its_former_value(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = || {
        let (seen, resized) = (test.calls.clone(), test.calls.clone());
        let late = handler("late", move |context: Context| {
            let at = context.new().map(|it| it["spec"]["n"].clone());
            seen.note(format!("late {}", at.unwrap_or_default()));
            async { HandlerResult::<()>::Err(TemporaryError::new("later").delay(3).into()) }
        });
        let resize = handler("resize", move |context: Context| {
            let change = number(context.old()).and_then(|old| Ok((old, number(context.new())?)));
            resized.note(format!("resize {change:?}"));
            async move { change.map(drop) }
        });
        let color = |id| test.noting(id).field("spec.color");
        Registry::new()
            .on_update(test.selector(), resize.field("spec.n"))
            .on_update(test.selector(), late.retries(2))
            .on_update(test.selector(), color("any"))
            .on_update(test.selector(), color("present").old(PRESENT))
            .on_update(test.selector(), color("green").old("green"))
    };
    let working = test.start(registry());
    test.create("a", json!({"n": 1, "color": "red"})).await;
    test.until("it is handled", "a", is_handled).await;
    test.patch("a", json!({"spec": {"n": 2}})).await;
    test.calls_until("late 2").await;
    test.calls_until("resize Ok((1, 2))").await;
    test.patch("a", json!({"spec": {"n": 3}})).await;
    working.stop().await;
    let working = test.start(registry());
    test.calls_until("resize Ok((2, 3))").await;
    let has_three = |it: &Value| last_handled(it).is_some_and(|it| it["spec"]["n"] == 3);
    test.until("it is handled", "a", has_three).await;
    working.stop().await;
    let calls = test.calls.all();
    let others = calls.iter().filter(|it| !it.starts_with("late"));
    let others: Vec<_> = others.collect();
    assert_eq!(others, ["resize Ok((1, 2))", "resize Ok((2, 3))"], "{calls:?}");
}
