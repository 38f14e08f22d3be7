//! Traces, as an OpenTelemetry collector receives them from a program.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use http_body_util::{BodyExt as _, Collected, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use kopf_rs_tests::{TestCluster, scenarios};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message as _;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::cli::{Ended, ended, operator};
use crate::operating::TestOperator;

scenarios! {
    a_cycle_is_one_trace [tcp];
    attempts_that_follow_each_other_are_linked_traces [tcp];
    a_failure_is_reported_with_its_message [tcp];
    a_collector_that_refuses_or_hangs_costs_nothing_but_spans [tcp];
    an_unsupported_request_is_reported [tcp];
    objects_that_need_no_handler_make_no_spans [tcp];
}

/// A collector: the traces that it has received, and its URL.
struct Collector {
    received: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
    url: String,
}

impl Collector {
    /// Starts a collector that answers with this code, or never.
    async fn start(code: Option<StatusCode>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let received = Arc::new(Mutex::new(Vec::new()));
        let kept = received.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let kept = kept.clone();
                let answer = service_fn(move |request| receive(request, code, kept.clone()));
                let connection = hyper::server::conn::http1::Builder::new();
                tokio::spawn(connection.serve_connection(TokioIo::new(stream), answer));
            }
        });
        Self { received, url }
    }

    fn spans(&self) -> Vec<Span> {
        let received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        let resources = received.iter().flat_map(|it| &it.resource_spans);
        let scopes = resources.flat_map(|it| &it.scope_spans);
        scopes.flat_map(|it| it.spans.clone()).collect()
    }

    fn service(&self) -> Option<String> {
        let received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        let resource = received.first()?.resource_spans.first()?.resource.clone()?;
        let named = |it: &&opentelemetry_proto::tonic::common::v1::KeyValue| it.key == "service.name";
        text(resource.attributes.iter().find(named)?.value.as_ref()?.value.as_ref()?)
    }
}

async fn receive(
    request: Request<Incoming>,
    code: Option<StatusCode>,
    kept: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.map(Collected::to_bytes);
    let Some(code) = code else {
        return std::future::pending().await;
    };
    let known = ExportTraceServiceRequest::decode(body.unwrap_or_default());
    if let (true, Ok(known)) = (path == "/v1/traces", known) {
        kept.lock().unwrap_or_else(PoisonError::into_inner).push(known);
    }
    let mut response = Response::new(Full::default());
    *response.status_mut() = code;
    Ok(response)
}

fn text(value: &AnyValue) -> Option<String> {
    match value {
        AnyValue::StringValue(text) => Some(text.clone()),
        AnyValue::IntValue(number) => Some(number.to_string()),
        _ => None,
    }
}

fn attribute(span: &Span, name: &str) -> Option<String> {
    let found = span.attributes.iter().find(|it| it.key == name)?;
    text(found.value.as_ref()?.value.as_ref()?)
}

/// Returns the only span with that name.
fn only<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let names: Vec<&str> = spans.iter().map(|it| it.name.as_str()).collect();
    let mut found = spans.iter().filter(|it| it.name == name);
    let first = found.next();
    let first = first.unwrap_or_else(|| panic!("no {name} in {names:?}"));
    assert!(found.next().is_none(), "{name} in {names:?}");
    first
}

/// Runs an operator on a `ConfigMap` that selects the handler's behaviour, until it exits.
async fn handled(test: &TestOperator, what: &str, variables: &[(&str, &str)]) -> Ended {
    let config = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"do": what},
    });
    test.cluster.create(&config).await;
    run(test, variables).await
}

/// Runs the operator until no object has work left.
async fn run(test: &TestOperator, variables: &[(&str, &str)]) -> Ended {
    let kubeconfig = test.cluster.kubeconfig().to_str().expect("Unicode");
    let args = ["--once", "--log-format", "json", "-n", test.cluster.namespace(), "--kubeconfig", kubeconfig];
    let mut command = operator("obey", &args);
    command.envs(variables.iter().copied());
    ended(command).await
}

async fn a_cycle_is_one_trace(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    let collector = Collector::start(Some(StatusCode::OK)).await;
    let ended = handled(&test, "nothing", &[(ENDPOINT, &collector.url)]).await;
    ended.with(0, &["Handler 'obey' succeeded."]);
    assert_eq!(collector.service().as_deref(), Some("obey"));
    let spans = collector.spans();
    let root = only(&spans, "handle configmaps");
    assert_eq!(root.kind(), SpanKind::Consumer);
    assert!(root.parent_span_id.is_empty());
    assert_eq!(attribute(root, "kopf_rs.object.name").as_deref(), Some("one"));
    let namespace = attribute(root, "k8s.namespace.name");
    assert_eq!(namespace.as_deref(), Some(test.cluster.namespace()));
    assert!(attribute(root, "kopf_rs.change.age_ms").is_some());
    let call = only(&spans, "handler obey");
    assert_eq!(call.parent_span_id, root.span_id);
    assert_eq!(attribute(call, "kopf_rs.outcome").as_deref(), Some("success"));
    assert_eq!(attribute(call, "kopf_rs.attempt").as_deref(), Some("1"));
    assert_eq!(attribute(call, "kopf_rs.reason").as_deref(), Some("create"));
    // Only the write belongs to the cycle: lists and watches have no trace.
    let write = "PATCH /api/v1/namespaces/{namespace}/configmaps/{name}";
    let write = only(&spans, write);
    assert_eq!(write.kind(), SpanKind::Client);
    assert_eq!(write.parent_span_id, root.span_id);
    let code = attribute(write, "http.response.status_code");
    assert_eq!(code.as_deref(), Some("200"));
    assert!(spans.iter().all(|it| it.trace_id == root.trace_id));
    let line = ended.said.lines().find(|it| it.contains("seen plainly"));
    let line: Value = line.and_then(|it| serde_json::from_str(it).ok()).expect("a line");
    assert_eq!(line["trace_id"], hex(&root.trace_id));
    assert_eq!(line["span_id"], hex(&call.span_id));
    assert_eq!(line["trace_flags"], "01");
}

/// TR1.
async fn attempts_that_follow_each_other_are_linked_traces(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    let collector = Collector::start(Some(StatusCode::OK)).await;
    let ended = handled(&test, "retry once", &[(ENDPOINT, &collector.url)]).await;
    ended.with(0, &["Handler 'obey' succeeded."]);
    let spans = collector.spans();
    let mut calls: Vec<&Span> = spans.iter().filter(|it| it.name == "handler obey").collect();
    calls.sort_by_key(|it| it.start_time_unix_nano);
    let [first, second] = calls[..] else {
        panic!("{} calls", calls.len());
    };
    let attempts = [first, second].map(|it| attribute(it, "kopf_rs.attempt"));
    assert_eq!(attempts, ["1", "2"].map(|it| Some(it.to_owned())));
    assert_ne!(first.trace_id, second.trace_id);
    let cycle_of = |call: &Span| {
        let found = spans.iter().find(|it| it.span_id == call.parent_span_id);
        found.expect("a call is in a cycle")
    };
    assert!(cycle_of(first).links.is_empty());
    let [link] = &cycle_of(second).links[..] else {
        panic!("{:?}", cycle_of(second).links);
    };
    let former = cycle_of(first);
    assert_eq!((&link.trace_id, &link.span_id), (&former.trace_id, &former.span_id));
    let lines = ended.said.lines().filter(|it| it.contains("'obey'"));
    let traces = lines
        .filter_map(|it| serde_json::from_str::<Value>(it).ok()?["trace_id"].as_str().map(str::to_owned));
    let traces: std::collections::BTreeSet<_> = traces.collect();
    let expected = [first, second].map(|it| hex(&it.trace_id));
    assert_eq!(traces, expected.into(), "the lines of both have their traces");
}

fn hex(bytes: &[u8]) -> String {
    let digits = |byte: &u8| [byte >> 4, byte & 15].map(|it| char::from_digit(it.into(), 16));
    bytes.iter().flat_map(digits).flatten().collect()
}

async fn a_failure_is_reported_with_its_message(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    let collector = Collector::start(Some(StatusCode::OK)).await;
    let named = ("OTEL_SERVICE_NAME", "mine");
    handled(&test, "fail", &[(ENDPOINT, &collector.url), named]).await;
    assert_eq!(collector.service().as_deref(), Some("mine"));
    let spans = collector.spans();
    let call = only(&spans, "handler obey");
    assert_eq!(attribute(call, "error.type").as_deref(), Some("permanent"));
    let status = call.status.as_ref().expect("a status");
    assert_eq!(status.message, "asked to fail");
}

async fn a_collector_that_refuses_or_hangs_costs_nothing_but_spans(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    let refusing = Collector::start(Some(StatusCode::INTERNAL_SERVER_ERROR)).await;
    let ended = handled(&test, "nothing", &[(ENDPOINT, &refusing.url)]).await;
    let trouble = "Traces cannot be sent to the collector that the variables OTEL_* name: ";
    ended.with(0, &["Handler 'obey' succeeded.", trouble]);
    assert_eq!(ended.said.matches(trouble).count(), 1, "{}", ended.said);
    test.cluster.delete("configmaps", "one").await;
    let hanging = Collector::start(None).await;
    let ended = handled(&test, "nothing", &[(ENDPOINT, &hanging.url)]).await;
    ended.with(0, &["Handler 'obey' succeeded."]);
}

async fn an_unsupported_request_is_reported(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    let json = ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json");
    let ended = handled(&test, "nothing", &[(ENDPOINT, "http://127.0.0.1:4318"), json]).await;
    let told = "expected `http/protobuf` or `grpc` in OTEL_EXPORTER_OTLP_PROTOCOL, found `http/json`";
    ended.with(0, &["Handler 'obey' succeeded.", told]);
}

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

async fn objects_that_need_no_handler_make_no_spans(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    let collector = Collector::start(Some(StatusCode::OK)).await;
    let variables = [(ENDPOINT, collector.url.as_str())];
    handled(&test, "nothing", &variables).await.with(0, &[]);
    let spans = collector.spans().len();
    assert!(spans > 0);
    run(&test, &variables).await.with(0, &[]);
    assert_eq!(collector.spans().len(), spans);
}
