//! What handlers of changes have come to as conditions of their object: Ready, and Stalled where it takes somebody to go on.
//!
//! Texts have neither counters nor times: each retry would be a write. Must not know how conditions are written.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::handler::subject::Reason;
use crate::happening::handling::{AttemptEnd, Fate, Handling};
use crate::object::body::Body;
use crate::object::conditions::{ConditionEdit, ConditionStatus, StatusEdits, WantedCondition};
use crate::object::patch::Patch;
use crate::object::resource::Resource;
use crate::reaction::cycle::Cycle;
use crate::state::progress::Record;

const READY: &str = "Ready";
const STALLED: &str = "Stalled";

/// The reasons that are given here. A condition with any other one is a handler's, and stays as it is.
const REASONS: [&str; 6] = [
    SUCCEEDED,
    "TemporaryError",
    "PermanentError",
    "UnexpectedError",
    "TimedOut",
    "RetriesExceeded",
];
const SUCCEEDED: &str = "HandlersSucceeded";

/// So many errors are told; of the others, how many there are.
const TOLD: usize = 3;

/// Tells outcomes of one object.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutcomeConditions {
    /// The generation that is told of.
    generation: Option<i64>,
}

impl OutcomeConditions {
    /// Nothing for resources of Kubernetes itself, whose conditions are the word of others.
    pub(super) fn of(resource: &Resource, body: &Body) -> Option<Self> {
        resource.is_custom().then(|| Self {
            generation: resource.generation_of(body),
        })
    }

    /// The conditions after a pass of the cycle, beside what handlers `wanted`. `told` is what the pass has come to.
    pub(super) fn after(
        self,
        cycle: &Cycle,
        told: &[Handling],
        (body, wanted): (&Body, &Patch),
    ) -> StatusEdits {
        let mut edits = StatusEdits::default();
        let stored = stored(body, READY);
        let records = cycle.ledger.records();
        let failing = failing(cycle.reason, &records);
        let is_stalled = failing.iter().any(|(_, record)| record.failure);
        let (status, reason, message) = if let Some(message) = text(&failing) {
            let reason = told
                .iter()
                .find_map(reason_of)
                .or(stored.and_then(own_reason));
            let reason = reason.filter(|it| *it != SUCCEEDED);
            (false, reason.unwrap_or("UnexpectedError"), message)
        } else if Self::can_be_ready(cycle, stored) {
            (true, SUCCEEDED, String::new())
        } else {
            return edits;
        };
        let mut set = |kind: &str, status: bool| {
            let wanted = WantedCondition {
                status: ConditionStatus::from(status),
                reason: reason.to_owned(),
                message: message.clone(),
            };
            edits.edit(ConditionEdit::set(kind, wanted, self.generation));
        };
        if !is_users(READY, body, wanted) {
            set(READY, status);
        }
        if !is_users(STALLED, body, wanted) {
            if is_stalled {
                set(STALLED, true);
            } else {
                edits.edit(ConditionEdit::remove(STALLED, self.generation));
            }
        }
        edits
    }

    /// Whether the object is as its handlers want it, where none is failing.
    fn can_be_ready(cycle: &Cycle, stored: Option<&Value>) -> bool {
        let is_true = |it: &Value| it["status"] == "True";
        // Nobody is called for some changes: what was ready stays so.
        let was_ready = || stored.is_some_and(is_true);
        cycle.reason != Reason::Delete
            && cycle.is_over()
            && !cycle.comparison.target_is_superseded()
            && (!cycle.members.is_empty() || was_ready())
    }
}

/// Handlers and sub-handlers that have failed, or are to be tried again after an error.
fn failing(reason: Reason, records: &BTreeMap<Arc<str>, Record>) -> Vec<(&str, &Record)> {
    let of_cycle = records.iter().filter(|(_, it)| it.purpose == Some(reason));
    let is_failing = |it: &Record| it.failure || (!it.success && it.message.is_some());
    let mut failing: Vec<_> = of_cycle
        .filter(|(_, record)| is_failing(record))
        .map(|(id, record)| (&**id, record))
        .collect();
    // Those that nobody tries again come first.
    failing.sort_by_key(|(_, record)| !record.failure);
    failing
}

/// What has gone wrong; nothing where nothing has.
fn text(failing: &[(&str, &Record)]) -> Option<String> {
    if failing.is_empty() {
        return None;
    }
    let shown = failing.iter().take(TOLD).map(|(id, record)| {
        let message = record.message.as_deref().unwrap_or("failed");
        format!("{id}: {message}")
    });
    let text = shown.collect::<Vec<_>>().join("; ");
    Some(match failing.len().saturating_sub(TOLD) {
        0 => text,
        more => format!("{text}; and {more} more"),
    })
}

/// The class of the error that an attempt has ended with.
fn reason_of(handling: &Handling) -> Option<&'static str> {
    let Handling::Attempted { end, .. } = handling else {
        return None;
    };
    let of_fate = |fate: &Fate, plain: &'static str| match fate {
        Fate::Ignored => None,
        Fate::Retried { .. } | Fate::Stopped => Some(plain),
        Fate::WouldTimeOut(_) => Some("TimedOut"),
        Fate::WouldExceed(_) => Some("RetriesExceeded"),
    };
    match end {
        AttemptEnd::Succeeded => None,
        AttemptEnd::Temporary { fate, .. } => of_fate(fate, "TemporaryError"),
        AttemptEnd::Permanent { .. } => Some("PermanentError"),
        AttemptEnd::Arbitrary { fate, .. } => of_fate(fate, "UnexpectedError"),
        AttemptEnd::TimedOut { .. } => Some("TimedOut"),
        AttemptEnd::RetriesExceeded { .. } => Some("RetriesExceeded"),
    }
}

/// The condition of this type, as it stands on the object.
fn stored<'a>(body: &'a Body, kind: &str) -> Option<&'a Value> {
    in_list(body.status().get("conditions")?, kind)
}

fn in_list<'a>(list: &'a Value, kind: &str) -> Option<&'a Value> {
    list.as_array()?.iter().find(|it| it["type"] == *kind)
}

/// The reason of a condition, where it was given here.
fn own_reason(condition: &Value) -> Option<&'static str> {
    REASONS.into_iter().find(|it| condition["reason"] == **it)
}

/// Whether handlers set the condition of this type, now or before.
fn is_users(kind: &str, body: &Body, wanted: &Patch) -> bool {
    let is_foreign = |reason: Option<&str>| reason.is_none_or(|it| !REASONS.contains(&it));
    if let Some(edit) = wanted.status_edits().condition(kind) {
        // It may be ours, of a pass that could not be written.
        return is_foreign(edit.wanted.as_ref().map(|it| &*it.reason)) && edit.wanted.is_some();
    }
    let listed = wanted.get(&["status", "conditions"]);
    let listed = listed.and_then(|list| in_list(list, kind));
    let found = listed.or_else(|| stored(body, kind));
    found.is_some_and(|it| is_foreign(it["reason"].as_str()))
}
