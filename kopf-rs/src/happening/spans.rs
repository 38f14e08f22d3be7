//! Tracing spans of a handling cycle, a handler call and a request.
//!
//! Their target is `kopf_rs::trace` and their level is TRACE, which only trace collectors enable. Without a
//! collector, each span costs one comparison, and log subscribers do not repeat its attributes on each line.
//! Attribute names follow OpenTelemetry where it defines them. This module does not know who collects traces.

#[cfg(feature = "otel")]
mod links;

use std::time::Duration;

use tracing::{Span, field};

use crate::happening::meter::CallEnd;
use crate::object::reference::Reference;
use crate::object::resource::Resource;

/// Creates the root span of a trace, for a cycle that calls handlers. `age` is the time since the
/// operator first saw the change. A retry is linked to the trace of the previous attempt.
pub(crate) fn cycle(resource: &Resource, about: &Reference, age: Option<Duration>, is_retry: bool) -> Span {
    let span = tracing::trace_span!(
        target: "kopf_rs::trace",
        parent: None,
        "handle",
        otel.name = format!("handle {}", resource.plural),
        otel.kind = "consumer",
        k8s.namespace.name = about.namespace.as_deref(),
        kopf_rs.object.group = resource.group,
        kopf_rs.object.version = resource.version,
        kopf_rs.object.kind = about.kind,
        kopf_rs.object.name = about.name,
        kopf_rs.object.uid = about.uid,
        kopf_rs.change.age_ms = age.map(milliseconds),
    );
    #[cfg(feature = "otel")]
    links::begin(&span, &about.uid, is_retry);
    #[cfg(not(feature = "otel"))]
    let _ = is_retry;
    span
}

/// Returns whether traces are collected.
pub(crate) fn are_collected() -> bool {
    tracing::span_enabled!(target: "kopf_rs::trace", tracing::Level::TRACE)
}

/// Creates the span of one handler call, within a cycle or on its own; `retry` counts from 0.
pub(crate) fn call(handler: &str, reason: &'static str, retry: u32) -> Span {
    tracing::trace_span!(
        target: "kopf_rs::trace",
        "call",
        otel.name = format!("handler {handler}"),
        kopf_rs.handler.id = handler,
        kopf_rs.reason = reason,
        kopf_rs.attempt = u64::from(retry) + 1,
        kopf_rs.outcome = field::Empty,
        "error.type" = field::Empty,
        otel.status_code = field::Empty,
        otel.status_description = field::Empty,
    )
}

/// Records the end of a call; `None` if sub-handlers remain.
pub(crate) fn call_ended(span: &Span, end: Option<CallEnd>, message: Option<&str>) {
    let word = end.map_or("unfinished", CallEnd::word);
    span.record("kopf_rs.outcome", word);
    if !matches!(end, None | Some(CallEnd::Success | CallEnd::Denied)) {
        span.record("error.type", word);
        span.record("otel.status_code", "ERROR");
        if let Some(message) = message {
            span.record("otel.status_description", message);
        }
    }
}

/// Creates the span of a request to the API server as a part of a trace. Requests outside of traces, such as watches,
/// get none.
pub(crate) fn request(method: &str, path: &str, server: &str) -> Span {
    if Span::current().is_none() || !are_collected() {
        return Span::none();
    }
    let template = template(path);
    tracing::trace_span!(
        target: "kopf_rs::trace",
        "request",
        otel.name = format!("{method} {template}"),
        otel.kind = "client",
        http.request.method = method,
        url.path = path,
        url.template = template,
        server.address = server,
        http.response.status_code = field::Empty,
        "error.type" = field::Empty,
        otel.status_code = field::Empty,
    )
}

/// Records the status code of the response; `None` if there was no response.
pub(crate) fn answered(span: &Span, code: Option<u16>) {
    if let Some(code) = code {
        span.record("http.response.status_code", u64::from(code));
    }
    if code.is_none_or(|code| code >= 400) {
        let kind = code.map_or_else(|| "no_answer".to_owned(), |code| code.to_string());
        span.record("error.type", kind.as_str());
        span.record("otel.status_code", "ERROR");
    }
}

/// Returns the header `traceparent` (W3C Trace Context) for a request in this span, if traces are collected.
#[cfg(feature = "otel")]
pub(crate) fn traceparent(span: &Span) -> Option<String> {
    use opentelemetry::trace::TraceContextExt as _;
    use tracing_opentelemetry::OpenTelemetrySpanExt as _;
    let context = span.context();
    let context = context.span().span_context().clone();
    context.is_valid().then(|| {
        let (trace, span) = (context.trace_id(), context.span_id());
        format!("00-{trace}-{span}-{:02x}", context.trace_flags())
    })
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Replaces the names in a request path by placeholders to limit cardinality:
/// `/api/v1/namespaces/{namespace}/pods/{name}`.
fn template(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').collect();
    let head = match parts.get(1) {
        Some(&"api") => 3,
        Some(&"apis") => 4,
        _ => return path.to_owned(),
    };
    let mut told: Vec<&str> = parts.iter().take(head).copied().collect();
    let mut rest = parts.get(head..).unwrap_or_default();
    if let ["namespaces", _, plural, ..] = rest
        && !matches!(*plural, "status" | "finalize")
    {
        told.extend(["namespaces", "{namespace}"]);
        rest = &rest[2..];
    }
    for (place, part) in rest.iter().enumerate() {
        told.push(if place == 1 { "{name}" } else { part });
    }
    told.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_part_of_what_requests_are_told_apart_by() {
        for (path, expected) in [
            ("/api/v1/pods", "/api/v1/pods"),
            ("/api/v1/namespaces/team/pods/one", "/api/v1/namespaces/{namespace}/pods/{name}"),
            (
                "/apis/example.com/v1/namespaces/team/things/one/status",
                "/apis/example.com/v1/namespaces/{namespace}/things/{name}/status",
            ),
            ("/apis/example.com/v1/wholes/one", "/apis/example.com/v1/wholes/{name}"),
            ("/api/v1/namespaces/team", "/api/v1/namespaces/{name}"),
            ("/api/v1/namespaces/team/status", "/api/v1/namespaces/{name}/status"),
            ("/apis", "/apis"),
            ("/version", "/version"),
        ] {
            assert_eq!(template(path), expected);
        }
    }

    #[test]
    fn there_are_no_spans_where_nobody_collects_them() {
        // Without a subscriber of its own, this thread would see the interest of a concurrent test's subscriber.
        let nobody = tracing::subscriber::NoSubscriber::new();
        tracing::subscriber::with_default(nobody, || {
            assert!(!are_collected());
            assert!(call("make", "create", 0).is_disabled());
            assert!(request("GET", "/version", "localhost").is_disabled());
        });
    }
}
