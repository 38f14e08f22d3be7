//! The health of an operator over HTTP: probes of users, `/livez`, `/readyz`, `/statusz`.

mod troubles;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use kopf_rs::{
    Callback, Operator, OperatorError, PermanentError, Registry, Settings, TemporaryError, handler,
    handler_blocking, indexer, indexer_async,
};
use kopf_rs_apiserver::{ApiServer, Fault, Verb};
use kopf_rs_tests::{TestCluster, scenarios, subscriber};
use serde_json::{Value, json};

use crate::operating::{Gate, KIND, TestOperator, Working, is_handled};

scenarios! {
    probes_are_answered_at_the_liveness_url;
    without_probes_the_answer_is_empty [memory];
    results_of_probes_are_kept_for_ten_seconds [memory];
    a_failed_probe_fails_the_answer_immediately [memory];
    a_probe_that_hangs_fails_in_time_and_is_not_called_again [tcp];
    an_operator_is_not_ready_before_its_startup_handlers_have_ended [memory];
    a_watch_that_is_frozen_is_reported [memory];
    an_object_that_waits_for_too_long_is_reported [memory];
    a_kind_that_may_not_be_watched_is_not_ready [memory];
    a_kind_of_children_that_may_not_be_watched_is_not_ready [memory];
    a_kind_that_is_gone_is_an_error_and_not_ready_until_it_is_back [memory];
    a_kind_that_is_not_served_is_not_ready [memory];
    an_operator_reports_that_its_own_thread_is_blocked [tcp];
    the_status_shows_the_operators_activity [memory];
    a_liveness_url_that_cannot_be_served_is_refused [memory];
    silent_sockets_block_no_other_client [tcp];
    rules_that_are_not_enforced_are_reported [memory];
    a_foreign_policy_is_reported [memory];
}

/// The response of an endpoint.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    /// The status line and the headers.
    pub(crate) head: String,
    pub(crate) kind: String,
    pub(crate) text: String,
}

/// An operator with a health endpoint.
struct Asked<'a> {
    test: &'a TestOperator,
    working: Working,
    port: u16,
}

impl<'a> Asked<'a> {
    async fn start(test: &'a TestOperator, registry: Registry) -> Self {
        Self::start_with(test, registry, Settings::default()).await
    }

    async fn start_with(test: &'a TestOperator, registry: Registry, settings: Settings) -> Self {
        let operator = test.operator(registry).settings(settings);
        let operator = operator.liveness("http://127.0.0.1:0/healthz");
        let working = Working::start(&test.cluster, operator);
        let line = test.line("Serving health status at ").await;
        Self { test, working, port: port_in(&line) }
    }

    /// Sends a request; virtual time does not advance meanwhile.
    async fn get(&self, path: &str) -> Answer {
        get(self.port, path).await
    }

    async fn until(&self, path: &str, condition: impl Fn(&Answer) -> bool) -> Answer {
        for _ in 0..1000 {
            let answer = self.get(path).await;
            if condition(&answer) {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let lines = self.test.cluster.lines().all().join("\n");
        panic!("{path}: {:?}; lines:\n{lines}", self.get(path).await);
    }

    async fn until_well(&self, path: &str) {
        self.until(path, |answer| answer.code == 200).await;
    }
}

/// Returns the port in the URL of a line.
pub(crate) fn port_in(line: &str) -> u16 {
    let rest = line.split("http://127.0.0.1:").nth(1).expect("a URL");
    let port = rest.split('/').next().expect("a port");
    port.parse().expect("a number")
}

/// Sends a request to a local port.
pub(crate) async fn get(port: u16, path: &str) -> Answer {
    get_with(port, path, "Host: localhost").await
}

/// Sends a request with these headers.
pub(crate) async fn get_with(port: u16, path: &str, head: &str) -> Answer {
    ask(port, &format!("GET {path}"), head).await
}

/// Sends a request with this method, path and headers.
pub(crate) async fn ask(port: u16, what: &str, head: &str) -> Answer {
    let asked = format!("{what} HTTP/1.1\r\n{head}\r\n\r\n");
    let answer = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("somebody listens");
        stream.write_all(asked.as_bytes()).expect("it is read");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("it is answered");
        text
    });
    let answer = answer.await.expect("the request does not panic");
    let (head, text) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let code = head.split(' ').nth(1).expect("a status code");
    let kind = head.lines().find_map(|it| it.strip_prefix("content-type: "));
    Answer {
        code: code.parse().expect("a number"),
        head: head.to_owned(),
        kind: kind.unwrap_or_default().to_owned(),
        text: text.to_owned(),
    }
}

fn server(test: &TestOperator) -> &ApiServer {
    let server = test.cluster.in_process();
    server.expect("this server is in the process")
}

/// A probe that returns its number of calls.
fn counting(id: &str, calls: &Arc<AtomicUsize>) -> Callback {
    let calls = calls.clone();
    handler(id, move |_| {
        let count = calls.fetch_add(1, Relaxed) + 1;
        async move { Ok(count) }
    })
}

fn watching(test: &TestOperator) -> Registry {
    Registry::new().on_create(test.selector(), test.noting("create_fn"))
}

async fn probes_are_answered_at_the_liveness_url(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = watching(&test)
        .on_probe(handler("now", |_| async { Ok(json!({"of": 2})) }))
        .on_probe(handler("nothing", |_| async { Ok(()) }))
        .on_probe(handler_blocking("count", |_, _| Ok(3)));
    let asked = Asked::start(&test, registry).await;
    let answer = asked.until("/healthz", |answer| answer.code == 200).await;
    assert_eq!(answer.kind, "application/json; charset=utf-8");
    assert_eq!(answer.text, r#"{"count":3,"now":{"of":2}}"#);
    assert_eq!(asked.get("/healthy").await.code, 404);
    let verbose = asked.get("/healthz?verbose").await;
    let expected = "[+]now ok\n[+]nothing ok\n[+]count ok\nhealthz check passed\n";
    assert_eq!(verbose.text, expected);
    asked.working.stop().await;
}

async fn without_probes_the_answer_is_empty(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let asked = Asked::start(&test, watching(&test)).await;
    let answer = asked.until("/healthz", |answer| answer.code == 200).await;
    assert_eq!(answer.text, "{}");
    asked.working.stop().await;
}

async fn results_of_probes_are_kept_for_ten_seconds(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let calls = Arc::new(AtomicUsize::new(0));
    let registry = watching(&test).on_probe(counting("count", &calls));
    let asked = Asked::start(&test, registry).await;
    asked.until_well("/readyz").await;
    for (pause, expected) in [(0, 1), (5, 1), (6, 2)] {
        tokio::time::sleep(Duration::from_secs(pause)).await;
        let answer = asked.get("/healthz").await;
        assert_eq!(answer.text, format!(r#"{{"count":{expected}}}"#));
    }
    asked.working.stop().await;
}

async fn a_failed_probe_fails_the_answer_immediately(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let calls = Arc::new(AtomicUsize::new(0));
    let registry = watching(&test)
        .on_probe(handler("bad", |_| async {
            Err::<(), _>(PermanentError::new("the password is 1234").into())
        }))
        .on_probe(handler("later", |_| async {
            Err::<(), _>(TemporaryError::new("not yet").delay(2).into())
        }))
        .on_probe(handler("odd", |_| async { Err::<(), _>("odd".into()) }))
        .on_probe(counting("good", &calls));
    let asked = Asked::start(&test, registry).await;
    asked.until_well("/readyz").await;
    for _ in 0..2 {
        let answer = asked.get("/healthz").await;
        assert_eq!(answer.code, 500);
        assert_eq!(
            answer.text,
            "[-]bad failed: reason withheld\n[-]later failed: reason withheld\n[-]odd failed: reason withheld\n[+]good ok\nhealthz check failed\n"
        );
    }
    assert_eq!(calls.load(Relaxed), 2, "a failure is not kept");
    for line in [
        "Activity 'bad' failed permanently: the password is 1234",
        "Activity 'later' failed temporarily: not yet",
        "Activity 'odd' failed with an exception and will stop now: odd",
    ] {
        test.line(line).await;
    }
    assert_eq!(asked.get("/livez").await.code, 200, "the operator lives");
    asked.working.stop().await;
}

async fn a_probe_that_hangs_fails_in_time_and_is_not_called_again(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let calls = Arc::new(AtomicUsize::new(0));
    let (release, held) = std::sync::mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    let noted = calls.clone();
    let registry = watching(&test).on_probe(handler_blocking("stuck", move |_, _| {
        noted.fetch_add(1, Relaxed);
        // Blocks until the sender releases it or is dropped at the end of the test.
        let _ = held.lock().map(|held| held.recv());
        Ok(())
    }));
    let settings = Settings::with(|it| it.health.probe_timeout = Duration::from_millis(200));
    let asked = Asked::start_with(&test, registry, settings).await;
    asked.until_well("/readyz").await;
    for _ in 0..3 {
        let answer = asked.get("/healthz").await;
        assert_eq!(answer.code, 500, "{answer:?}");
    }
    assert_eq!(calls.load(Relaxed), 1);
    test.line("Activity 'stuck' has timed out after").await;
    test.line("its former call has not ended yet").await;
    release.send(()).expect("the probe waits");
    release.send(()).expect("the next call does not wait");
    asked.until_well("/healthz").await;
    assert_eq!(calls.load(Relaxed), 2);
    asked.working.stop().await;
}

async fn an_operator_is_not_ready_before_its_startup_handlers_have_ended(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let registry = watching(&test).on_startup(test.waiting("startup_fn", &gate));
    let asked = Asked::start(&test, registry).await;
    test.calls.until(1).await;
    assert_eq!(asked.get("/livez").await.text, "ok");
    assert_eq!(asked.get("/healthz").await.code, 503);
    let answer = asked.get("/readyz").await;
    assert_eq!(answer.code, 500);
    assert!(answer.text.contains("[-]startup failed: startup handlers are called"), "{answer:?}");
    gate.open(1);
    asked.until_well("/readyz").await;
    test.line("/readyz passes.").await;
    asked.until_well("/healthz").await;
    asked.working.stop().await;
}

async fn a_watch_that_is_frozen_is_reported(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let asked = Asked::start(&test, watching(&test)).await;
    asked.until_well("/readyz").await;
    // The server sends bookmarks, so an idle watch counts as healthy.
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert_eq!(asked.get("/livez").await.code, 200);
        assert_eq!(asked.get("/readyz").await.code, 200);
    }
    let frozen = server(&test).fault(Fault::stall());
    tokio::time::sleep(Duration::from_secs(71)).await;
    let answer = asked.get("/readyz").await;
    assert!(answer.text.contains("failed: silent"), "{answer:?}");
    assert_eq!(asked.get("/livez").await.code, 200);
    tokio::time::sleep(Duration::from_secs(70)).await;
    let answer = asked.get("/livez").await;
    assert_eq!(answer.code, 500);
    assert!(
        answer.text.contains(&format!("[-]watches failed: nothing has come from the watch of {KIND}.v1")),
        "{answer:?}"
    );
    test.line("/livez fails: watches (nothing has come").await;
    drop(frozen);
    test.create("a", json!({})).await;
    asked.until_well("/livez").await;
    asked.until_well("/readyz").await;
    test.line("/livez passes.").await;
    test.until("it is handled", "a", is_handled).await;
    asked.working.stop().await;
}

async fn an_object_that_waits_for_too_long_is_reported(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let slow = test.waiting("slow_fn", &gate);
    let registry =
        Registry::new().on_create(test.selector(), slow).on_update(test.selector(), test.noting("update_fn"));
    let settings = Settings::with(|it| {
        it.health.late_after = Duration::from_secs(60);
        it.health.stuck_after = Duration::from_secs(120);
    });
    let asked = Asked::start_with(&test, registry, settings).await;
    test.create("a", json!({})).await;
    test.calls.until(1).await;
    // A handler that runs for a long time is not a problem by itself.
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(asked.get("/readyz").await.code, 200);
    test.patch("a", json!({"spec": {"size": 1}})).await;
    tokio::time::sleep(Duration::from_secs(61)).await;
    let answer = asked.get("/readyz").await;
    let told = "its handler 'slow_fn' has been running for 661 seconds";
    assert!(answer.text.contains("[-]queue failed: "), "{answer:?}");
    assert!(answer.text.contains(told), "{answer:?}");
    assert_eq!(asked.get("/livez").await.code, 200);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let answer = asked.get("/livez").await;
    assert_eq!(answer.code, 500, "{answer:?}");
    gate.open(1);
    asked.until_well("/livez").await;
    asked.until_well("/readyz").await;
    asked.working.stop().await;
}

async fn a_kind_that_may_not_be_watched_is_not_ready(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let forbidden = server(&test).fault(Fault::answer(403).plural(KIND));
    let asked = Asked::start(&test, watching(&test)).await;
    let told = format!("[-]kind/{KIND}.v1.{} failed: forbidden", test.group);
    asked.until("/readyz", |answer| answer.text.contains(&told)).await;
    assert_eq!(asked.get("/livez").await.code, 200, "a new start mends nothing");
    let others = format!("/readyz?exclude=kind/{KIND}.v1.{}", test.group);
    assert_eq!(asked.get(&others).await.text, "ok");
    drop(forbidden);
    asked.until_well("/readyz").await;
    asked.working.stop().await;
}

async fn a_kind_of_children_that_may_not_be_watched_is_not_ready(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let forbidden = server(&test).fault(Fault::answer(403).plural("configmaps"));
    let keeping = test.noting("keep").owns("configmaps");
    let registry = Registry::new().reconcile(test.selector(), keeping);
    let asked = Asked::start(&test, registry).await;
    let told = "[-]kind/configmaps.v1 failed: forbidden";
    asked.until("/readyz", |answer| answer.text.contains(told)).await;
    assert_eq!(asked.get("/livez").await.code, 200);
    let status = asked.get("/statusz").await;
    let status: Value = serde_json::from_str(&status.text).expect("it is JSON");
    let watches = status["watches"].as_array().expect("a list");
    let is_forbidden = |it: &&Value| it["resource"] == "configmaps.v1" && it["state"] == "forbidden";
    assert!(watches.iter().any(|it| is_forbidden(&it)), "{status}");
    drop(forbidden);
    asked.until_well("/readyz").await;
    asked.working.stop().await;
}

async fn a_kind_that_is_not_served_is_not_ready(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    let asked = Asked::start(&test, watching(&test)).await;
    asked.until("/readyz", |answer| answer.text.contains("failed: not served")).await;
    assert_eq!(asked.get("/livez").await.code, 200);
    test.serve().await;
    asked.until_well("/readyz").await;
    asked.working.stop().await;
}

async fn a_kind_that_is_gone_is_an_error_and_not_ready_until_it_is_back(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let asked = Asked::start(&test, watching(&test)).await;
    asked.until_well("/readyz").await;
    test.cluster.delete("customresourcedefinitions.apiextensions.k8s.io", &test.kind()).await;
    let is_told = |answer: &Answer| answer.code != 200 && answer.text.contains("failed: not served");
    asked.until("/readyz", is_told).await;
    assert_eq!(asked.get("/livez").await.code, 200, "a new start mends nothing");
    let told = format!("The API server does not serve {KIND}.v1.{} any more", test.group);
    let line = test.line(&told).await;
    assert!(line.contains("ERROR"), "{line}");
    test.serve().await;
    asked.until_well("/readyz").await;
    assert_eq!(test.cluster.lines().count(|line| line.contains(&told)), 1);
    asked.working.stop().await;
}

async fn an_operator_reports_that_its_own_thread_is_blocked(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let (release, held) = std::sync::mpsc::channel::<()>();
    let held = Arc::new(std::sync::Mutex::new(held));
    // Blocks without an await: an operator inside a user's program has no second thread.
    let registry = Registry::new().on_create(
        test.selector(),
        test.handler("blocking_fn", move |_| {
            let held = held.clone();
            async move {
                let _ = held.lock().map(|held| held.recv());
                Ok(Value::Null)
            }
        }),
    );
    let settings = Settings::with(|it| it.health.beat_timeout = Duration::from_millis(500));
    let operator = test.operator(registry).settings(settings);
    let operator = operator.liveness("http://127.0.0.1:0/healthz");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let lines = test.cluster.lines().clone();
    let client = test.cluster.client();
    let thread = std::thread::spawn(move || {
        let _lines = tracing::subscriber::set_default(subscriber(&lines));
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().expect("a runtime");
        runtime.block_on(operator.run(client, stopped))
    });
    let port = port_in(&test.line("Serving health status at ").await);
    assert_eq!(get(port, "/livez").await.text, "ok");
    test.create("a", json!({})).await;
    test.calls.until(1).await;
    for path in ["/livez", "/readyz", "/healthz", "/statusz"] {
        let answer = get(port, path).await;
        assert_eq!(answer.code, 500, "{path}: {answer:?}");
        assert!(
            answer.text.contains("the operator's own thread is blocked: no answer for"),
            "{path}: {answer:?}"
        );
    }
    release.send(()).expect("the handler waits");
    test.until("it is handled", "a", is_handled).await;
    assert_eq!(get(port, "/livez").await.text, "ok");
    drop(stop);
    let ended = tokio::task::spawn_blocking(move || thread.join()).await;
    let ended = ended.expect("a join").expect("the operator does not panic");
    ended.expect("the operator ends well");
}

async fn the_status_shows_the_operators_activity(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let registry = Registry::new()
        .on_create(test.selector(), test.waiting("slow_fn", &gate))
        .on_event(test.selector(), handler("event_fn", |_| async { Err::<(), _>("odd".into()) }))
        .daemon(
            test.selector(),
            handler("daemon_fn", |cause: kopf_rs::Context| async move {
                if let Some(stopped) = cause.stopped() {
                    stopped.wait().await;
                }
                Ok(())
            }),
        );
    let asked = Asked::start(&test, registry).await;
    test.create("a", json!({})).await;
    test.calls.until(1).await;
    let is_running = |answer: &Answer| answer.text.contains("daemon_fn");
    let answer = asked.until("/statusz", is_running).await;
    assert_eq!(answer.kind, "application/json; charset=utf-8");
    let status: Value = serde_json::from_str(&answer.text).expect("JSON");
    assert_eq!(status["operator"], "tester");
    assert_eq!(status["phase"], "serving");
    assert_eq!(status["live"], json!({"ok": true, "failing": []}));
    assert_eq!(status["watches"][0]["state"], "synced");
    assert_eq!(status["queue"]["objects"], 1);
    let named = format!("{}/a", test.cluster.namespace());
    let call = &status["handlersInFlight"][0];
    assert_eq!((&call["handler"], &call["object"]), (&json!("slow_fn"), &json!(named)));
    let daemon = &status["daemonsAndTimersInFlight"][0];
    assert_eq!(daemon["handler"], "daemon_fn");
    assert_eq!(daemon["object"], named.as_str());
    let error = &status["lastErrors"][0];
    assert_eq!(error["object"], named.as_str());
    let line = error["line"].as_str().expect("a line");
    assert!(line.starts_with("Handler 'event_fn' failed"), "{line}");
    gate.open(1);
    asked.working.stop().await;
}

async fn a_liveness_url_that_cannot_be_served_is_refused(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let started = |url: &str| {
        let registry = watching(&test).on_startup(test.noting("startup_fn"));
        let operator: Operator = test.operator(registry).liveness(url);
        Working::start(&test.cluster, operator).end()
    };
    let ended = started("https://127.0.0.1:8080/healthz").await;
    let error = ended.expect_err("it has not started");
    assert!(matches!(error, OperatorError::Liveness(_)), "{error}");
    assert!(error.to_string().contains("only http is served"), "{error}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("it is bound").port();
    let ended = started(&format!("http://127.0.0.1:{port}/healthz")).await;
    let error = ended.expect_err("it has not started");
    assert!(matches!(error, OperatorError::Endpoint(_)), "{error}");
    assert!(error.to_string().contains("choose another port"), "{error}");
    assert_eq!(test.calls.all(), Vec::<String>::new());
}

async fn silent_sockets_block_no_other_client(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let asked = Asked::start(&test, watching(&test)).await;
    asked.until_well("/livez").await;
    let dial = || TcpStream::connect(("127.0.0.1", asked.port)).expect("somebody listens");
    let silent: Vec<_> = (0..200).map(|_| dial()).collect();
    // The server closes idle connections only after five seconds, so the answer must come earlier.
    let answer = tokio::time::timeout(Duration::from_secs(5), asked.get("/livez")).await;
    assert_eq!(answer.expect("it waits for silent ones").code, 200);
    drop(silent);
    asked.working.stop().await;
}

async fn a_foreign_policy_is_reported(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let name = "rule.tester.kopf.rs";
    let rule =
        json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nodes"]});
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
        "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "true"}]},
    });
    test.cluster.create(&policy).await;
    let rule = kopf_rs::ValidationRule::new("rule", "request.userInfo.username != 'nobody'");
    let registry = watching(&test).validation_rule(test.selector(), rule);
    let asked = Asked::start(&test, registry).await;
    let told = asked.until("/readyz", |it| it.text.contains("rules failed")).await;
    assert_eq!(told.code, 500);
    let why = format!("ValidatingAdmissionPolicy {name} is there already");
    assert!(told.text.contains(&why), "{told:?}");
    test.cluster.delete(policies, name).await;
    // No event announces the deletion, so the operator must check again by itself.
    asked.until_well("/readyz").await;
    asked.working.stop().await;
}

async fn rules_that_are_not_enforced_are_reported(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let missing = Fault::answer(404).plural("validatingadmissionpolicies");
    let missing = server(&test).fault(missing);
    let rule = kopf_rs::ValidationRule::new("rule", "request.userInfo.username != 'nobody'");
    let registry = watching(&test).validation_rule(test.selector(), rule);
    let asked = Asked::start(&test, registry).await;
    let told = asked.until("/readyz", |it| it.text.contains("rules failed")).await;
    assert_eq!(told.code, 500);
    assert!(told.text.contains("validation rules are not enforced: "), "{told:?}");
    assert!(told.text.contains("v1beta1"), "{told:?}");
    missing.clear();
    asked.until_well("/readyz").await;
    asked.working.stop().await;
}
