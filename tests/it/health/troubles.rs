//! The health of an operator during trouble that a restart would not fix, and the cost of health requests.

use super::*;

scenarios! {
    an_outage_that_lasts_does_not_end_the_operators_life [memory];
    a_permission_that_is_withdrawn_is_reported_and_forgotten [memory];
    an_index_that_is_not_filled_keeps_the_operator_from_being_ready [memory];
    an_index_that_cannot_be_filled_is_reported [memory];
    a_probe_is_not_begun_when_the_time_is_over [tcp];
    the_status_is_refused_to_other_machines [memory];
    the_status_can_be_switched_off [memory];
    the_operators_facts_are_collected_once_a_second [memory];
}

/// Restricts a fault to requests of the operator, not of the test.
fn of_the_operator(fault: Fault) -> Fault {
    fault.when(|it| it.user_agent.as_deref() != Some(TestCluster::USER_AGENT))
}

async fn an_outage_that_lasts_does_not_end_the_operators_life(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let settings = Settings::with(|it| {
        it.health.late_after = Duration::from_secs(60);
        it.health.stuck_after = Duration::from_secs(120);
    });
    let asked = Asked::start_with(&test, watching(&test), settings).await;
    asked.until_well("/readyz").await;
    let away = Fault::answer(503).on(Verb::Patch).plural(KIND);
    let away = server(&test).fault(of_the_operator(away));
    test.create("a", json!({})).await;
    test.calls.until(1).await;
    test.patch("a", json!({"spec": {"size": 1}})).await;
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_secs(61)).await;
        let answer = asked.get("/livez").await;
        assert_eq!(answer.code, 200, "{answer:?}");
        let answer = asked.get("/readyz").await;
        let told = ": the server refuses the operator's writes";
        assert!(answer.text.contains("[-]queue failed: "), "{answer:?}");
        assert!(answer.text.contains(told), "{answer:?}");
    }
    drop(away);
    asked.until_well("/readyz").await;
    test.until("it is handled", "a", is_handled).await;
    asked.working.stop().await;
}

async fn a_permission_that_is_withdrawn_is_reported_and_forgotten(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let asked = Asked::start(&test, watching(&test)).await;
    asked.until_well("/readyz").await;
    // The server checks permissions only when a watch starts. A watch ends after about 235 seconds and starts again.
    let withdrawn = server(&test).fault(of_the_operator(Fault::answer(403).plural(KIND)));
    tokio::time::sleep(Duration::from_secs(2 * 235)).await;
    let told = format!("[-]kind/{KIND}.v1.{} failed: forbidden", test.group);
    let answer = asked.get("/readyz").await;
    assert!(answer.text.contains(&told), "{answer:?}");
    assert_eq!(asked.get("/livez").await.code, 200);
    drop(withdrawn);
    asked.until_well("/readyz").await;
    test.create("a", json!({})).await;
    test.until("it is handled", "a", is_handled).await;
    asked.working.stop().await;
}

/// An index function that waits at the gate.
fn held(gate: &Gate) -> Callback {
    let gate = gate.clone();
    indexer_async("by_name", move |cause| {
        let gate = gate.clone();
        async move {
            gate.pass().await;
            (cause.name().to_owned(), ())
        }
    })
}

async fn an_index_that_is_not_filled_keeps_the_operator_from_being_ready(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    for name in ["a", "b"] {
        test.create(name, json!({})).await;
    }
    let gate = Gate::closed();
    let registry = watching(&test).index(test.selector(), held(&gate));
    let asked = Asked::start(&test, registry).await;
    for objects in [2, 1] {
        let told = format!(
            "[-]index/by_name failed: not filled yet, because its function has still to return for {objects} of the objects of {KIND}.v1.{}\n",
            test.group
        );
        asked.until("/readyz", |answer| answer.text.contains(&told)).await;
        assert_eq!(asked.get("/livez").await.code, 200);
        gate.open(1);
    }
    asked.until_well("/readyz").await;
    let answer = asked.get("/readyz?verbose").await;
    assert!(answer.text.contains("[+]index/by_name ok"), "{answer:?}");
    asked.working.stop().await;
}

async fn an_index_that_cannot_be_filled_is_reported(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let forbidden = server(&test).fault(Fault::answer(403).plural(KIND));
    let gate = Gate::closed();
    gate.open(1);
    let registry = watching(&test)
        .index(test.selector(), held(&gate))
        .index(("example.com", "v1", "absents"), indexer("absents", |_| ((), ())));
    let asked = Asked::start(&test, registry).await;
    let told = format!(
        "[-]index/by_name failed: not filled yet, because {KIND}.v1.{} cannot be listed: forbidden\n",
        test.group
    );
    let absent =
        "[-]index/absents failed: not filled yet, because none of the resources that feed it is served\n";
    asked.until("/readyz", |answer| answer.text.contains(&told) && answer.text.contains(absent)).await;
    drop(forbidden);
    let is_filled = |answer: &Answer| answer.text.contains("[+]index/by_name ok");
    asked.until("/readyz", is_filled).await;
    asked.working.stop().await;
}

async fn a_probe_is_not_begun_when_the_time_is_over(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let calls = Arc::new(AtomicUsize::new(0));
    let registry = watching(&test)
        .on_probe(handler("hangs", |_| async {
            std::future::pending::<()>().await;
            Ok(())
        }))
        .on_probe(counting("late", &calls));
    let settings = Settings::with(|it| it.health.probe_timeout = Duration::from_millis(200));
    let asked = Asked::start_with(&test, registry, settings).await;
    asked.until_well("/readyz").await;
    let answer = asked.get("/healthz").await;
    assert_eq!(
        answer.text,
        "[-]hangs failed: reason withheld\n[-]late failed: reason withheld\nhealthz check failed\n"
    );
    assert_eq!(calls.load(Relaxed), 0);
    test.line("Activity 'late' failed permanently: the probes before it have taken all of the time").await;
    asked.working.stop().await;
}

async fn the_status_is_refused_to_other_machines(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let asked = Asked::start(&test, watching(&test)).await;
    asked.until_well("/readyz").await;
    for host in ["localhost", "127.0.0.1:8080", "[::1]:80", "LOCALHOST:1"] {
        let answer = get_with(asked.port, "/statusz", &format!("Host: {host}")).await;
        assert_eq!(answer.code, 200, "{host}: {answer:?}");
    }
    for head in [
        "Host: operator.default.svc:8080",
        "Host: 10.0.0.7:8080",
        "Host: localhost.example.com",
        "Host: localhost\r\nX-Forwarded-For: 10.0.0.9",
        "Host: localhost\r\nForwarded: for=10.0.0.9",
        "Host: localhost\r\nVia: 1.1 proxy",
        "Host: localhost\r\nx-envoy-internal: true",
    ] {
        let answer = get_with(asked.port, "/statusz", head).await;
        assert_eq!(answer.code, 403, "{head}: {answer:?}");
        assert!(answer.text.contains("use kubectl port-forward"), "{answer:?}");
        // Probes may come from any address.
        assert_eq!(get_with(asked.port, "/livez", head).await.code, 200);
    }
    asked.working.stop().await;
}

async fn the_status_can_be_switched_off(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let settings = Settings::with(|it| it.health.status = false);
    let asked = Asked::start_with(&test, watching(&test), settings).await;
    asked.until_well("/readyz").await;
    assert_eq!(asked.get("/statusz").await.code, 403);
    asked.working.stop().await;
}

async fn the_operators_facts_are_collected_once_a_second(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let registry = Registry::new().on_create(test.selector(), test.waiting("c", &gate));
    let asked = Asked::start(&test, registry).await;
    asked.until_well("/readyz").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let at_work = |answer: Answer| {
        let status: Value = serde_json::from_str(&answer.text).expect("JSON");
        status["queue"]["atWork"].clone()
    };
    assert_eq!(at_work(asked.get("/statusz").await), 0);
    test.create("a", json!({})).await;
    test.calls.until(1).await;
    assert_eq!(at_work(asked.get("/statusz").await), 0, "asked again at once");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(at_work(asked.get("/statusz").await), 1);
    gate.open(1);
    asked.working.stop().await;
}
