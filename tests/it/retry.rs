//! Handlers that fail: retried after the delay that they request, up to their limits, even across restarts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kopf_rs::{ErrorsMode, HandlerResult, PermanentError, Registry, TemporaryError, handler};
use kopf_rs_tests::{Server, TestCluster, scenarios};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::operating::{Gate, TestOperator, is_handled};

scenarios! {
    temporary_errors_are_retried_after_their_delays;
    blocking_handlers_run_beside_the_others;
    a_permanent_error_is_final [memory];
    the_errors_mode_decides_about_arbitrary_errors [memory];
    a_handler_that_never_returns_is_cancelled_at_its_timeout [memory];
    a_panic_is_an_error [memory];
    the_panic_hook_of_the_process_stays_its_own [memory];
    one_failing_handler_does_not_hold_up_another [memory];
    a_panicking_filter_concerns_one_object_only [memory];
}

async fn temporary_errors_are_retried_after_their_delays(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let (calls, start) = (test.calls.clone(), Instant::now());
    let create = handler("create_fn", move |context| {
        let waited = start.elapsed().as_secs();
        calls.note(format!("{} {waited}", context.retry()));
        async move {
            match context.retry() {
                0 => Err(TemporaryError::new("not yet").delay(1).into()),
                1 => Err(TemporaryError::new("not yet").delay(2).into()),
                _ => Ok(()),
            }
        }
    });
    test.create("a", json!({})).await;
    let working = test.start(Registry::new().on_create(test.selector(), create));
    test.until("it is handled", "a", is_handled).await;
    working.stop().await;
    if test.cluster.server() == Server::Memory {
        assert_eq!(test.calls.all(), ["0 0", "1 1", "2 3"]);
    }
    assert_eq!(test.calls.all().len(), 3);
    // One write per attempt, and no extra write for the retry.
    test.assert_writes("a", 3).await;
    test.line("Handler 'create_fn' failed temporarily: not yet").await;
}

async fn a_permanent_error_is_final(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let create = test.handler("create_fn", |_| async { Err(PermanentError::new("no image").into()) });
    let registry = Registry::new()
        .on_create(test.selector(), create)
        .on_update(test.selector(), test.noting("update_fn"));
    let working = test.start(registry);
    test.create("a", json!({"size": 1})).await;
    test.line("Handler 'create_fn' failed permanently: no image").await;
    test.until("it is handled", "a", is_handled).await;
    test.patch("a", json!({"spec": {"size": 2}})).await;
    test.calls.until(2).await;
    let report = working.stop().await;
    assert_eq!(test.calls.all(), ["create_fn a", "update_fn a"]);
    assert_eq!(report.failed.len(), 1);
}

async fn the_errors_mode_decides_about_arbitrary_errors(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let failing = |id: &str| {
        test.handler(id, |context| async move {
            let number = if context.retry() == 0 { "x" } else { "1" };
            Ok(json!(number.parse::<u32>()?))
        })
    };
    let registry = Registry::new()
        .on_create(test.selector(), failing("ignored").errors(ErrorsMode::Ignored))
        .on_create(test.selector(), failing("permanent").errors(ErrorsMode::Permanent))
        .on_create(test.selector(), failing("temporary").backoff(0.1));
    let working = test.start(registry);
    test.create("a", json!({})).await;
    let object = test.until("it is handled", "a", is_handled).await;
    let report = working.stop().await;
    let mut calls = test.calls.all();
    calls.sort();
    assert_eq!(calls, ["ignored a", "permanent a", "temporary a", "temporary a"]);
    assert_eq!(object["status"], json!({"temporary": 1}));
    assert_eq!(report.failed[0].handler, "permanent");
    test.line("Handler 'ignored' failed with an exception and will ignore it: invalid digit").await;
}

async fn a_handler_that_never_returns_is_cancelled_at_its_timeout(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let create = test.handler("create_fn", |_| std::future::pending::<HandlerResult<Value>>());
    let working = test.start(Registry::new().on_create(test.selector(), create.timeout(1.5)));
    test.create("a", json!({})).await;
    test.line("Handler 'create_fn' has timed out after").await;
    test.until("it is handled", "a", is_handled).await;
    let report = working.stop().await;
    assert_eq!(report.failed[0].handler, "create_fn");
    assert_eq!(test.calls.all(), ["create_fn a"]);
}

async fn a_panic_is_an_error(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let create = test.handler("create_fn", |context| async move {
        assert!(context.retry() > 0, "what a pity");
        Ok(Value::Null)
    });
    let working = test.start(Registry::new().on_create(test.selector(), create.backoff(0.2)));
    test.create("a", json!({})).await;
    let line = test.line("what a pity").await;
    assert!(line.contains("failed with an exception and will try again in 0.2 seconds"), "{line}");
    assert!(line.contains(": panicked: what a pity"), "{line}");
    test.until("it is handled", "a", is_handled).await;
    working.stop().await;
    assert_eq!(test.calls.all().len(), 2);
}

async fn one_failing_handler_does_not_hold_up_another(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let bad = test.handler("bad", |_| async { Err(TemporaryError::new("later").delay(3600).into()) });
    let registry =
        Registry::new().on_create(test.selector(), bad).on_create(test.selector(), test.noting("good"));
    let working = test.start(registry);
    test.create("a", json!({})).await;
    test.calls.until(2).await;
    let done = |object: &Value| {
        let record = object["metadata"]["annotations"]["tester.kopf.rs/good"].as_str();
        record.is_some_and(|record| record.contains("\"success\":true"))
    };
    test.until("the good one is on record", "a", done).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["bad a", "good a"]);
}

async fn a_panicking_filter_concerns_one_object_only(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let picky = test.noting("create_fn").when(|cause| {
        assert_ne!(cause.name(), "bad", "I do not like this object");
        true
    });
    let working = test.start(Registry::new().on_create(test.selector(), picky));
    test.create("bad", json!({})).await;
    let told = test.line("I do not like this object").await;
    let named = "due to an unexpected error: a filter of 'create_fn' panicked: ";
    assert!(told.contains(named), "{told}");
    test.create("good", json!({})).await;
    test.until("it is handled", "good", is_handled).await;
    gate.open(1);
    tokio::time::timeout(Duration::from_secs(60), working.stop()).await.expect("it stops");
    assert_eq!(test.calls.all(), ["create_fn good"]);
}

/// The operator may be embedded in a larger program.
async fn the_panic_hook_of_the_process_stays_its_own(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let told = Arc::new(AtomicUsize::new(0));
    let (former, tell) = (std::panic::take_hook(), told.clone());
    std::panic::set_hook(Box::new(move |panic| {
        let payload = panic.payload().downcast_ref::<&str>();
        if payload.is_some_and(|text| text.starts_with("as the process is told")) {
            tell.fetch_add(1, Ordering::Relaxed);
        } else {
            former(panic);
        }
    }));
    let create = test.handler("create_fn", |context| async move {
        assert!(context.retry() > 0, "as the process is told");
        Ok(Value::Null)
    });
    let working = test.start(Registry::new().on_create(test.selector(), create));
    test.create("a", json!({})).await;
    test.line("panicked: as the process is told").await;
    test.until("it is handled", "a", is_handled).await;
    working.stop().await;
    assert_eq!(told.load(Ordering::Relaxed), 1);
}

mod blocking {
    use std::sync::mpsc::{Receiver, SyncSender};
    use std::sync::{Arc, Mutex};

    use kopf_rs::prelude::*;

    /// Both ends of a channel that blocks a thread.
    pub(super) struct Channel(pub(super) Mutex<Receiver<()>>, pub(super) SyncSender<()>);

    #[on_create("blocking.kopf.dev", "v1", "kopfexamples")]
    #[expect(clippy::needless_pass_by_value, reason = "handlers get what they ask for by value")]
    fn waits(name: &str, channel: State<Arc<Channel>>, patch: &mut Patch) -> HandlerResult<String> {
        if name == "waiting" {
            channel.0.lock().map_err(|_| "poisoned")?.recv()?;
        } else {
            channel.1.send(())?;
        }
        patch["status"]["ran"] = json!(true);
        Ok(format!("{name} is done"))
    }
}

/// The blocking handler of one object waits until that of the other object has run, so the two must run in parallel.
async fn blocking_handlers_run_beside_the_others(cluster: TestCluster) {
    let mut test = TestOperator::bare(cluster);
    "blocking.kopf.dev".clone_into(&mut test.group);
    test.serve().await;
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    let channel = blocking::Channel(std::sync::Mutex::new(receiver), sender);
    let module = concat!(module_path!(), "::blocking");
    let registry = Registry::in_module(module).expect("the handler is well declared");
    let operator = test.operator(registry).with(std::sync::Arc::new(channel));
    let working = crate::operating::Working::start(&test.cluster, operator);
    test.create("waiting", json!({})).await;
    test.line("Handler 'waits' is invoked.").await;
    test.create("other", json!({})).await;
    for name in ["other", "waiting"] {
        let object = test.until("it is handled", name, is_handled).await;
        assert_eq!(object["status"], json!({"ran": true, "waits": format!("{name} is done")}));
    }
    working.stop().await;
}
