//! Turns evidence into a verdict. If several verdicts apply, the first in a fixed order wins.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::handler::definition::Handler;
use crate::object::body::Body;
use crate::object::essence::is_secret;
use crate::object::resource::Resource;
use crate::reaction::explain::{Explained, ExplainedHandler};
use crate::why::exclusion::exclusion;
use crate::why::explanation::{ChangedCalls, EvidenceLine, Explanation, HandlerLine, NotCalled, Verdict};
use crate::why::running::{self, activity, obstacle};
use crate::why::writers::LastWrite;

/// All evidence about an existing object.
pub(crate) struct Evidence<'a> {
    pub(crate) resource: &'a Resource,
    pub(crate) body: &'a Body,
    /// The current state, and below it the state with the hypothetical changes.
    pub(crate) explained: Explained,
    pub(crate) changed: Option<(Explained, Arc<Body>)>,
    /// All handlers of the kind.
    pub(crate) handlers: &'a [Arc<Handler>],
    /// The last write by another writer than the operator.
    pub(crate) last_write: Option<LastWrite>,
    pub(crate) finalizer: &'a str,
    /// True if the operator serves the object's namespace.
    pub(crate) is_in_scope: bool,
    /// The peers that pause this operator, or the reason why they are unknown.
    pub(crate) peers: Result<Vec<String>, String>,
    /// The running operator's report about the object, or the reason why it is unknown; `None` if it was not asked.
    pub(crate) running: Option<Result<Value, String>>,
    /// Its Kubernetes Events, newest first, or the reason why they are unknown.
    pub(crate) events: Result<Vec<String>, String>,
    pub(crate) is_kopf: bool,
    pub(crate) now: Timestamp,
}

/// Reaches a verdict.
pub(crate) fn judge(evidence: &Evidence<'_>) -> Explanation {
    let handlers = evidence.explained.handlers.iter();
    let mut lines: Vec<_> = handlers.map(|it| line(evidence, it, evidence.body)).collect();
    lines.extend(evidence.handlers.iter().filter_map(|it| others(it, evidence.body)));
    Explanation {
        object: name_of(evidence),
        verdict: find(evidence),
        handlers: lines,
        changed: evidence.changed.as_ref().map(|(it, body)| calls(it, body)),
        evidence: known(evidence),
        is_failure: false,
        uid: evidence.body.uid().to_owned(),
    }
}

/// Explains why the object could not be examined.
pub(crate) fn unknown(object: String, word: &'static str, summary: String) -> Explanation {
    Explanation { object, verdict: Verdict::new(word, summary), is_failure: true, ..Explanation::default() }
}

fn name_of(evidence: &Evidence<'_>) -> String {
    let body = evidence.body;
    let name = match body.namespace() {
        Some(namespace) => format!("{namespace}/{}", body.name()),
        None => body.name().to_owned(),
    };
    format!("{} {name}", evidence.resource.kind)
}

fn find(evidence: &Evidence<'_>) -> Verdict {
    let explained = &evidence.explained;
    if evidence.handlers.is_empty() {
        return Verdict::new("unhandled", "no handler is for objects of its kind");
    }
    if !evidence.is_in_scope {
        let summary = "its namespace is none of those that the operator serves";
        return Verdict::new("out-of-scope", summary);
    }
    if let Ok(peers) = &evidence.peers
        && !peers.is_empty()
    {
        let summary = format!("the operator is paused for {}", peers.join(", "));
        let wakes = "the end of that operator, or of its lifetime in the peering";
        return Verdict::new("paused", summary).until(wakes);
    }
    let running = evidence.running.as_ref().and_then(|it| it.as_ref().ok());
    let namespace = evidence.body.namespace();
    let obstacle = running.and_then(|it| obstacle(it, evidence.resource, namespace));
    if let Some(found) = obstacle.or_else(|| running.and_then(activity)) {
        return found;
    }
    if evidence.body.is_deleting() {
        return of_deletion(evidence);
    }
    if let Some(waiting) = first_waiting(evidence) {
        return waiting;
    }
    let mut selected = explained.handlers.iter().filter(|it| it.is_selected);
    if let Some(reason) = explained.reason
        && selected.any(|it| it.record.as_ref().is_none_or(|record| !record.is_final()))
    {
        let summary = format!("its handlers are to be called now, for {reason}");
        let wakes = "the running operator, at its next look; none may be running";
        return Verdict::new("due", summary).until(wakes);
    }
    if explained.handlers.iter().any(|it| it.applies) {
        return unchanged(evidence);
    }
    if explained.handlers.is_empty() {
        let summary = "only daemons, timers, reconcile functions or handlers of events are for its kind";
        return Verdict::new("watched", summary);
    }
    let summary = "the filters of all change handlers exclude it";
    let wakes = "a change of a value that the filters read";
    Verdict::new("excluded", summary).until(wakes)
}

fn unchanged(evidence: &Evidence<'_>) -> Verdict {
    let failed = evidence.explained.handlers.iter().find(|it| {
        let record = it.record.as_ref();
        record.is_some_and(|record| record.failure)
    });
    let wakes = "a change of its essence: neither of its status, nor of annotations of operators";
    if let Some(failed) = failed {
        let id = &failed.handler.id;
        return Verdict::new("failed", format!("{id} has failed permanently")).until(wakes);
    }
    let summary = match &evidence.last_write {
        Some(write) => format!("no relevant field has changed since it was handled; {write}"),
        None => "no relevant field has changed since it was handled".to_owned(),
    };
    Verdict::new("unchanged", summary).until(wakes)
}

/// Returns the handler with the earliest next attempt.
fn first_waiting(evidence: &Evidence<'_>) -> Option<Verdict> {
    let handlers = evidence.explained.handlers.iter();
    let of_handlers = handlers.filter_map(|it| Some((&it.handler.id, it.record.as_ref()?)));
    let waiting = of_handlers.chain(&evidence.explained.subhandlers);
    let waiting = waiting.filter_map(|(id, record)| Some((id, record, record.delayed?)));
    let waiting = waiting.filter(|(_, record, due)| !record.is_final() && *due > evidence.now);
    let (id, record, due) = waiting.min_by_key(|(_, _, due)| *due)?;
    let seconds = due.duration_since(evidence.now).as_secs();
    let error = record.message.as_deref().unwrap_or("an error without a message");
    let summary = format!("{id} waits for its next attempt after {} that failed: {error}", record.retries);
    let wakes = format!("the time, in {seconds} seconds ({due}), or a change of the object");
    Some(Verdict::new("waiting", summary).until(wakes))
}

fn of_deletion(evidence: &Evidence<'_>) -> Verdict {
    let body = evidence.body;
    let strangers = body.finalizers().filter(|it| *it != evidence.finalizer);
    let strangers: Vec<_> = strangers.map(|it| format!("`{it}`")).collect();
    if evidence.explained.has_finalizer {
        if let Some(waiting) = first_waiting(evidence) {
            let summary = format!("its deletion waits: {}", waiting.summary);
            return Verdict { word: "deleting", summary, ..waiting };
        }
        let mut handlers = evidence.explained.handlers.iter();
        let left =
            handlers.find(|it| it.is_selected && it.record.as_ref().is_none_or(|record| !record.is_final()));
        let summary = match left {
            Some(left) => format!("its deletion waits for {}", left.handler.id),
            None => "its deletion waits for the operator, which has to remove its finalizer, or for daemons that have to end".to_owned(),
        };
        return Verdict::new("deleting", summary);
    }
    if strangers.is_empty() {
        return Verdict::new("deleting", "it will be gone soon");
    }
    let summary = format!(
        "its deletion waits for other controllers, not for this operator: it has the finalizers {}",
        strangers.join(", ")
    );
    let wakes = "the controllers that own these finalizers, when they remove them";
    Verdict::new("deleting", summary).until(wakes)
}

fn line(evidence: &Evidence<'_>, of: &ExplainedHandler, body: &Body) -> HandlerLine {
    let record = of.record.as_ref();
    let (state, because) = match record {
        Some(record) if record.success => ("succeeded", attempts_of(record.retries)),
        Some(record) if record.failure => ("failed", error_of(record.message.as_deref())),
        Some(record) if record.delayed.is_some_and(|due| due > evidence.now) => {
            ("waiting", error_of(record.message.as_deref()))
        }
        _ if !of.applies => ("excluded", exclusion(&of.handler, body).to_string()),
        _ if of.is_selected => ("due", "it is to be called now".to_owned()),
        _ => ("not concerned", unconcerned(&evidence.explained, of)),
    };
    let unfinished = record.filter(|it| !it.is_final());
    HandlerLine {
        id: of.handler.id.to_string(),
        state,
        because,
        attempts: record.map(|it| it.retries),
        error: record.and_then(|it| it.message.clone()),
        due: unfinished.and_then(|it| it.delayed).map(|it| it.to_string()),
    }
}

fn attempts_of(retries: u32) -> String {
    match retries {
        0 | 1 => "in its first attempt".to_owned(),
        more => format!("after {more} attempts"),
    }
}

fn error_of(message: Option<&str>) -> String {
    message.unwrap_or("its error has no message").to_owned()
}

fn unconcerned(explained: &Explained, of: &ExplainedHandler) -> String {
    match explained.reason {
        None => "no relevant field has changed".to_owned(),
        Some(reason) if !of.is_for_reason => format!("it is not for {reason}"),
        Some(_) => match of.handler.field() {
            Some(field) => format!("its field {field} has not changed"),
            None => "the change does not match its filters `old` and `new`".to_owned(),
        },
    }
}

/// Describes a handler that does not handle changes.
fn others(handler: &Arc<Handler>, body: &Body) -> Option<HandlerLine> {
    if handler.is_for_changes() {
        return None;
    }
    let applies = handler.accepts(body, |_| false);
    let (state, because) = match (applies, &handler.filters.when) {
        (true, _) => ("for it", "its filters select the object".to_owned()),
        (false, Some(_)) => ("unknown", "it depends on its function `when`".to_owned()),
        (false, None) => ("excluded", exclusion(handler, body).to_string()),
    };
    Some(HandlerLine { id: handler.id.to_string(), state, because, attempts: None, error: None, due: None })
}

fn calls(explained: &Explained, body: &Body) -> ChangedCalls {
    let mut calls = ChangedCalls::default();
    for of in &explained.handlers {
        let handler = of.handler.id.to_string();
        if of.is_selected {
            calls.called.push(handler);
            continue;
        }
        let because =
            if of.applies { unconcerned(explained, of) } else { exclusion(&of.handler, body).to_string() };
        calls.not_called.push(NotCalled { handler, because });
    }
    calls
}

fn known(evidence: &Evidence<'_>) -> Vec<EvidenceLine> {
    let mut lines = Vec::new();
    if evidence.is_kopf {
        lines.push(said("settings", "the state is read in Kopf's format"));
    }
    of_object(evidence, &mut lines);
    if let Some(write) = &evidence.last_write {
        lines.push(said("managedFields", write.to_string()));
    }
    match &evidence.peers {
        Ok(peers) if peers.is_empty() => {}
        Ok(peers) => {
            lines.push(said("peering", format!("active instead: {}", peers.join(", "))));
        }
        Err(why) => lines.push(said("peering", format!("unknown, because {why}"))),
    }
    match &evidence.events {
        Ok(events) => lines.extend(events.iter().map(|it| said("Event", it))),
        Err(why) => lines.push(said("Event", format!("unknown, because {why}"))),
    }
    let source = "running operator";
    match &evidence.running {
        Some(Ok(value)) => {
            lines.extend(running::lines(value).into_iter().map(|it| said(source, it)));
        }
        Some(Err(why)) => lines.push(said(source, format!("unknown, because {why}"))),
        None => {
            let unasked = "unknown: --liveness names the running operator to ask";
            lines.push(said(source, unasked));
        }
    }
    if evidence.changed.is_some() {
        lines.push(said("change", "defaults of the schema and webhooks are not applied to it"));
    }
    lines
}

fn said(source: &'static str, text: impl Into<String>) -> EvidenceLine {
    EvidenceLine { source, text: text.into() }
}

/// Adds lines about the generation, the finalizers, the last-handled state and the outcomes of sub-handlers.
fn of_object(evidence: &Evidence<'_>, lines: &mut Vec<EvidenceLine>) {
    let (body, explained) = (evidence.body, &evidence.explained);
    if let Some(generation) = body.metadata()["generation"].as_i64() {
        lines.push(said("object", format!("its generation is {generation}")));
    }
    let finalizers: Vec<_> = body.finalizers().collect();
    if !finalizers.is_empty() {
        lines.push(said("object", format!("its finalizers are {}", finalizers.join(", "))));
    }
    if let Some(reason) = explained.reason {
        lines.push(said(
            "last handled",
            format!("compared with the last-handled state, the reason is {reason}"),
        ));
    }
    if explained.old_is_unknown {
        lines.push(said("last handled", "only a digest of the last-handled state is stored"));
    } else if !explained.diff.is_empty() && !is_secret(body) {
        let fields: Vec<_> = explained.diff.iter().map(|item| item.field.to_string()).collect();
        // A new object differs as a whole.
        if fields.iter().all(|it| !it.is_empty()) {
            lines
                .push(said("last handled", format!("since then, these have changed: {}", fields.join(", "))));
        }
    }
    for (id, record) in &explained.subhandlers {
        let state = match (record.success, record.failure) {
            (true, _) => "has succeeded",
            (_, true) => "has failed permanently",
            _ => "is not done",
        };
        lines.push(said("record", format!("the sub-handler {id} {state}")));
    }
}
