//! Objects that vanish from the watch at unusual moments: while a handler runs, while they are read, and while the API is not served.

use std::time::Duration;

use kopf_rs_apiserver::{ApiServer, Fault, Verb};

use super::*;
use crate::operating::{Gate, KIND};

scenarios! {
    a_timer_beside_a_handler_is_called_with_no_absence [memory];
    a_deletion_that_is_reported_twice_is_handled_once [memory];
    a_resource_that_is_not_found_is_no_deletion [memory];
}

fn server(test: &TestOperator) -> &ApiServer {
    let server = test.cluster.in_process();
    server.expect("it runs on a server in the process")
}

/// Makes a change while the watch is down, so that its events are lost and the next list has to show it.
async fn during_a_gap(test: &TestOperator, change: impl Future<Output = ()>) {
    let own = Some(TestCluster::USER_AGENT);
    let away = |verb| {
        let away = Fault::answer(503).on(verb).plural(KIND);
        away.when(move |it| it.user_agent.as_deref() != own)
    };
    let away = [Verb::List, Verb::Watch].map(|verb| server(test).fault(away(verb)));
    let gone = server(test).fault(Fault::gone().plural(KIND));
    tokio::time::sleep(Duration::from_millis(100)).await;
    drop(gone);
    change.await;
    server(test).compact();
    drop(away);
}

async fn a_timer_beside_a_handler_is_called_with_no_absence(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let calls = test.calls.clone();
    let timer = handler("t", move |context: Context| {
        calls.note(format!("t {}", context.body()["metadata"]["labels"]["app"]));
        async { Ok(()) }
    });
    let registry = Registry::new()
        .on_create(test.selector(), test.waiting("c", &gate))
        .timer(test.selector(), timer.interval(1));
    let working = start(&test, registry);
    create(&test, "a", "web").await;
    test.calls_until("c a").await;
    during_a_gap(&test, async {
        test.patch("a", label("db")).await;
    })
    .await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    gate.open(1);
    let is_released = |it: &Value| it["metadata"]["finalizers"].is_null();
    test.until("it is released", "a", is_released).await;
    working.stop().await;
    let calls = test.calls.all();
    let odd = |call: &&String| call.starts_with("t ") && **call != "t \"web\"";
    assert_eq!(calls.iter().find(odd), None, "{calls:?}");
    let ticks = calls.iter().filter(|call| call.starts_with("t "));
    assert!(ticks.count() > 50, "{calls:?}");
}

async fn a_deletion_that_is_reported_twice_is_handled_once(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new().on_event(test.selector(), watching(&test));
    let working = start(&test, registry);
    create(&test, "a", "web").await;
    test.calls.until(1).await;
    let slow = Fault::delay(Duration::from_secs(30)).on(Verb::Get).name("a");
    let slow = slow.when(|it| it.user_agent.as_deref() != Some(TestCluster::USER_AGENT));
    let slow = server(&test).fault(slow);
    test.delete("a").await;
    let mut pulse = tokio::time::interval(Duration::from_millis(5));
    while slow.hits() == 0 {
        pulse.tick().await;
    }
    // A list lacks the object while the operator reads it.
    during_a_gap(&test, create(&test, "b", "web")).await;
    test.calls_until("b LISTED").await;
    test.calls_until("a DELETED").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    working.stop().await;
    let calls = test.calls.all();
    let deleted = calls.iter().filter(|it| *it == "a DELETED");
    assert_eq!(deleted.count(), 1, "{calls:?}");
}

async fn a_resource_that_is_not_found_is_no_deletion(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new()
        .on_event(test.selector(), watching(&test))
        .on_delete(test.selector(), test.noting("delete").optional());
    let working = start(&test, registry);
    create(&test, "a", "web").await;
    test.calls.until(1).await;
    // A server that does not serve the version at the moment answers like this.
    let unserved = Fault::answer(404).on(Verb::Get).name("a");
    let unserved = unserved.when(|it| it.user_agent.as_deref() != Some(TestCluster::USER_AGENT));
    let unserved = server(&test).fault(unserved);
    test.patch("a", label("db")).await;
    create(&test, "b", "web").await;
    test.calls_until("b ADDED").await;
    let mut pulse = tokio::time::interval(Duration::from_millis(5));
    while unserved.hits() == 0 {
        pulse.tick().await;
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    drop(unserved);
    // The object is visible again when it returns.
    test.patch("a", label("web")).await;
    test.calls_until("a ADDED").await;
    working.stop().await;
    let calls = test.calls.all();
    let deleted = |it: &&String| it.to_lowercase().contains("delete");
    assert_eq!(calls.iter().find(deleted), None, "{calls:?}");
}
