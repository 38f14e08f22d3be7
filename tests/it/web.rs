//! The web page of an operator: its contents under a failing handler, and the requests that it refuses.

mod browser;

use kopf_rs::{Operator, Registry, TemporaryError};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use crate::health::{Answer, ask, get, get_with, port_in};
use crate::operating::{Gate, TestOperator, Working};

scenarios! {
    the_page_shows_a_failing_handler_and_why_its_object_waits [memory];
    the_page_is_for_this_machine_and_this_origin_only [memory];
    without_the_page_no_port_is_open [memory];
}

/// The message of a failure that would be markup.
const EVIL: &str = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">";

/// An operator with the page.
struct Shown<'a> {
    test: &'a TestOperator,
    working: Working,
    port: u16,
}

impl<'a> Shown<'a> {
    async fn start(test: &'a TestOperator, registry: Registry) -> Self {
        let operator: Operator = test.operator(registry).web(0);
        let working = Working::start(&test.cluster, operator);
        let port = port_in(&test.line("Serving the web page at ").await);
        Self { test, working, port }
    }

    /// Requests the path until the answer contains the text.
    async fn until(&self, path: &str, text: &str) -> Answer {
        for _ in 0..1000 {
            let answer = get(self.port, path).await;
            if answer.text.contains(text) {
                return answer;
            }
            // The facts of an answer may be a second old.
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        let lines = self.test.cluster.lines().all().join("\n");
        panic!("{path} never contains {text}: {:?}; lines:\n{lines}", get(self.port, path).await);
    }

    /// Returns the path of an object's page.
    fn path_of(&self, page: &str, name: &str) -> String {
        let (kind, namespace) = (self.test.kind(), self.test.cluster.namespace());
        format!("/{page}?kind={kind}&namespace={namespace}&name={name}")
    }
}

/// Returns a handler that fails with [`EVIL`], one that waits at the gate, and one with children.
fn failing(test: &TestOperator, gate: &Gate) -> Registry {
    let failing = test.handler("failing_fn", |_| async { Err(TemporaryError::new(EVIL).delay(600).into()) });
    Registry::new()
        .on_create(test.selector(), failing)
        .on_create(test.selector(), test.waiting("slow_fn", gate))
        .reconcile(test.selector(), test.noting("reconcile_fn").owns("configmaps"))
}

async fn the_page_shows_a_failing_handler_and_why_its_object_waits(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let shown = Shown::start(&test, failing(&test, &gate)).await;
    test.create("a", json!({})).await;
    test.calls_until("slow_fn a").await;
    shown.until("/", "slow_fn</td>").await;
    gate.open(1);
    let page = shown.until("/", "<caption id=\"retries-table\">").await;
    assert_eq!((page.code, &*page.kind), (200, "text/html; charset=utf-8"));
    let named = format!("{}/a", test.cluster.namespace());
    for text in [
        "<h1>tester</h1>",
        "&lt;script&gt;document.title=&#39;owned&#39;&lt;/script&gt;&lt;img",
        &format!(">{named}</a>"),
        &test.kind(),
        "failing_fn handles ",
        "reconcile_fn handles ",
        ", owns configmaps.",
    ] {
        assert!(page.text.contains(text), "{text} is missing: {}", page.text);
    }
    assert!(!page.text.contains(EVIL));

    let status: Value = serde_json::from_str(&get(shown.port, "/status.json").await.text).expect("JSON");
    let waiting = &status["handlersWaiting"][0];
    assert_eq!((&waiting["handler"], &waiting["object"]), (&json!("failing_fn"), &json!(named)));
    let left = waiting["inSeconds"].as_f64().expect("a number");
    assert!((1.0..=600.0).contains(&left), "{status}");
    assert_eq!(status["handlers"][2]["owns"], json!(["configmaps"]));
    assert_eq!(status["handlers"][0]["kinds"], json!([test.kind()]));

    let object = shown.until(&shown.path_of("object", "a"), "<strong>waiting</strong>").await;
    for text in
        ["failing_fn", "running operator", "Handler &#39;slow_fn&#39; succeeded.", "Overview of tester"]
    {
        assert!(object.text.contains(text), "{text} is missing: {}", object.text);
    }
    assert!(!object.text.contains(EVIL));
    let explained = get(shown.port, &shown.path_of("object.json", "a")).await;
    let explained: Value = serde_json::from_str(&explained.text).expect("JSON");
    assert_eq!(explained["explanation"]["verdict"], "waiting", "{explained}");
    let none = get(shown.port, &shown.path_of("object", "b")).await;
    assert!(none.text.contains("<strong>not-found</strong>"), "{none:?}");
    let odd = get(shown.port, "/object?kind=a&name=..%2Fb").await;
    assert!(odd.text.contains("expected letters, digits"), "{odd:?}");

    test.delete("a").await;
    shown.until("/", "No handler waits for another attempt.").await;
    shown.working.stop().await;
}

async fn the_page_is_for_this_machine_and_this_origin_only(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let shown = Shown::start(&test, failing(&test, &Gate::closed())).await;
    let own = format!("Host: localhost:{}", shown.port);
    for path in ["/", "/status.json", "/page.css", "/page.js", "/object?kind=a&name=b", "/nothing"] {
        let answer = get_with(shown.port, path, &own).await;
        assert_eq!(answer.code, if path == "/nothing" { 404 } else { 200 }, "{path}: {answer:?}");
        for header in [
            "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self';",
            "x-content-type-options: nosniff",
            "cross-origin-resource-policy: same-origin",
        ] {
            assert!(answer.head.contains(header), "{path}: {answer:?}");
        }
        for head in [
            "Host: evil.example.com".to_owned(),
            format!("{own}\r\nX-Forwarded-For: 10.0.0.9"),
            format!("{own}\r\nOrigin: http://evil.example.com"),
            format!("{own}\r\nSec-Fetch-Site: cross-site"),
        ] {
            assert_eq!(get_with(shown.port, path, &head).await.code, 403, "{path}: {head}");
        }
        let posted = ask(shown.port, &format!("POST {path}"), &format!("{own}\r\nContent-Length: 0")).await;
        assert_eq!(posted.code, 405, "{path}");
    }
    shown.working.stop().await;
}

async fn without_the_page_no_port_is_open(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let working = test.start(failing(&test, &Gate::closed()));
    test.create("a", json!({})).await;
    test.calls_until("failing_fn a").await;
    let lines = test.cluster.lines().all().join("\n");
    for served in ["Serving the web page", "Serving health status"] {
        assert!(!lines.contains(served), "{lines}");
    }
    working.stop().await;
}
