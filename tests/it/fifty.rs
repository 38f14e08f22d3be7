//! Fifty changes to one object while its handlers run and sometimes fail: all handlers handle the last state, and none handles a state
//! twice.

use std::sync::Arc;
use std::time::Duration;

use kopf_rs::{Callback, Registry, TemporaryError, handler};
use kopf_rs_tests::{Server, TestCluster, say, scenarios};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::operating::{TestOperator, last_handled};

scenarios! {
    fifty_changes_while_handlers_run;
}

const CHANGES: u64 = 50;

/// The state that one call received, and whether it succeeded.
#[derive(Clone, Debug)]
struct Run {
    id: String,
    told: u64,
    done: bool,
}

type Runs = Arc<watch::Sender<Vec<Run>>>;

/// A slow handler that fails in one of `fails` calls.
fn worker(id: &str, runs: &Runs, fails: usize) -> Callback {
    let runs = Arc::clone(runs);
    let name = id.to_owned();
    handler(id, move |context| {
        let (runs, id) = (Arc::clone(&runs), name.clone());
        async move {
            let new = context.new().cloned().unwrap_or_default();
            let told = new["spec"]["size"].as_u64().or(new.as_u64());
            let run = Run { id, told: told.unwrap_or_default(), done: false };
            let mut place = 0;
            runs.send_modify(|runs| {
                place = runs.len();
                runs.push(run);
            });
            // Simulated work, so that changes arrive in the middle of it.
            tokio::time::sleep(Duration::from_millis(10)).await;
            if fails > 0 && place % fails == 0 {
                return Err(TemporaryError::new("not yet").delay(0.02).into());
            }
            runs.send_modify(|runs| runs[place].done = true);
            Ok(())
        }
    })
}

async fn fifty_changes_while_handlers_run(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let runs = Runs::default();
    let registry = Registry::new()
        .on_create(test.selector(), worker("create_fn", &runs, 0))
        .on_update(test.selector(), worker("first_fn", &runs, 0))
        .on_update(test.selector(), worker("failing_fn", &runs, 3))
        .on_update(test.selector(), worker("last_fn", &runs, 0))
        .on_field(test.selector(), worker("field_fn", &runs, 4).field("spec.size"));
    let working = test.start(registry);
    test.create("a", json!({"size": 0})).await;
    let mut seen = runs.subscribe();
    for size in 1..=CHANGES {
        let before = seen.borrow_and_update().len();
        // Wait until a handler has just started, so that the change arrives while it runs.
        let begun = seen.wait_for(|runs| runs.len() > before);
        let patience = test.cluster.server().patience();
        // Drop the guard of `wait_for`, which would block the handlers.
        let waited = tokio::time::timeout(patience, begun).await.is_ok();
        assert!(waited, "no handler is called after change {}", size - 1);
        test.patch("a", json!({"spec": {"size": size}})).await;
    }
    let object = test.until("all is handled", "a", is_done).await;
    working.stop().await;
    let unrest = |line: &str| line.contains("have changed it 20 times in a row");
    assert_eq!(test.cluster.lines().count(unrest), 0, "others have changed it");
    let runs = runs.borrow().clone();
    for id in ["first_fn", "failing_fn", "last_fn", "field_fn"] {
        judge(&runs, id);
    }
    assert_eq!(object["spec"]["size"], CHANGES);
    let writes = test.all_writes("a").await;
    let failed = runs.iter().filter(|run| !run.done).count();
    assert!(writes <= runs.len(), "{writes} writes for {} attempts", runs.len());
    let place = match test.cluster.server() {
        Server::Memory => "in memory",
        Server::Tcp => "over TLS",
        Server::Real => "on a real server",
    };
    say(&format!(
        "{CHANGES} changes to one object while its five handlers ran, {place}: {} calls, {failed} of them failed; {writes} writes",
        runs.len()
    ));
}

/// Asserts that the last state was handled, and every state at most once.
#[track_caller]
fn judge(runs: &[Run], id: &str) {
    let done = runs.iter().filter(|run| run.id.starts_with(id) && run.done);
    let states: Vec<u64> = done.map(|run| run.told).collect();
    assert_eq!(states.last(), Some(&CHANGES), "{id}: {states:?}");
    assert!(states.windows(2).all(|pair| pair[0] < pair[1]), "{id}: {states:?}");
}

fn is_done(object: &Value) -> bool {
    let annotations = object["metadata"]["annotations"].as_object();
    let recorded = annotations.into_iter().flatten().any(|(key, _)| key.contains("_fn"));
    !recorded && last_handled(object).is_some_and(|last| last["spec"]["size"] == CHANGES)
}
