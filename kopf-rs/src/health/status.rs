//! The operator's current activity, in total and for one object, as JSON: `/statusz`.
//!
//! Contains names of objects and error messages, so the listener serves it to local clients only.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::engine::Engine;
use crate::engine::memory::Version;
use crate::engine::queue::facts::QueueFacts;
use crate::health::board::{Known, LeaseFacts, Phase, WatchFacts};
use crate::health::checks::{Check, Facts, unready};
use crate::object::reference::Reference;

pub(super) fn status(known: &Known, facts: &Facts, now: Instant) -> Value {
    let engine = known.engine.as_ref();
    json!({
        "operator": known.name,
        "version": env!("CARGO_PKG_VERSION"),
        "phase": match known.operator.phase {
            Phase::Starting => "starting",
            Phase::Serving => "serving",
            Phase::Stopping => "stopping",
        },
        "paused": facts.operator.is_paused,
        "lease": facts.operator.lease.as_ref().map(|it| lease(it, now)),
        "uptimeSeconds": since(known.begun, now),
        "live": checks(&facts.live(now)),
        "ready": checks(&facts.ready(now)),
        "watches": facts.watches.iter().map(|it| watch(it, now)).collect::<Vec<_>>(),
        "watched": facts.counts.iter().map(|(resource, counts)| {
            let mut watched = json!(counts);
            watched["resource"] = json!(resource);
            watched["objects"] = json!(facts.queue.kinds.get(resource).copied().unwrap_or_default());
            watched
        }).collect::<Vec<_>>(),
        "indices": facts.indices.iter()
            .map(|index| json!({"index": index.index, "keys": index.keys, "filled": index.lack.is_none()}))
            .collect::<Vec<_>>(),
        "unserved": facts.operator.unserved.iter()
            .map(|(resource, why)| json!({"resource": resource, "reason": why}))
            .collect::<Vec<_>>(),
        "queue": queue(&facts.queue, now),
        "handlersInFlight": facts.calls.iter().map(|call| json!({
            "handler": call.handler,
            "kind": call.kind,
            "object": call.object,
            "seconds": since(call.since, now),
        })).collect::<Vec<_>>(),
        "handlersWaiting": engine.map(|it| waiting(it, now)).unwrap_or_default(),
        "daemonsAndTimersInFlight": engine.map(in_background).unwrap_or_default(),
        "wakeUps": {
            "objects": facts.queue.timers,
            "next": facts.queue.next.iter().map(|(object, pause)| json!({
                "resource": object.resource,
                "object": object.name,
                "inSeconds": rounded(*pause),
            })).collect::<Vec<_>>(),
        },
        "lastErrors": engine.map(errors).unwrap_or_default(),
        "failedForGood": engine.map(failures).unwrap_or_default(),
    })
}

/// Returns the activity for one object, including its waiting states.
pub(super) fn status_of(known: &Known, facts: &Facts, uid: &str, now: Instant) -> Value {
    let engine = known.engine.as_ref();
    let of_object = engine.and_then(|it| it.object_facts(uid));
    let calls = facts.calls.iter().filter(|it| it.uid == uid);
    let waits = of_object.as_ref().and_then(|it| it.waits.as_ref());
    // A version that was passed to one of the running calls does not wait.
    let is_given = |version: &Version| calls.clone().any(|it| it.version.covers(version));
    let waits = waits.filter(|(_, version)| !is_given(version));
    let name = of_object.as_ref().map(|it| &*it.object.name);
    let is_about = |object: &str| name.is_some_and(|name| name == object);
    let in_background = engine.map(Engine::calls_in_background).unwrap_or_default();
    let in_background = in_background.iter().filter(|call| {
        let about = call.logger.about();
        about.is_some_and(|about| about.uid == uid)
    });
    let errors = engine.map(Engine::last_errors).unwrap_or_default();
    json!({
        "operator": known.name,
        "uid": uid,
        "isKnown": of_object.is_some(),
        "paused": facts.operator.is_paused,
        "lease": facts.operator.lease.as_ref().map(|it| lease(it, now)),
        "resource": of_object.as_ref().map(|it| &it.object.resource),
        "object": name,
        "watches": facts.watches.iter().map(|it| watch(it, now)).collect::<Vec<_>>(),
        "atWork": of_object.as_ref().is_some_and(|it| it.is_busy),
        "waitsSeconds": waits.map(|(from, _)| since(*from, now)),
        "requestsFail": of_object.as_ref().is_some_and(|it| it.is_held_up),
        "dueInSeconds": of_object.as_ref().and_then(|it| it.due)
            .map(|due| rounded(due.saturating_duration_since(now))),
        "handlersInFlight": calls.clone().map(|call| json!({
            "handler": call.handler,
            "seconds": since(call.since, now),
        })).collect::<Vec<_>>(),
        "daemonsAndTimersInFlight": in_background.map(|call| json!({
            "handler": call.handler.id,
            "stopping": call.stopped.reason().is_some(),
        })).collect::<Vec<_>>(),
        "lastErrors": errors.iter().filter(|it| is_about(&it.object)).map(|error| json!({
            "time": error.at.to_string(),
            "line": error.line,
        })).collect::<Vec<_>>(),
    })
}

fn lease(it: &LeaseFacts, now: Instant) -> Value {
    json!({
        "lease": it.lease,
        "identity": it.identity,
        "state": it.state,
        "holder": it.holder,
        "transitions": it.transitions,
        "atWork": it.is_held(),
        "terms": it.terms,
        "renewedSecondsAgo": it.renewed.map(|at| since(at, now)),
        "trouble": it.lacks,
    })
}

fn watch(watch: &WatchFacts, now: Instant) -> Value {
    json!({
        "resource": watch.collection.resource.to_string(),
        "namespace": watch.collection.namespace,
        "state": unready(watch).unwrap_or("synced"),
        "error": watch.trouble.as_ref().map(|it| &it.error),
        "silentSeconds": since(watch.heard, now),
        "deadlineSeconds": rounded(watch.deadline),
    })
}

fn queue(queue: &QueueFacts, now: Instant) -> Value {
    json!({
        "objects": queue.objects,
        "atWork": queue.busy,
        "waiting": queue.waiting,
        "oldest": queue.oldest.as_ref().map(|oldest| json!({
            "resource": oldest.object.resource,
            "object": oldest.object.name,
            "seconds": since(oldest.since, now),
        })),
        "longest": queue.longest.iter().map(|waiting| json!({
            "resource": waiting.object.resource,
            "object": waiting.object.name,
            "seconds": since(waiting.since, now),
            "requestsFail": waiting.is_held_up,
        })).collect::<Vec<_>>(),
        "events": queue.events,
    })
}

/// Returns the handlers that wait for their next attempt, those that are due first in front.
fn waiting(engine: &Engine, now: Instant) -> Vec<Value> {
    let call = engine.waiting_calls().into_iter().map(|call| {
        json!({
            "handler": call.handler,
            "kind": call.kind,
            "object": call.object,
            "inSeconds": rounded(call.due.saturating_duration_since(now)),
        })
    });
    call.collect()
}

fn in_background(engine: &Engine) -> Vec<Value> {
    let calls = engine.calls_in_background();
    let call = calls.iter().map(|call| {
        let about = call.logger.about();
        json!({
            "handler": call.handler.id,
            "kind": about.map(Reference::kind_word),
            "object": about.map(ToString::to_string),
            "stopping": call.stopped.reason().is_some(),
        })
    });
    call.collect()
}

fn errors(engine: &Engine) -> Vec<Value> {
    let errors = engine.last_errors();
    let error = errors.iter().map(|error| {
        json!({
            "time": error.at.to_string(),
            "level": error.level.as_str(),
            "kind": error.kind,
            "object": error.object,
            "line": error.line,
        })
    });
    error.collect()
}

/// Returns the recent failures, the last ones first.
fn failures(engine: &Engine) -> Vec<Value> {
    const SHOWN: usize = 20;
    let failures = engine.failures();
    let last = failures.iter().rev().take(SHOWN);
    last.map(|failure| {
        json!({
            "handler": failure.handler,
            "object": failure.object.as_ref().map(ToString::to_string),
        })
    })
    .collect()
}

fn checks(checks: &[Check]) -> Value {
    let failing = checks.iter().filter(|check| check.trouble.is_some());
    let failing: Vec<_> =
        failing.map(|check| json!({"check": check.name, "reason": check.trouble})).collect();
    json!({"ok": failing.is_empty(), "failing": failing})
}

fn since(then: Instant, now: Instant) -> f64 {
    rounded(now.saturating_duration_since(then))
}

/// Rounds to milliseconds.
fn rounded(time: Duration) -> f64 {
    (time.as_secs_f64() * 1000.0).round() / 1000.0
}
