//! Spans for traces: a handling cycle, a call of a handler, a request.
//!
//! Their target is `kopf_rs::trace` and their level TRACE, which nobody enables but who collects traces: without that they cost a comparison
//! each, and subscribers that write lines do not repeat their attributes on each. Names of
//! attributes are those of OpenTelemetry where it has some. Must not know who collects them.

use std::time::Duration;

use tracing::{Span, field};

use crate::happening::meter::CallEnd;
use crate::object::reference::Reference;
use crate::object::resource::Resource;

/// The root of a trace: handlers are called for a state of an object. The age is of the change that they are called for, since the operator
/// has first seen it.
pub(crate) fn cycle(resource: &Resource, about: &Reference, age: Option<Duration>) -> Span {
    tracing::trace_span!(
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
    )
}

/// Whether somebody collects traces.
pub(crate) fn are_collected() -> bool {
    tracing::span_enabled!(target: "kopf_rs::trace", tracing::Level::TRACE)
}

/// One call of a handler, within a cycle or by itself: `retry` counts from 0.
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

/// What a call has come to; without an end, its sub-handlers are left to be done.
pub(crate) fn call_ended(span: &Span, end: Option<CallEnd>, message: Option<&str>) {
    let word = match end {
        None => "unfinished",
        Some(CallEnd::Success) => "success",
        Some(CallEnd::Temporary) => "temporary",
        Some(CallEnd::Permanent) => "permanent",
        Some(CallEnd::Error) => "error",
        Some(CallEnd::Timeout) => "timeout",
        Some(CallEnd::Cancelled) => "cancelled",
    };
    span.record("kopf_rs.outcome", word);
    if !matches!(end, None | Some(CallEnd::Success)) {
        span.record("error.type", word);
        span.record("otel.status_code", "ERROR");
        if let Some(message) = message {
            span.record("otel.status_description", message);
        }
    }
}

/// A request to the API server, where it is a part of a trace; of what nobody has begun, such as watches, there is none.
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

/// The server has begun to answer with that code, or has not.
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

/// The value of the header `traceparent` for a request in that span (W3C Trace Context), where traces are collected.
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

/// The path of a resource without the names in it, of which there are too many to tell apart by: `/api/v1/namespaces/{namespace}/pods/{name}`.
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
            (
                "/api/v1/namespaces/team/pods/one",
                "/api/v1/namespaces/{namespace}/pods/{name}",
            ),
            (
                "/apis/example.com/v1/namespaces/team/things/one/status",
                "/apis/example.com/v1/namespaces/{namespace}/things/{name}/status",
            ),
            (
                "/apis/example.com/v1/wholes/one",
                "/apis/example.com/v1/wholes/{name}",
            ),
            ("/api/v1/namespaces/team", "/api/v1/namespaces/{name}"),
            (
                "/api/v1/namespaces/team/status",
                "/api/v1/namespaces/{name}/status",
            ),
            ("/apis", "/apis"),
            ("/version", "/version"),
        ] {
            assert_eq!(template(path), expected);
        }
    }

    #[test]
    fn there_are_no_spans_where_nobody_collects_them() {
        assert!(!are_collected());
        assert!(call("make", "create", 0).is_disabled());
        assert!(request("GET", "/version", "localhost").is_disabled());
    }
}
