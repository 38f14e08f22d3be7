//! The cells of Events.
//!
//! Core Events and those of `events.k8s.io` have the same cells, as in the real server. Independent of tables.

use jiff::Timestamp;
use serde_json::Value;

use super::age::since;
use super::cells::text;
use super::find;
use crate::object::Body;

pub(super) fn cell(function: &str, body: &Body, now: Timestamp) -> Value {
    match function {
        "@last" => last(body, now).into(),
        "@first" => first(body, now).into(),
        "@count" => count(body).into(),
        "@involved" => involved(body).into(),
        "@source" => source(body).into(),
        _ => text(body, ".message").trim().into(),
    }
}

fn first(body: &Body, now: Timestamp) -> String {
    let then = text(body, ".firstTimestamp");
    let then = if then.is_empty() {
        text(body, ".eventTime")
    } else {
        then
    };
    since(then, now)
}

fn last(body: &Body, now: Timestamp) -> String {
    let observed = text(body, ".series.lastObservedTime");
    let then = text(body, ".lastTimestamp");
    match (observed, then) {
        ("", "") => first(body, now),
        ("", then) => since(then, now),
        (observed, _) => since(observed, now),
    }
}

fn count(body: &Body) -> i64 {
    let number = |path: &str| find(body, path).and_then(Value::as_i64);
    let count = number(".series.count").or_else(|| number(".count").filter(|count| *count > 0));
    count.unwrap_or(1)
}

fn involved(body: &Body) -> String {
    let kind = text(body, ".involvedObject.kind").to_lowercase();
    match text(body, ".involvedObject.name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

fn source(body: &Body) -> String {
    let either = |one: &str, two: &str| match text(body, one) {
        "" => text(body, two).to_owned(),
        found => found.to_owned(),
    };
    let component = either(".source.component", ".reportingComponent");
    let instance = either(".source.host", ".reportingInstance");
    if instance.is_empty() {
        component
    } else {
        format!("{component}, {instance}")
    }
}
