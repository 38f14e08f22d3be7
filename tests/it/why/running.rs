//! Explanations of an object's state that include the running operator and Events, and the command line.

use kopf_rs::{Operator, Registry, Settings};
use kopf_rs_apiserver::{Fault, Verb};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use super::{about, evidence, why};
use crate::cli::{ended, operator};
use crate::health::port_in;
use crate::operating::{Gate, KIND, TestOperator, Working};

scenarios! {
    the_running_operator_is_asked [tcp];
    a_kind_that_the_operator_must_not_watch_is_reported [tcp];
    a_lease_without_a_holder_is_reported [tcp];
    an_unreachable_operator_is_reported [tcp];
    events_about_the_object_are_listed [memory];
    the_command_line_explains_with_its_exit_codes [tcp];
}

/// Starts an operator with a liveness endpoint, and returns both.
async fn start(test: &TestOperator, operator: Operator) -> (Working, String) {
    let operator = operator.liveness("http://127.0.0.1:0/healthz");
    let working = Working::start(&test.cluster, operator);
    let port = port_in(&test.line("Serving health status at ").await);
    (working, format!("http://0.0.0.0:{port}/healthz"))
}

async fn the_running_operator_is_asked(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let registry = || Registry::new().on_create(test.selector(), test.waiting("create_fn", &gate));
    let (working, endpoint) = start(&test, test.operator(registry())).await;
    test.create("one", json!({})).await;
    test.calls_until("create_fn one").await;
    let question = || about(&test, "one").endpoint(&endpoint);
    let mut explained = why(&test, test.operator(registry()), question()).await;
    // The endpoint's answer may be up to a second old.
    for _ in 0..30 {
        if explained.verdict() == "running" {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        explained = why(&test, test.operator(registry()), question()).await;
    }
    assert_eq!(explained.verdict(), "running", "{explained}");
    assert!(explained.to_string().contains("create_fn runs, for "), "{explained}");
    assert!(evidence(&explained.to_json()).contains("tester knows the object"));
    gate.open(1);
    test.line("Handler 'create_fn' succeeded.").await;
    working.stop().await;
    assert_eq!(test.calls.all(), ["create_fn one"], "nobody else calls it");
}

async fn a_kind_that_the_operator_must_not_watch_is_reported(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    test.create("one", json!({})).await;
    let server = test.cluster.in_process().expect("it is in the process");
    let forbidden = server.fault(Fault::answer(403).on(Verb::Watch).plural(KIND));
    let and_lists = server.fault(Fault::answer(403).on(Verb::List).plural(KIND));
    let registry = || Registry::new().on_create(test.selector(), test.noting("create_fn"));
    let (working, endpoint) = start(&test, test.operator(registry())).await;
    let mut told = String::new();
    for _ in 0..50 {
        let question = about(&test, "one").endpoint(&endpoint);
        let explained = why(&test, test.operator(registry()), question).await;
        told = explained.to_string();
        if explained.verdict() == "unwatched" {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    assert!(told.contains("the running operator cannot watch "), "{told}");
    assert!(told.contains("forbidden"), "{told}");
    drop((forbidden, and_lists));
    working.kill().await;
}

/// WH4.
async fn a_lease_without_a_holder_is_reported(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    test.create("one", json!({})).await;
    let server = test.cluster.in_process().expect("it is in the process");
    let forbidden = server.fault(Fault::answer(403).plural("leases"));
    let registry = || Registry::new().on_create(test.selector(), test.noting("create_fn"));
    let settings = Settings::with(|it| {
        it.lease.enabled = true;
        it.lease.namespace = Some(test.cluster.namespace().to_owned());
    });
    let (working, endpoint) = start(&test, test.operator(registry()).settings(settings)).await;
    test.line("Handlers are not called, since the Lease").await;
    let question = about(&test, "one").endpoint(&endpoint);
    let explained = why(&test, test.operator(registry()), question).await;
    let told = explained.to_string();
    assert_eq!(explained.verdict(), "no-holder", "{told}");
    let expected = format!("no instance holds the Lease {}/tester", test.cluster.namespace());
    assert!(told.contains(&expected), "{told}");
    drop(forbidden);
    working.kill().await;
}

async fn an_unreachable_operator_is_reported(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    test.create("one", json!({})).await;
    let free = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
    let port = free.local_addr().expect("it has an address").port();
    drop(free);
    let registry = || Registry::new().on_create(test.selector(), test.noting("create_fn"));
    for (endpoint, text) in [
        (format!("http://127.0.0.1:{port}/healthz"), "nobody can be asked at 127.0.0.1:"),
        ("no url".to_owned(), "`no url` is no URL"),
    ] {
        let question = about(&test, "one").endpoint(&*endpoint);
        let explained = why(&test, test.operator(registry()), question).await;
        assert_eq!(explained.verdict(), "due", "{explained}");
        assert!(evidence(&explained.to_json()).contains(text), "{explained}");
    }
}

async fn events_about_the_object_are_listed(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let object = test.create("one", json!({})).await;
    let other = test.create("two", json!({})).await;
    for (name, about, note) in [("a", &object, "the disk is full"), ("b", &other, "of another")] {
        let event = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": name, "namespace": test.cluster.namespace()},
            "involvedObject": {
                "apiVersion": about["apiVersion"], "kind": about["kind"], "name": about["metadata"]["name"],
                "namespace": test.cluster.namespace(), "uid": about["metadata"]["uid"],
            },
            "type": "Warning", "reason": "Failed", "message": note, "count": 3,
            "lastTimestamp": "2026-01-02T03:04:05Z", "source": {"component": "kubelet"},
        });
        test.cluster.create(&event).await;
    }
    let registry = Registry::new().on_create(test.selector(), test.noting("create_fn"));
    let explained = why(&test, test.operator(registry), about(&test, "one")).await;
    let told = evidence(&explained.to_json());
    assert!(
        told.contains("Warning Failed by kubelet at 2026-01-02T03:04:05Z, 3 times: the disk is full"),
        "{told}"
    );
    assert!(!told.contains("of another"), "{told}");
}

async fn the_command_line_explains_with_its_exit_codes(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    let config =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"do": "fail"}});
    test.cluster.create(&config).await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one"}});
    test.cluster.create(&secret).await;
    let kubeconfig = test.cluster.kubeconfig().to_str().expect("a path in Unicode");
    let asked = async |args: &[&str]| {
        let given = ["-n", test.cluster.namespace(), "--kubeconfig", kubeconfig];
        ended(operator("obey", &[args, &given].concat())).await
    };
    let due = asked(&["--why", "configmaps/one"]).await;
    due.with(
        0,
        &[
            "its handlers are to be called now, for create",
            "[running operator] unknown: --liveness names the running operator to ask",
        ],
    );
    let json = asked(&["--why", "configmaps/one", "-o", "json", "--if", "data.do=nothing"]).await;
    json.with(0, &["\"verdict\": \"due\"", "\"ifChanged\": {"]);
    asked(&["--why", "secrets/one"]).await.with(0, &["no handler is for objects of its kind"]);
    asked(&["--why", "configmaps/two"]).await.with(1, &["there is no such object"]);
    asked(&["--why", "gizmos/two"]).await.with(1, &["the cluster serves no kind `gizmos`"]);
    asked(&["--why", "configmaps"]).await.with(2, &["expected KIND/NAME"]);
    asked(&["--why", "configmaps/one", "--if", "size"]).await.with(2, &["expected FIELD=VALUE"]);
    let unchanged = test.cluster.get("configmaps", "one").await.expect("it is there");
    assert_eq!(unchanged["metadata"]["annotations"], Value::Null, "nothing is written");
}
