//! Startup handlers run first, cleanup handlers run last, and the operator may end in between.

use std::time::Duration;

use kopf_rs::{
    Memo, OperatorError, PermanentError, Registry, Selector, StartupSettings, TemporaryError, handler,
};
use kopf_rs_tests::{Server, TestCluster, scenarios};
use serde_json::{Value, json};

use crate::operating::{Gate, TestOperator, is_handled};

scenarios! {
    startup_comes_before_any_request_and_cleanup_after_everything;
    startup_is_retried [memory];
    a_failed_startup_starts_nothing [memory];
    every_startup_handler_is_called_to_its_end [memory];
    an_operator_that_is_stopped_during_its_startup_starts_nothing [memory];
    cleanup_comes_after_the_end_of_daemons [memory];
    startup_may_change_settings_and_the_memo [memory];
    a_failed_cleanup_is_reported [memory];
    running_handlers_may_finish_when_the_operator_stops [memory];
    handlers_that_do_not_finish_are_cancelled_and_called_again_next_time [memory];
    changes_of_event_handlers_are_written_when_the_operator_stops [memory];
    once_handles_existing_objects_and_ends;
    once_misses_nothing_with_handlers_for_everything [memory];
}

async fn startup_comes_before_any_request_and_cleanup_after_everything(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    test.create("a", json!({})).await;
    let (startup, created, cleanup) = (test.calls.clone(), test.calls.clone(), test.calls.clone());
    let gate = Gate::closed();
    let held = gate.clone();
    let registry = Registry::new()
        .on_startup(handler("startup_fn", move |_| {
            startup.note("startup");
            let held = held.clone();
            async move {
                held.pass().await;
                Ok(())
            }
        }))
        .on_create(
            test.selector(),
            handler("create_fn", move |_| {
                created.note("create");
                async { Ok(()) }
            }),
        )
        .on_cleanup(handler("cleanup_fn", move |_| {
            cleanup.note("cleanup");
            async { Ok(()) }
        }));
    let working = test.start(registry);
    test.calls.until(1).await;
    assert_eq!(asked(&test), 0);
    gate.open(1);
    test.until("it is handled", "a", is_handled).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["startup", "create", "cleanup"]);
    test.line("Activity 'startup_fn' succeeded.").await;
}

/// Returns the number of operators' requests; 0 on the real server, which other tests share.
fn asked(test: &TestOperator) -> usize {
    if test.cluster.server() == Server::Real {
        return 0;
    }
    test.cluster.asked().len()
}

async fn startup_is_retried(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new()
        .on_startup(test.handler("startup_fn", |context| async move {
            if context.retry() < 2 {
                return Err(TemporaryError::new("no database yet").delay(0.2).into());
            }
            Ok(Value::Null)
        }))
        .on_create(test.selector(), test.noting("create_fn"));
    test.create("a", json!({})).await;
    let working = test.start(registry);
    test.until("it is handled", "a", is_handled).await;
    working.stop().await;
    assert_eq!(test.calls.all().len(), 4);
    let line = test.line("Activity 'startup_fn' failed temporarily").await;
    assert!(line.ends_with("Activity 'startup_fn' failed temporarily: no database yet"), "{line}");
}

async fn a_failed_startup_starts_nothing(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    test.create("a", json!({})).await;
    let registry = Registry::new()
        .on_startup(test.handler("startup_fn", |_| async { Err(PermanentError::new("no").into()) }))
        .on_startup(test.noting("other_fn"))
        .on_create(test.selector(), test.noting("create_fn"))
        .on_cleanup(test.noting("cleanup_fn"));
    let ended = test.start(registry).end().await;
    assert!(matches!(ended, Err(OperatorError::Startup(ids)) if ids == ["startup_fn"]));
    assert_eq!(test.calls.all(), ["startup_fn ", "other_fn "]);
    assert_eq!(asked(&test), 0);
}

async fn every_startup_handler_is_called_to_its_end(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new()
        .on_startup(test.handler("bad_fn", |_| async { Err(PermanentError::new("no").into()) }))
        .on_startup(test.handler("slow_fn", |context| async move {
            if context.retry() < 2 {
                return Err(TemporaryError::new("not yet").delay(0.2).into());
            }
            Ok(Value::Null)
        }))
        .on_create(test.selector(), test.noting("create_fn"));
    let ended = test.start(registry).end().await;
    assert!(matches!(ended, Err(OperatorError::Startup(ids)) if ids == ["bad_fn"]));
    let calls = ["bad_fn ", "slow_fn ", "slow_fn ", "slow_fn "];
    assert_eq!(test.calls.all(), calls);
    assert_eq!(asked(&test), 0);
}

async fn an_operator_that_is_stopped_during_its_startup_starts_nothing(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let registry = Registry::new()
        .on_startup(test.waiting("startup_fn", &gate))
        .on_create(test.selector(), test.noting("create_fn"))
        .on_cleanup(test.noting("cleanup_fn"));
    let working = test.start(registry);
    test.calls.until(1).await;
    working.stop().await;
    test.line("The operator is stopped during its startup").await;
    assert_eq!(test.calls.all(), ["startup_fn "]);
    assert_eq!(asked(&test), 0);
}

async fn cleanup_comes_after_the_end_of_daemons(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let calls = test.calls.clone();
    let daemon = test.handler("daemon_fn", move |context| {
        let (calls, stopped) = (calls.clone(), context.stopped().cloned());
        async move {
            if let Some(stopped) = stopped {
                stopped.wait().await;
            }
            calls.note("daemon ends");
            Ok(Value::Null)
        }
    });
    let registry = Registry::new().daemon(test.selector(), daemon).on_cleanup(test.noting("cleanup_fn"));
    let working = test.start(registry);
    test.create("a", json!({})).await;
    test.calls.until(1).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["daemon_fn a", "daemon ends", "cleanup_fn "]);
}

async fn startup_may_change_settings_and_the_memo(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let calls = test.calls.clone();
    let registry = Registry::new()
        .on_startup(handler("startup_fn", |context| async move {
            context.memo().insert(42_u32);
            let settings = context.state::<StartupSettings>()?;
            settings.change(|settings| settings.execution.first_backoff = Duration::from_millis(100));
            Ok(())
        }))
        .on_create(
            test.selector(),
            handler("create_fn", move |context| {
                let memo: Memo = context.memo().clone();
                calls.note(format!("{:?}", memo.get::<u32>()));
                async move {
                    if context.retry() == 0 {
                        return Err("broken".into());
                    }
                    Ok(())
                }
            }),
        );
    let working = test.start(registry);
    test.create("a", json!({})).await;
    let line = test.line("will try again in 0.").await;
    test.until("it is handled", "a", is_handled).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["Some(42)", "Some(42)"], "{line}");
}

async fn a_failed_cleanup_is_reported(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new()
        .on_create(test.selector(), test.noting("create_fn"))
        .on_cleanup(test.handler("cleanup_fn", |_| async { Err(PermanentError::new("no").into()) }));
    test.create("a", json!({})).await;
    let operator = test.operator(registry).once();
    let ended = crate::operating::Working::start(&test.cluster, operator).end().await;
    assert!(matches!(ended, Err(OperatorError::Cleanup(ids)) if ids == ["cleanup_fn"]));
    assert!(is_handled(&test.get("a").await));
}

async fn running_handlers_may_finish_when_the_operator_stops(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let create = test.waiting_with("create_fn", &gate, json!("done"));
    let working = test.start(Registry::new().on_create(test.selector(), create));
    test.create("a", json!({})).await;
    test.calls.until(1).await;
    let ((), report) = tokio::join!(async { gate.open(1) }, working.stop());
    assert_eq!(report.failed, []);
    assert_eq!(test.get("a").await["status"]["create_fn"], "done");
}

async fn handlers_that_do_not_finish_are_cancelled_and_called_again_next_time(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let registry = || {
        let held = gate.clone();
        let calls = test.calls.clone();
        let create = handler("create_fn", move |context| {
            calls.note(format!("attempt {}", context.retry()));
            let held = held.clone();
            async move {
                held.pass().await;
                Ok(())
            }
        });
        Registry::new().on_create(test.selector(), create)
    };
    let working = test.start(registry());
    test.create("a", json!({})).await;
    test.calls.until(1).await;
    working.stop().await;
    test.line(
        "Handler 'create_fn' is cancelled because the operator stops. It will be called again at the next start.",
    )
    .await;
    assert!(!is_handled(&test.get("a").await));
    gate.open(1);
    let working = test.start(registry());
    test.until("it is handled", "a", is_handled).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["attempt 0", "attempt 0"]);
}

async fn changes_of_event_handlers_are_written_when_the_operator_stops(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let event = test.handler("event_fn", |context| async move {
        context.patch(|patch| patch["status"]["seen"] = json!(true));
        Ok(Value::Null)
    });
    let create = test.handler("create_fn", |context| async move {
        context.patch(|patch| patch["status"]["half"] = json!("done"));
        std::future::pending().await
    });
    let registry = Registry::new().on_event(test.selector(), event).on_create(test.selector(), create);
    let working = test.start(registry);
    test.create("a", json!({})).await;
    test.calls.until(2).await;
    working.stop().await;
    let object = test.get("a").await;
    assert_eq!(object["status"], json!({"seen": true}), "what is known, and no more");
    assert!(!is_handled(&object));
}

async fn once_handles_existing_objects_and_ends(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    for name in ["a", "b"] {
        test.create(name, json!({})).await;
    }
    let create = test.handler("create_fn", |context| async move {
        match (context.name(), context.retry()) {
            ("a", _) => Err(PermanentError::new("not a").into()),
            (_, 0) => Err(TemporaryError::new("not yet").delay(1).into()),
            _ => Ok(Value::Null),
        }
    });
    let registry = Registry::new().on_create(test.selector(), create);
    let operator = test.operator(registry).once();
    let report = crate::operating::Working::start(&test.cluster, operator).end().await;
    let report = report.expect("it ends well");
    let failed: Vec<_> =
        report.failed.iter().map(|it| it.object.as_ref().map(|it| it.name.as_str())).collect();
    assert_eq!(failed, [Some("a")]);
    assert_eq!(test.calls.all().len(), 3);
}

async fn once_misses_nothing_with_handlers_for_everything(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    test.create("a", json!({})).await;
    let everything = Selector::everything(&[]).expect("a selector");
    let registry = Registry::new().on_event(everything, test.noting("event_fn"));
    let operator = test.operator(registry).once();
    let working = crate::operating::Working::start(&test.cluster, operator);
    let report = working.end().await.expect("it ends well");
    assert_eq!(report.unserved, Vec::<String>::new());
    assert!(test.calls.all().len() > 1);
}
