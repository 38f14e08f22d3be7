//! Prometheus metrics, from the view of a scraper.

mod alerts;
mod prometheus;

use std::collections::BTreeMap;
use std::time::Duration;

use kopf_rs::{
    HandlerError, HandlerResult, Metrics, Operator, OperatorError, PermanentError, Registry, Settings,
    TemporaryError, handler, handler_blocking, indexer, indexer_async,
};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use crate::health::{Answer, get_with, port_in};
use crate::operating::{Gate, TestOperator, Working, is_handled};

scenarios! {
    figures_are_written_in_the_format_that_is_asked_for [memory];
    activities_of_an_operator_are_counted;
    retries_and_failures_of_all_kinds_of_handlers_are_counted [memory];
    current_values_of_an_operator_are_read [memory];
    more_objects_make_no_more_series [memory];
    a_scrape_is_whole_from_the_start_to_the_stop [memory];
    of_two_instances_one_is_shown_at_work [memory];
    metrics_may_share_the_port_of_the_liveness_endpoint [tcp];
    figures_of_users_are_written_beside [memory];
    a_call_that_blocks_its_thread_is_counted [tcp];
    an_address_that_cannot_be_used_is_refused [memory];
}

pub(crate) const OPEN: &str = "application/openmetrics-text; version=1.0.0";

/// An operator with a metrics endpoint.
struct Scraped<'a> {
    test: &'a TestOperator,
    working: Working,
    port: u16,
}

/// Series by name and labels, with their values; whole numbers have no fraction.
pub(crate) type Figures = BTreeMap<String, String>;

impl<'a> Scraped<'a> {
    async fn start(test: &'a TestOperator, registry: Registry) -> Self {
        Self::start_of(test, test.operator(registry)).await
    }

    async fn start_of(test: &'a TestOperator, operator: Operator) -> Self {
        let working = Working::start(&test.cluster, operator.metrics("127.0.0.1:0"));
        let port = port_in(&test.line("Serving metrics at ").await);
        Self { test, working, port }
    }

    async fn figures(&self) -> Figures {
        figures(&scrape(self.port, OPEN).await.text)
    }

    /// Waits until this series has this value.
    async fn until(&self, series: &str, value: impl ToString) -> Figures {
        let value = value.to_string();
        for _ in 0..1000 {
            let figures = self.figures().await;
            if figures.get(series) == Some(&value) {
                return figures;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let text = scrape(self.port, OPEN).await.text;
        let name = series.split('{').next().unwrap_or_default();
        let near: Vec<_> = text.lines().filter(|it| it.contains(name)).collect();
        panic!("{series} is never {value}:\n{}", near.join("\n"));
    }

    fn resource(&self) -> String {
        format!("kopfexamples.{}", self.test.group)
    }
}

pub(crate) async fn scrape(port: u16, accept: &str) -> Answer {
    let head = format!("Host: localhost\r\nAccept: {accept}");
    get_with(port, "/metrics", &head).await
}

pub(crate) fn figures(text: &str) -> Figures {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let sample = |line: &str| {
        let (series, value) = line.rsplit_once(' ').expect("a series and a value");
        let value = value.strip_suffix(".0").unwrap_or(value);
        (series.to_owned(), value.to_owned())
    };
    samples.map(sample).collect()
}

fn number(written: &str) -> f64 {
    written.parse().expect("a number")
}

fn attempts(handler: &str, outcome: &str) -> String {
    format!("kopf_rs_handler_attempts_total{{handler=\"{handler}\",reason=\"create\",outcome=\"{outcome}\"}}")
}

/// A handler that fails once for each object.
fn failing_once(test: &TestOperator) -> Registry {
    let create = handler("create_fn", |context: kopf_rs::Context| async move {
        if context.retry() == 0 {
            return Err(TemporaryError::new("not yet").delay(1).into());
        }
        Ok(())
    });
    Registry::new().on_create(test.selector(), create)
}

async fn figures_are_written_in_the_format_that_is_asked_for(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let scraped = Scraped::start(&test, failing_once(&test)).await;
    // Series appear while the operator starts.
    scraped.until("kopf_rs_active", 1).await;
    let open = scrape(scraped.port, OPEN).await;
    assert_eq!(open.code, 200);
    assert_eq!(open.kind, "application/openmetrics-text; version=1.0.0; charset=utf-8");
    assert!(open.text.ends_with("\n# EOF\n"));
    assert!(open.text.contains("# TYPE kopf_rs_handler_attempts counter\n"));
    assert!(open.text.contains("# UNIT kopf_rs_handler_duration_seconds seconds\n"));
    let plain = scrape(scraped.port, "text/plain").await;
    assert_eq!(plain.kind, "text/plain; version=0.0.4; charset=utf-8");
    assert!(!plain.text.contains("# EOF") && !plain.text.contains("# UNIT"));
    assert!(plain.text.contains("# TYPE kopf_rs_handler_attempts_total counter\n"));
    for text in [&open.text, &plain.text] {
        assert!(!text.contains("_total_total"), "{text}");
    }
    let names = |text: &str| figures(text).into_keys().collect::<Vec<_>>();
    let mut both = [names(&open.text), names(&plain.text)];
    // New series may appear between two scrapes while the operator starts.
    for _ in 0..100 {
        if both[0] == both[1] {
            break;
        }
        let open = scrape(scraped.port, OPEN).await;
        let plain = scrape(scraped.port, "text/plain").await;
        both = [names(&open.text), names(&plain.text)];
    }
    assert_eq!(both[0], both[1]);
    let lost = get_with(scraped.port, "/livez", "Host: localhost").await;
    assert_eq!(lost.code, 404, "the port of metrics is for metrics alone");
    scraped.working.stop().await;
}

async fn activities_of_an_operator_are_counted(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let scraped = Scraped::start(&test, failing_once(&test)).await;
    let first = scraped.until("kopf_rs_active", 1).await;
    let failures = "kopf_rs_handler_failures_total{handler=\"create_fn\"}";
    for series in [&*attempts("create_fn", "temporary"), &*attempts("create_fn", "error"), failures] {
        assert_eq!(first[series], "0", "{series}");
    }
    test.create("one", json!({})).await;
    scraped.until(&attempts("create_fn", "success"), 1).await;
    scraped.until(&attempts("create_fn", "temporary"), 1).await;
    let durations = "kopf_rs_handler_duration_seconds_count{handler=\"create_fn\"}";
    scraped.until(durations, 2).await;
    let resource = scraped.resource();
    test.until("it is handled", "one", is_handled).await;
    let latency = format!("kopf_rs_handling_latency_seconds_count{{resource=\"{resource}\"}}");
    let retries = "kopf_rs_handler_retries_total{handler=\"create_fn\"}";
    scraped.until(retries, 1).await;
    let figures = scraped.until(&latency, 1).await;
    assert_eq!(figures[failures], "0");
    let latency = format!("kopf_rs_handling_latency_seconds_sum{{resource=\"{resource}\"}}");
    assert!(
        number(&figures[&latency]) >= 0.9,
        "the pause before the second attempt counts: {}",
        figures[&latency]
    );
    let patches = format!("kopf_rs_patches_total{{resource=\"{resource}\",subresource=\"\",result=\"ok\"}}");
    // The change counts as handled before its write is counted.
    scraped.until(&patches, 2).await;
    let requests =
        format!("kopf_rs_api_requests_total{{verb=\"patch\",resource=\"{resource}\",code=\"200\"}}");
    let figures = scraped.until(&requests, 2).await;
    assert!(number(&figures["kopf_rs_queue_wait_seconds_count"]) >= 1.0);
    scraped.working.stop().await;
}

async fn retries_and_failures_of_all_kinds_of_handlers_are_counted(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let failing = |id: &str| {
        handler(id, |context: kopf_rs::Context| async move {
            if context.retry() == 0 {
                return Err(TemporaryError::new("not yet").delay(1).into());
            }
            HandlerResult::<()>::Err(PermanentError::new("never").into())
        })
    };
    let parent = handler("create_fn", move |context: kopf_rs::Context| async move {
        context.subhandlers()?.add(failing("child"));
        Ok(())
    });
    let registry = Registry::new()
        .on_startup(handler("startup_fn", |context: kopf_rs::Context| async move {
            if context.retry() == 0 {
                return Err(TemporaryError::new("not yet").delay(1).into());
            }
            Ok(())
        }))
        .index(
            test.selector(),
            indexer("index_fn", |_| Err::<(String, u8), HandlerError>(PermanentError::new("never").into())),
        )
        .index(
            test.selector(),
            indexer_async("slow_index_fn", |_| async {
                Err::<(String, u8), HandlerError>(PermanentError::new("never").into())
            }),
        )
        .on_create(test.selector(), parent);
    let scraped = Scraped::start(&test, registry).await;
    let retries = |id: &str| format!("kopf_rs_handler_retries_total{{handler=\"{id}\"}}");
    let failures = |id: &str| format!("kopf_rs_handler_failures_total{{handler=\"{id}\"}}");
    let figures = scraped.until(&retries("startup_fn"), 1).await;
    assert_eq!(figures[&failures("index_fn")], "0");
    test.create("one", json!({})).await;
    scraped.until(&retries("create_fn"), 1).await;
    // The sub-handler fails permanently, and its parent after it.
    scraped.until(&failures("create_fn"), 2).await;
    scraped.until(&failures("index_fn"), 1).await;
    scraped.until(&failures("slow_index_fn"), 1).await;
    scraped.working.stop().await;
}

async fn current_values_of_an_operator_are_read(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let registry = Registry::new().on_create(test.selector(), test.waiting("create_fn", &gate));
    let scraped = Scraped::start(&test, registry).await;
    let resource = scraped.resource();
    let up = format!("kopf_rs_watch_up{{resource=\"{resource}\"}}");
    scraped.until(&up, 1).await;
    test.create("one", json!({})).await;
    let running = "kopf_rs_handler_running{handler=\"create_fn\"}";
    let figures = scraped.until(running, 1).await;
    let oldest = "kopf_rs_handler_oldest_start_timestamp_seconds{handler=\"create_fn\"}";
    assert!(number(&figures[oldest]) > 1_600_000_000.0, "{}", figures[oldest]);
    let objects = format!("kopf_rs_objects{{resource=\"{resource}\"}}");
    let figures = scraped.until(&objects, 1).await;
    let heard = format!("kopf_rs_watch_last_activity_timestamp_seconds{{resource=\"{resource}\"}}");
    assert!(number(&figures[&heard]) > 1_600_000_000.0);
    let added = format!("kopf_rs_watch_events_total{{resource=\"{resource}\",type=\"ADDED\"}}");
    scraped.until(&added, 1).await;
    scraped.until("kopf_rs_objects_busy", 1).await;
    gate.open(1);
    scraped.until(running, 0).await;
    let figures = scraped.until(oldest, 0).await;
    if cfg!(target_os = "linux") {
        assert!(number(&figures["process_resident_memory_bytes"]) > 1e6);
    }
    assert!(number(&figures["tokio_workers{runtime=\"operator\"}"]) >= 1.0);
    scraped.working.stop().await;
}

async fn more_objects_make_no_more_series(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let create = handler("create_fn", |context: kopf_rs::Context| async move {
        let name = context.name().to_owned();
        context.subhandlers()?.add(handler(&name, |_| async { Ok(()) }));
        Ok(())
    });
    let registry = Registry::new().on_create(test.selector(), create);
    let scraped = Scraped::start(&test, registry).await;
    let resource = scraped.resource();
    let handled = format!("kopf_rs_handling_latency_seconds_count{{resource=\"{resource}\"}}");
    let mut counts = Vec::new();
    for (from, to) in [(0, 10), (10, 500)] {
        for number in from..to {
            test.create(&format!("object-{number}"), json!({})).await;
        }
        let objects = format!("kopf_rs_objects{{resource=\"{resource}\"}}");
        scraped.until(&handled, to).await;
        let figures = scraped.until(&objects, to).await;
        counts.push(figures.len());
    }
    assert_eq!(counts[0], counts[1]);
    let figures = scraped.figures().await;
    assert!(figures.keys().all(|series| !series.contains("object-")));
    let attempts = number(&figures[&attempts("create_fn", "success")]);
    assert!(attempts >= 500.0, "sub-handlers count under their parent: {attempts}");
    scraped.working.stop().await;
}

async fn a_scrape_is_whole_from_the_start_to_the_stop(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let held = gate.clone();
    let registry = failing_once(&test).on_startup(handler("startup_fn", move |_| {
        let held = held.clone();
        async move {
            held.pass().await;
            Ok(())
        }
    }));
    let scraped = Scraped::start(&test, registry).await;
    let first = scraped.figures().await;
    assert_eq!(first["kopf_rs_active"], "0", "startup handlers are called");
    assert_eq!(first[&attempts("create_fn", "success")], "0");
    gate.open(1);
    scraped.until("kopf_rs_active", 1).await;
    for number in 0..5 {
        test.create(&format!("object-{number}"), json!({})).await;
    }
    let mut last = scraped.until(&attempts("create_fn", "success"), 5).await;
    let port = scraped.port;
    let stopping = tokio::spawn(scraped.working.stop());
    while !stopping.is_finished() {
        let asked = tokio::task::spawn_blocking(move || asked_bluntly(port)).await;
        let Some(answer) = asked.expect("it does not panic") else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        assert!(answer.ends_with("# EOF\n"), "half a body:\n{answer}");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        let now = figures(body);
        for (name, value) in now.iter().filter(|(name, _)| name.contains("_total")) {
            let before = last.get(name).map_or(0.0, |it| number(it));
            let value = number(value);
            assert!(value >= before, "{name} falls from {before} to {value}");
        }
        last = now;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stopping.await.expect("it ends");
}

async fn of_two_instances_one_is_shown_at_work(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let instance = async || {
        let shared = Settings::with(|settings| {
            settings.lease.enabled = true;
            settings.lease.namespace = Some(test.cluster.namespace().to_owned());
        });
        let known = test.cluster.lines().count(|it| it.contains("Serving metrics at "));
        let operator = test.operator(failing_once(&test)).settings(shared);
        let working = Working::start(&test.cluster, operator.metrics("127.0.0.1:0"));
        let lines = test.cluster.lines();
        let mut served = Vec::new();
        while served.len() <= known {
            tokio::time::sleep(Duration::from_millis(10)).await;
            served = lines.all();
            served.retain(|it| it.contains("Serving metrics at "));
        }
        let port = port_in(&served[known]);
        Scraped { test: &test, working, port }
    };
    let lease = format!("{{lease=\"{}/tester\"}}", test.cluster.namespace());
    let of = |name: &str| format!("kopf_rs_lease_{name}{lease}");
    let first = instance().await;
    first.until(&of("held"), 1).await;
    first.until("kopf_rs_active", 1).await;
    let second = instance().await;
    test.line("Standing by: the Lease").await;
    let standby = second.until(&of("held"), 0).await;
    assert_eq!(standby["kopf_rs_active"], "0");
    assert_eq!(standby[&of("transitions_total")], "0");
    assert_eq!(standby[&of("last_renew_timestamp_seconds")], "0");
    assert_eq!(standby["kopf_rs_fence_refusals_total{point=\"send\"}"], "0");
    let held = first.figures().await;
    assert_eq!(held[&of("transitions_total")], "1");
    assert!(number(&held[&of("renew_duration_seconds_count")]) >= 1.0);
    assert!(number(&held[&of("last_renew_timestamp_seconds")]) > 1_600_000_000.0);
    first.working.stop().await;
    let held = second.until(&of("held"), 1).await;
    assert_eq!(held[&of("transitions_total")], "1");
    second.until("kopf_rs_active", 1).await;
    second.working.stop().await;
}

/// Sends one request; `None` if the endpoint is gone or refuses the connection.
fn asked_bluntly(port: u16) -> Option<String> {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).ok()?;
    let head = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: {OPEN}\r\n\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    (!answer.is_empty()).then_some(answer)
}

async fn metrics_may_share_the_port_of_the_liveness_endpoint(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let free = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
    let port = free.local_addr().expect("it has an address").port();
    drop(free);
    let operator = test.operator(failing_once(&test));
    let operator = operator.liveness(format!("http://127.0.0.1:{port}/healthz"));
    let operator = operator.metrics(format!("127.0.0.1:{port}"));
    let working = Working::start(&test.cluster, operator);
    test.line("Serving metrics at ").await;
    test.line("Serving health status at ").await;
    assert!(scrape(port, OPEN).await.text.ends_with("# EOF\n"));
    let alive = get_with(port, "/livez", "Host: localhost").await;
    assert_eq!((alive.code, &*alive.text), (200, "ok"));
    working.stop().await;
}

async fn figures_of_users_are_written_beside(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let own = Metrics::new();
    let given = own.clone();
    let create = handler("create_fn", move |context: kopf_rs::Context| {
        let orders = given.counter("shop_orders", "Orders", ["size"]);
        async move {
            orders?.inc([context.name().to_owned()]);
            Ok(())
        }
    });
    let registry = Registry::new().on_create(test.selector(), create);
    let operator = test.operator(registry).with(own);
    let scraped = Scraped::start_of(&test, operator).await;
    test.create("large", json!({})).await;
    scraped.until("shop_orders_total{size=\"large\"}", 1).await;
    scraped.working.stop().await;
}

async fn a_call_that_blocks_its_thread_is_counted(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = std::sync::Mutex::new(blocked);
    let create = handler_blocking("create_fn", move |_, _| {
        let _ = blocked.lock().expect("nobody panics").recv();
        Ok::<Value, _>(Value::Null)
    });
    let registry = Registry::new().on_create(test.selector(), create);
    let scraped = Scraped::start(&test, registry).await;
    test.create("one", json!({})).await;
    let running = "kopf_rs_handler_running{handler=\"create_fn\"}";
    scraped.until(running, 1).await;
    drop(release);
    scraped.until(running, 0).await;
    scraped.working.stop().await;
}

async fn an_address_that_cannot_be_used_is_refused(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let operator = test.operator(failing_once(&test)).metrics("9090");
    let ended = operator.run(test.cluster.client(), std::future::pending::<()>()).await;
    let error = ended.expect_err("it does not start");
    assert!(matches!(error, OperatorError::Metrics(_)), "{error:?}");
    assert!(error.to_string().contains("expected HOST:PORT"), "{error}");
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
    let port = taken.local_addr().expect("it has an address").port();
    let operator = test.operator(failing_once(&test)).metrics(format!("127.0.0.1:{port}"));
    let ended = operator.run(test.cluster.client(), std::future::pending::<()>()).await;
    let error = ended.expect_err("it does not start").to_string();
    assert!(error.contains("another program listens there"), "{error}");
}
