use super::*;
use crate::metrics::exposition::Format;

fn declared(id: &str, reason: &'static str) -> DeclaredHandler {
    DeclaredHandler { id: id.into(), reasons: vec![reason], is_webhook: reason == "validate" }
}

fn counted() -> Counted {
    Counted::new(&[
        declared("create_fn", "create"),
        declared("on_spec/spec.size", "update"),
        declared("check", "validate"),
    ])
}

fn text(counted: &Counted) -> String {
    let written = Format::OpenMetrics.write(&[counted.registry()]);
    written.expect("it can be written")
}

#[track_caller]
fn has(counted: &Counted, line: &str) {
    let text = text(counted);
    assert!(text.lines().any(|it| it == line), "{line}\n{text}");
}

fn call(counted: &Counted, id: &str, reason: &'static str, end: Option<CallEnd>) {
    let begun = Instant::now();
    let number = counted.call_begins_at(id, begun);
    counted.call_ends_at(number, reason, end, begun + Duration::from_secs(2));
}

#[test]
fn all_that_is_known_at_the_start_is_there_with_0() {
    let counted = counted();
    let outcomes = ["success", "temporary", "permanent", "error", "timeout", "cancelled"];
    for outcome in outcomes {
        let labels = format!("handler=\"create_fn\",reason=\"create\",outcome=\"{outcome}\"");
        has(&counted, &format!("kopf_rs_handler_attempts_total{{{labels}}} 0"));
    }
    has(&counted, "kopf_rs_handler_failures_total{handler=\"on_spec/spec.size\"} 0");
    has(&counted, "kopf_rs_webhook_requests_total{webhook=\"check\",allowed=\"false\",code=\"500\"} 0");
    has(&counted, "kopf_rs_events_dropped_total{reason=\"stop\"} 0");
    has(&counted, "kopf_rs_api_inflight 0");
}

#[test]
fn attempts_are_counted_by_their_outcome() {
    let counted = counted();
    call(&counted, "create_fn", "create", Some(CallEnd::Temporary));
    call(&counted, "create_fn", "create", Some(CallEnd::Success));
    call(&counted, "create_fn", "create", None);
    let labels = |outcome| format!("handler=\"create_fn\",reason=\"create\",outcome=\"{outcome}\"");
    let attempts = "kopf_rs_handler_attempts_total";
    has(&counted, &format!("{attempts}{{{}}} 1", labels("temporary")));
    has(&counted, &format!("{attempts}{{{}}} 1", labels("success")));
    has(&counted, "kopf_rs_handler_duration_seconds_count{handler=\"create_fn\"} 2");
    has(&counted, "kopf_rs_handler_duration_seconds_sum{handler=\"create_fn\"} 4.0");
}

#[test]
fn subhandlers_count_under_the_handlers_that_are_declared() {
    let counted = counted();
    for child in 0..100 {
        call(&counted, &format!("create_fn/{child}"), "create", Some(CallEnd::Error));
        call(&counted, &format!("on_spec/spec.size/{child}/more"), "update", Some(CallEnd::Error));
        call(&counted, &format!("stranger-{child}"), "create", Some(CallEnd::Error));
    }
    let attempts = "kopf_rs_handler_attempts_total";
    for (id, reason) in [("create_fn", "create"), ("on_spec/spec.size", "update"), (OTHER, "create")] {
        let labels = format!("handler=\"{id}\",reason=\"{reason}\",outcome=\"error\"");
        has(&counted, &format!("{attempts}{{{labels}}} 100"));
    }
}

#[test]
fn calls_run_until_they_end() {
    let counted = counted();
    let begun = Instant::now();
    let first = counted.call_begins_at("create_fn", begun);
    let second = counted.call_begins_at("create_fn/child", begun + Duration::from_secs(1));
    let running = counted.running();
    assert_eq!(running.len(), 3, "those that do not run as well");
    let expected = RunningCalls { count: 2, oldest: Some(begun) };
    assert_eq!(running["create_fn"], expected);
    counted.call_ends_at(first, "create", Some(CallEnd::Success), begun);
    counted.call_ends_at(second, "create", Some(CallEnd::Success), begun);
    let none = RunningCalls { count: 0, oldest: None };
    assert_eq!(counted.running()["create_fn"], none);
}

#[test]
fn requests_are_counted_by_verb_resource_and_code() {
    let counted = counted();
    let widgets = Resource {
        group: "example.com".into(),
        version: "v1".into(),
        plural: "widgets".into(),
        ..Resource::default()
    };
    counted.serves(&widgets);
    let name = "widgets.example.com";
    let patches = "kopf_rs_patches_total";
    has(&counted, &format!("{patches}{{resource=\"{name}\",subresource=\"\",result=\"conflict\"}} 0"));
    for code in [Some(200), Some(409), Some(503), None] {
        counted.request_begins();
        let asked = (Some(&widgets), Some("status"));
        counted.request_ends("patch", asked, code, Duration::from_millis(20));
    }
    let requests = "kopf_rs_api_requests_total";
    for code in ["200", "409", "503", "none"] {
        let labels = format!("verb=\"patch\",resource=\"{name}/status\",code=\"{code}\"");
        has(&counted, &format!("{requests}{{{labels}}} 1"));
    }
    for (result, count) in [("ok", 1), ("conflict", 1), ("failed", 2)] {
        let labels = format!("resource=\"{name}\",subresource=\"status\",result=\"{result}\"");
        has(&counted, &format!("{patches}{{{labels}}} {count}"));
    }
    has(&counted, "kopf_rs_api_inflight 0");
    has(&counted, "kopf_rs_api_request_duration_seconds_count{verb=\"patch\"} 4");
    counted.throttled(Duration::from_secs(3));
    has(&counted, "kopf_rs_api_throttled_seconds_total 3.0");
}
