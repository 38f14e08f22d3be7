//! Sub-handlers: each has its own progress, and their parent is done when all of them are.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kopf_rs::{
    Callback, Context, HandlerResult, Lifecycle, PermanentError, Registry, TemporaryError, handler,
    handler_with,
};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use crate::operating::{Calls, Gate, TestOperator, is_handled, last_handled};

scenarios! {
    a_parent_is_done_when_its_children_are [memory];
    code_after_the_execution_is_reached_once [memory];
    a_failed_child_fails_its_parent_when_the_others_are_done [memory];
    failures_are_ignored_if_requested [memory];
    children_have_children [memory];
    children_have_filters_and_lifecycles [memory];
    a_finished_child_is_not_called_again_after_a_kill [memory];
    a_child_that_has_finished_on_another_state_is_called_again_after_a_kill [memory];
    children_that_change_their_object_are_called_once_each;
    a_handler_that_changed_the_object_is_not_called_again_after_a_kill [memory];
    a_second_change_calls_all_children_again [memory];
    misuse_of_children_is_an_error [memory];
    a_childs_filter_that_panics_fails_its_parent_for_a_while [memory];
    no_child_begins_once_the_operator_stops [memory];
    children_are_functions_and_closures_with_state [memory];
}

/// A sub-handler as a function; its parent passes the item.
#[kopf_rs::subhandler(retries = 2)]
async fn handle(item: &str, name: &str, retry: u32) -> HandlerResult<String> {
    if retry == 0 {
        return Err(TemporaryError::new("not yet").delay(0.5));
    }
    std::future::ready(()).await;
    Ok(format!("{name} has {item}"))
}

/// A sub-handler that may block its thread.
#[kopf_rs::subhandler]
fn count(items: u64) -> HandlerResult<u64> {
    match items {
        0 => kopf_rs::fail!("no items"),
        _ => Ok(items),
    }
}

async fn children_are_functions_and_closures_with_state(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let calls = test.calls.clone();
    let parent = handler_with("parent", calls, async |cause: Context, calls: Calls| {
        let subs = cause.subhandlers()?;
        for item in ["a", "b"] {
            subs.add(handle::id(item).param(item));
        }
        subs.add(count::handler().param(2));
        subs.add(handler_with("noting", calls, async |cause, calls| {
            calls.note(cause.handler_id());
            Ok(())
        }));
        subs.execute().await
    });
    let working = test.start(Registry::new().on_create(test.selector(), parent));
    test.create("o", json!({})).await;
    let object = test.until("it is handled", "o", is_handled).await;
    working.stop().await;
    let results = json!({"parent/a": "o has a", "parent/b": "o has b", "parent/count": 2});
    assert_eq!(object["status"], results);
    assert_eq!(test.calls.all(), ["parent/noting"]);
}

/// A sub-handler that records its calls as `id retry`, and fails this many times.
fn child(id: &str, calls: &Calls, failures: u32) -> Callback {
    let calls = calls.clone();
    handler(id, move |cause: Context| {
        calls.note(format!("{} {}", cause.handler_id(), cause.retry()));
        let retry = cause.retry();
        async move {
            if retry < failures {
                Err(TemporaryError::new("not yet").delay(0.5))?;
            }
            Ok(json!({"tries": retry + 1}))
        }
    })
}

/// A parent that records its calls, then does `more`.
fn parent<F>(test: &TestOperator, more: F) -> Callback
where
    F: Fn(&Context, &Calls) -> HandlerResult<Value> + Send + Sync + Copy + 'static,
{
    let calls = test.calls.clone();
    handler("parent", move |cause: Context| {
        let calls = calls.clone();
        async move {
            calls.note(format!("parent {}", cause.retry()));
            more(&cause, &calls)
        }
    })
}

fn progress(object: &Value) -> Vec<String> {
    let annotations = object["metadata"]["annotations"].as_object();
    let keys = annotations.into_iter().flatten().map(|(key, _)| key);
    keys.filter_map(|key| key.strip_prefix("tester.kopf.rs/parent")).map(str::to_owned).collect()
}

async fn a_childs_filter_that_panics_fails_its_parent_for_a_while(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let (calls, asked) = (test.calls.clone(), Arc::new(AtomicBool::new(false)));
    let parent = handler("parent", move |cause: Context| {
        let asked = asked.clone();
        let picky = child("child", &calls, 0).when(move |_| {
            assert!(asked.swap(true, Ordering::Relaxed), "no opinion yet");
            true
        });
        async move {
            cause.subhandlers()?.add(picky);
            Ok(())
        }
    });
    let working = test.start(Registry::new().on_create(test.selector(), parent));
    test.create("one", json!({})).await;
    test.until("it is handled", "one", is_handled).await;
    working.stop().await;
    let failed = "Handler 'parent' failed with an exception and will try again in";
    let told = test.line(failed).await;
    assert!(told.contains("no opinion yet"), "{told}");
    assert_eq!(test.calls.all(), ["parent/child 0"]);
}

async fn a_parent_is_done_when_its_children_are(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let parent = parent(&test, |cause, calls| {
        let subs = cause.subhandlers()?;
        subs.add(child("one", calls, 0));
        subs.add(child("two", calls, 1));
        Ok(json!("done"))
    });
    let working = test.start(Registry::new().on_create(test.selector(), parent));
    test.create("o", json!({})).await;
    let between = |object: &Value| progress(object).len() == 3;
    let between = test.until("the records", "o", between).await;
    assert_eq!(progress(&between), ["", ".one", ".two"]);
    let object = test.until("it is handled", "o", is_handled).await;
    assert!(progress(&object).is_empty(), "{object}");
    assert_eq!(
        object["status"],
        json!({"parent": "done", "parent/one": {"tries": 1}, "parent/two": {"tries": 2}})
    );
    working.stop().await;
    let expected = ["parent 0", "parent/one 0", "parent 0", "parent/two 0", "parent 0", "parent/two 1"];
    assert_eq!(test.calls.all(), expected);
    test.line("Handler 'parent' succeeded.").await;
    test.line("Creation is processed: 1 succeeded; 0 failed.").await;
}

async fn code_after_the_execution_is_reached_once(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let calls = test.calls.clone();
    let parent = handler("parent", move |cause: Context| {
        let calls = calls.clone();
        async move {
            let subs = cause.subhandlers()?;
            for id in ["a", "b", "c"] {
                subs.add(child(id, &calls, 1));
            }
            calls.note("before");
            subs.execute().await?;
            calls.note("after");
            cause.patch(|patch| patch["spec"]["size"] = json!(7));
            Ok(())
        }
    });
    let working = test.start(Registry::new().on_create(test.selector(), parent));
    test.create("o", json!({})).await;
    test.until("it is handled", "o", |object| is_handled(object) && object["spec"]["size"] == 7).await;
    working.stop().await;
    let count = |text: &str| test.calls.all().iter().filter(|call| *call == text).count();
    assert_eq!((count("after"), count("parent/a 0"), count("parent/c 1")), (1, 1, 1));
    assert!(count("before") >= 6);
}

async fn a_failed_child_fails_its_parent_when_the_others_are_done(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let parent = parent(&test, |cause, calls| {
        let subs = cause.subhandlers()?;
        subs.add(handler("bad", |_| async { Err::<(), _>(PermanentError::new("no way").into()) }));
        let broken =
            handler("broken", |_| async { Err::<(), _>(std::io::Error::other("no such file").into()) });
        subs.add(broken.retries(1));
        subs.add(child("limited", calls, 9).retries(2));
        let slow = handler("slow", |_| std::future::pending::<HandlerResult>());
        subs.add(slow.timeout(1));
        subs.add(child("good", calls, 1));
        Ok(json!("done"))
    });
    let working = test.start(Registry::new().on_create(test.selector(), parent));
    test.create("o", json!({})).await;
    let object = test.until("it is handled", "o", is_handled).await;
    assert!(progress(&object).is_empty());
    assert_eq!(object["status"], json!({"parent/good": {"tries": 2}}));
    let report = working.stop().await;
    let failed = report.failed.iter().map(|it| it.handler.as_str());
    let expected = ["parent", "parent/bad", "parent/broken", "parent/limited", "parent/slow"];
    assert!(failed.collect::<BTreeSet<_>>().iter().eq(&expected));
    let line = "Handler 'parent' failed permanently: sub-handlers have failed: 'parent/bad' (no way), 'parent/broken' (no such file), \
                'parent/limited' (not yet), 'parent/slow' (has timed out after 0:00:01)";
    test.line(line).await;
}

async fn failures_are_ignored_if_requested(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let parent = parent(&test, |cause, calls| {
        let subs = cause.subhandlers()?;
        subs.ignore_failures();
        subs.add(child("limited", calls, 9).retries(1));
        subs.add(child("good", calls, 0));
        Ok(json!("done"))
    });
    let working = test.start(Registry::new().on_create(test.selector(), parent.retries(1)));
    test.create("o", json!({})).await;
    let object = test.until("it is handled", "o", is_handled).await;
    assert_eq!(object["status"], json!({"parent": "done", "parent/good": {"tries": 1}}));
    working.stop().await;
}

async fn children_have_children(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let parent = parent(&test, |cause, calls| {
        let calls = calls.clone();
        let middle = handler("middle", move |cause: Context| {
            let calls = calls.clone();
            calls.note(format!("middle {}", cause.retry()));
            async move {
                cause.subhandlers()?.add(child("leaf", &calls, 1));
                cause.patch(|patch| patch["metadata"]["annotations"]["middle"] = json!("was here"));
                Ok(())
            }
        });
        cause.subhandlers()?.add(middle);
        Ok(Value::Null)
    });
    let working = test.start(Registry::new().on_create(test.selector(), parent));
    test.create("o", json!({})).await;
    let deep = |object: &Value| progress(object).len() == 3;
    let between = test.until("all levels", "o", deep).await;
    let record = &between["metadata"]["annotations"]["tester.kopf.rs/parent"];
    let record: Value = serde_json::from_str(record.as_str().expect("text")).expect("JSON");
    assert_eq!(record["subrefs"], json!(["parent/middle", "parent/middle/leaf"]));
    let object = test.until("it is handled", "o", is_handled).await;
    assert_eq!(object["status"], json!({"parent/middle/leaf": {"tries": 2}}));
    assert_eq!(object["metadata"]["annotations"]["middle"], "was here");
    assert!(progress(&object).is_empty());
    working.stop().await;
    let leaves = |call: &String| call.starts_with("parent/middle/leaf");
    assert_eq!(test.calls.all().into_iter().filter(leaves).count(), 2);
}

async fn children_have_filters_and_lifecycles(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let parent = parent(&test, |cause, calls| {
        let subs = cause.subhandlers()?;
        subs.lifecycle(Lifecycle::AllAtOnce);
        subs.add(child("of_a", calls, 0).field("a"));
        subs.add(child("of_b", calls, 0).field("b"));
        subs.add(child("labelled", calls, 0).label("wanted", "yes"));
        subs.add(child("big", calls, 0).when(|cause| cause.new().is_some_and(|new| new["a"] == 2)));
        Ok(Value::Null)
    });
    let registry = Registry::new()
        .on_create(test.selector(), test.noting("created"))
        .on_update(test.selector(), parent.field("spec"));
    let working = test.start(registry);
    test.create("o", json!({"a": 1, "b": 1})).await;
    test.until("it is handled", "o", is_handled).await;
    test.patch("o", json!({"spec": {"a": 2}})).await;
    test.calls.until(4).await;
    test.line("Updating is processed: 1 succeeded; 0 failed.").await;
    working.stop().await;
    let id = "parent/spec";
    let expected = ["created o".into(), "parent 0".into(), format!("{id}/of_a 0"), format!("{id}/big 0")];
    assert_eq!(test.calls.all(), expected);
}

async fn a_finished_child_is_not_called_again_after_a_kill(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = || {
        let parent = parent(&test, |cause, calls| {
            let subs = cause.subhandlers()?;
            subs.add(child("one", calls, 0));
            subs.add(child("two", calls, 2));
            Ok(Value::Null)
        });
        Registry::new().on_create(test.selector(), parent)
    };
    let first = test.start(registry());
    test.create("o", json!({})).await;
    let tried = |object: &Value| {
        let record = &object["metadata"]["annotations"]["tester.kopf.rs/parent.two"];
        record.as_str().is_some_and(|text| text.contains("\"retries\":1"))
    };
    test.until("an attempt is written", "o", tried).await;
    first.kill().await;
    let second = test.start(registry());
    test.until("it is handled", "o", is_handled).await;
    second.stop().await;
    let children = test.calls.all().into_iter().filter(|call| call.starts_with("parent/"));
    let children: Vec<_> = children.collect();
    assert_eq!(children, ["parent/one 0", "parent/two 0", "parent/two 1", "parent/two 2"]);
}

/// A handler that records its `new` value, and fails with this delay at the first change.
fn told(id: &str, calls: &Calls, delay: u32) -> Callback {
    let (id, calls) = (id.to_owned(), calls.clone());
    handler(id.clone(), move |cause: Context| {
        let size = cause.new().map(|new| new["spec"]["size"].clone());
        let size = size.and_then(|size| size.as_u64()).unwrap_or_default();
        calls.note(format!("{id} {size}"));
        async move {
            if size == 1 && delay > 0 {
                Err(TemporaryError::new("not yet").delay(delay))?;
            }
            Ok(())
        }
    })
}

async fn a_child_that_has_finished_on_another_state_is_called_again_after_a_kill(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let start = || {
        let calls = test.calls.clone();
        let parent = handler("parent", move |cause: Context| {
            let calls = calls.clone();
            async move {
                let subs = cause.subhandlers()?;
                subs.add(told("one", &calls, 0));
                subs.add(told("two", &calls, 60));
                Ok(())
            }
        });
        let registry = Registry::new().on_update(test.selector(), parent);
        // In the next process its retry is due before the parent's, so it begins the cycle.
        let other = told("other", &test.calls, 30);
        test.start(registry.on_update(test.selector(), other))
    };
    let working = start();
    test.create("o", json!({"size": 0})).await;
    test.until("it is handled", "o", is_handled).await;
    test.patch("o", json!({"spec": {"size": 1}})).await;
    test.calls.until(3).await;
    working.kill().await;
    test.patch("o", json!({"spec": {"size": 2}})).await;
    let working = start();
    let done = |object: &Value| last_handled(object).is_some_and(|it| it["spec"]["size"] == 2);
    test.until("all is handled", "o", done).await;
    working.stop().await;
    let mut calls = test.calls.all();
    assert_eq!(calls[3], "other 2", "{calls:?}");
    calls.sort();
    let expected = ["one 1", "one 2", "other 1", "other 2", "two 1", "two 2"];
    assert_eq!(calls, expected);
}

/// A handler that records its call and sets its own label.
fn labelling(id: &str, calls: &Calls) -> Callback {
    let (id, calls) = (id.to_owned(), calls.clone());
    handler(id.clone(), move |cause: Context| {
        calls.note(id.clone());
        cause.patch(|patch| patch["metadata"]["labels"][&*id] = json!("set"));
        async { Ok(()) }
    })
}

async fn children_that_change_their_object_are_called_once_each(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let calls = test.calls.clone();
    let parent = handler("parent", move |cause: Context| {
        let calls = calls.clone();
        async move {
            let subs = cause.subhandlers()?;
            for id in ["one", "two", "three"] {
                subs.add(labelling(id, &calls));
            }
            Ok(())
        }
    });
    let working = test.start(Registry::new().on_create(test.selector(), parent));
    test.create("o", json!({})).await;
    let labelled = |object: &Value| {
        last_handled(object).is_some_and(|last| last["metadata"]["labels"]["three"] == "set")
    };
    test.until("all is handled", "o", labelled).await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["one", "two", "three"]);
}

async fn a_handler_that_changed_the_object_is_not_called_again_after_a_kill(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let start = || {
        let registry = Registry::new()
            .on_create(test.selector(), labelling("make", &test.calls))
            .on_create(test.selector(), child("wait", &test.calls, 3))
            .on_update(test.selector(), test.noting("update_fn"));
        test.start(registry)
    };
    let first = start();
    test.create("o", json!({"size": 1})).await;
    test.calls.until(2).await;
    let waits = |object: &Value| {
        let annotations = &object["metadata"]["annotations"];
        let record = annotations["tester.kopf.rs/wait"].as_str();
        record.is_some_and(|record| record.contains("\"retries\":1"))
    };
    test.until("the second one waits", "o", waits).await;
    first.kill().await;
    let second = start();
    test.calls.until(6).await;
    test.until("it is handled", "o", is_handled).await;
    second.stop().await;
    let calls = test.calls.all();
    let make = calls.iter().filter(|call| **call == "make").count();
    assert_eq!((make, &*calls[calls.len() - 1]), (1, "update_fn o"), "{calls:?}");
}

async fn a_second_change_calls_all_children_again(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let open = Arc::new(AtomicBool::new(false));
    let (calls, door) = (test.calls.clone(), open.clone());
    let parent = handler("parent", move |cause: Context| {
        let (calls, door) = (calls.clone(), door.clone());
        async move {
            let subs = cause.subhandlers()?;
            let size = cause.new().map(|new| new["spec"]["size"].clone()).unwrap_or_default();
            subs.add(handler("one", move |_| {
                calls.note(format!("one {size}"));
                async { Ok(()) }
            }));
            subs.add(handler("two", move |_| {
                let open = door.load(Ordering::SeqCst);
                async move { if open { Ok(()) } else { Err(TemporaryError::new("closed").delay(1).into()) } }
            }));
            Ok(())
        }
    });
    let registry =
        Registry::new().on_create(test.selector(), test.noting("created")).on_update(test.selector(), parent);
    let working = test.start(registry);
    test.create("o", json!({"size": 1})).await;
    test.until("it is handled", "o", is_handled).await;
    test.patch("o", json!({"spec": {"size": 2}})).await;
    test.calls.until(2).await;
    // The object changes while the second child waits, so the first child has seen an outdated state.
    test.patch("o", json!({"spec": {"size": 3}})).await;
    open.store(true, Ordering::SeqCst);
    let calls = test.calls.until(3).await;
    assert_eq!(calls, ["created o", "one 2", "one 3"]);
    working.stop().await;
}

async fn misuse_of_children_is_an_error(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let twins = parent(&test, |cause, calls| {
        let subs = cause.subhandlers()?;
        subs.add(child("twin", calls, 0));
        subs.add(child("twin", calls, 0));
        Ok(Value::Null)
    });
    let raw = handler("raw", |cause: Context| async move {
        cause.subhandlers()?;
        Ok(())
    });
    let alone = |id, child: Callback| {
        handler(id, move |cause: Context| {
            let child = child.clone();
            async move {
                cause.subhandlers()?.add(child);
                Ok(())
            }
        })
    };
    let grown = child("grown", &test.calls, 0).field("spec.size").new(2);
    let ticking = child("ticking", &test.calls, 0).interval(1);
    let registry = Registry::new()
        .on_create(test.selector(), twins)
        .on_create(test.selector(), alone("sided", grown))
        .on_create(test.selector(), alone("timed", ticking))
        .on_event(test.selector(), raw);
    let working = test.start(registry);
    test.create("o", json!({"size": 2})).await;
    test
        .line("Handler 'sided' failed permanently: sub-handler 'grown/spec.size': `old` and `new` belong to sub-handlers of on_update and on_field, but its parent is one of on_create: use `value` or `when` here")
        .await;
    test
        .line("Handler 'timed' failed permanently: sub-handler 'ticking': `interval` is not an option of sub-handlers")
        .await;
    test.line("there are two sub-handlers 'parent/twin'").await;
    test.line("Handler 'raw' failed permanently: sub-handlers need a parent that is called for a change")
        .await;
    working.stop().await;
}

async fn no_child_begins_once_the_operator_stops(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let (held, noted) = (gate.clone(), test.calls.clone());
    let parent = handler("parent", move |cause: Context| {
        let (gate, calls) = (held.clone(), noted.clone());
        async move {
            let subs = cause.subhandlers()?;
            let two = child("two", &calls, 0);
            subs.add(handler("one", move |cause: Context| {
                calls.note(cause.handler_id());
                let gate = gate.clone();
                async move {
                    gate.pass().await;
                    Ok(json!("done"))
                }
            }));
            subs.add(two);
            subs.lifecycle(Lifecycle::AllAtOnce);
            Ok(())
        }
    });
    let working = test.start(Registry::new().on_create(test.selector(), parent));
    test.create("o", json!({})).await;
    test.calls.until(1).await;
    let opening = async {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        gate.open(1);
    };
    tokio::join!(working.stop(), opening);
    assert_eq!(test.calls.all(), ["parent/one"]);
    let object = test.get("o").await;
    assert_eq!(object["status"]["parent/one"], "done", "{object}");
    assert!(!is_handled(&object), "{object}");
}
