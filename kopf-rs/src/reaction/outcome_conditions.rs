//! Shows the outcomes of change handlers, daemons, timers and reconcilers as conditions of their object: Ready, and Stalled if a user's
//! action is required.
//!
//! Messages contain no counters or times, because each retry would cause a write. Must not know how conditions are written.

use std::sync::Arc;

use serde_json::Value;

use crate::handler::child_trouble::ChildTrouble;
use crate::handler::subject::Reason;
use crate::happening::handling::Handling;
use crate::object::body::Body;
use crate::object::conditions::{ConditionEdit, ConditionStatus, StatusEdits, WantedCondition};
use crate::object::patch::Patch;
use crate::reaction::background::{AttemptsEnd, BackgroundMemory, BackgroundRun, Phase, is_reconcile};
use crate::reaction::cycle::Cycle;
use crate::reaction::input::Input;
use crate::reaction::judge::{PERMANENT, RETRIES_EXCEEDED, TEMPORARY, TIMED_OUT, UNEXPECTED, class_of};
use crate::state::progress::Record;

const READY: &str = "Ready";
const STALLED: &str = "Stalled";

/// The reasons used here, in addition to those for children. A condition with any other reason belongs to a handler and stays unchanged.
const REASONS: [&str; 7] =
    [SUCCEEDED, RECONCILING, TEMPORARY, PERMANENT, UNEXPECTED, TIMED_OUT, RETRIES_EXCEEDED];
const SUCCEEDED: &str = "HandlersSucceeded";
/// Failed change handlers have succeeded, and reconcilers are still to be called.
const RECONCILING: &str = "Reconciling";

/// The maximum number of listed errors; further ones are counted.
const TOLD: usize = 3;

/// Computes the conditions of one object.
#[derive(Clone, Debug)]
pub(super) struct OutcomeConditions {
    /// The observed generation.
    generation: Option<i64>,
    /// The ids of change handlers.
    changing: Vec<Arc<str>>,
    has_background: bool,
    /// True if all reconcilers have succeeded for the current object.
    is_settled: bool,
    /// The daemons, timers and reconcilers that fail.
    failing: Vec<Failing>,
}

/// A handler that has failed, or is to be retried after an error.
#[derive(Clone, Debug)]
struct Failing {
    id: Arc<str>,
    message: String,
    /// True if it is not retried.
    for_good: bool,
    /// The class of the error, if known.
    class: Option<&'static str>,
}

impl OutcomeConditions {
    /// Returns `None` for built-in resources, whose conditions belong to others.
    pub(super) fn of(input: &Input<'_>, background: &BackgroundMemory) -> Option<Self> {
        let failing = |run: &BackgroundRun| {
            let attempts = run.attempts.as_ref()?;
            let error = attempts.error.as_ref()?;
            let is_ended = matches!(run.phase, Phase::Ended { .. });
            Some(Failing {
                id: run.handler.id.clone(),
                message: error.message.clone(),
                for_good: is_ended || attempts.end == Some(AttemptsEnd::GaveUp),
                class: Some(error.class),
            })
        };
        let is_settled = |run: &BackgroundRun| match &run.phase {
            Phase::Waits(at) => at.time() > input.now && run.failed_attempts() == 0,
            _ => false,
        };
        let changing = input.handlers.iter().filter(|it| it.is_for_changes());
        input.resource.is_custom().then(|| Self {
            generation: input.resource.generation_of(input.body),
            changing: changing.map(|it| it.id.clone()).collect(),
            has_background: !background.is_empty(),
            is_settled: background.runs.iter().all(|run| !is_reconcile(&run.handler) || is_settled(run)),
            failing: background.runs.iter().filter_map(failing).collect(),
        })
    }

    /// Returns the changes of conditions after a pass, with its cycle if there is one, beside the changes that handlers `wanted`. `told` are
    /// the reports of the pass.
    pub(super) fn after(
        &self,
        cycle: Option<&Cycle>,
        told: &[Handling],
        (body, wanted): (&Body, &Patch),
    ) -> StatusEdits {
        let mut edits = StatusEdits::default();
        let stored = stored(body, READY);
        let mut failing = cycle.map(failing).unwrap_or_default();
        let changes_fail = !failing.is_empty();
        failing.extend(self.failing.iter().cloned());
        // Handlers that are not retried come first.
        failing.sort_by_key(|it| !it.for_good);
        let is_stalled = failing.iter().any(|it| it.for_good);
        let stands = self.has_failed_before(stored);
        let (status, reason, message) = if let Some(message) = text(&failing) {
            if cycle.is_none() && stands {
                return edits;
            }
            let class = failing.iter().find_map(|it| it.class);
            let reason = told.iter().find_map(class_of).filter(|_| changes_fail);
            let reason = reason.or(class).or(stored.and_then(own_reason));
            let reason = reason.filter(|it| ![SUCCEEDED, RECONCILING].contains(it));
            (ConditionStatus::False, reason.unwrap_or(UNEXPECTED), message)
        } else if !self.can_be_ready(cycle, stored) {
            return edits;
        } else if self.is_settled {
            (ConditionStatus::True, SUCCEEDED, String::new())
        } else if cycle.is_some() && stands {
            (ConditionStatus::Unknown, RECONCILING, String::new())
        } else {
            return edits;
        };
        let mut set = |kind: &str, status: ConditionStatus| {
            let wanted = WantedCondition { status, reason: reason.to_owned(), message: message.clone() };
            edits.edit(ConditionEdit::set(kind, wanted, self.generation));
        };
        if !is_users(READY, body, wanted) {
            set(READY, status);
        }
        if !is_users(STALLED, body, wanted) {
            if is_stalled {
                set(STALLED, ConditionStatus::True);
            } else {
                edits.edit(ConditionEdit::remove(STALLED, self.generation));
            }
        }
        edits
    }

    /// Returns true if the object is in the state that its handlers want, provided that none is failing.
    fn can_be_ready(&self, cycle: Option<&Cycle>, stored: Option<&Value>) -> bool {
        let Some(cycle) = cycle else {
            return self.has_background && !self.has_failed_before(stored);
        };
        let is_true = |it: &Value| it["status"] == "True";
        // Some changes call no handler: the condition then stays as it was.
        let was_ready = || stored.is_some_and(is_true);
        cycle.reason != Reason::Delete
            && cycle.is_over()
            && !cycle.comparison.target_is_superseded()
            && (!cycle.members.is_empty() || was_ready())
    }

    /// Returns true if a change handler has failed according to the condition, which lists permanently failed ones first.
    fn has_failed_before(&self, stored: Option<&Value>) -> bool {
        let Some(stored) = stored.filter(|it| it["status"] == "False") else {
            return false;
        };
        let message = stored["message"].as_str().unwrap_or_default();
        let first = message.split_once(": ").map_or(message, |(id, _)| id);
        let is_first = |id: &str| {
            let rest = first.strip_prefix(id);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        own_reason(stored).is_some() && self.changing.iter().any(|id| is_first(id))
    }
}

/// Returns the failing handlers and sub-handlers of the cycle.
fn failing(cycle: &Cycle) -> Vec<Failing> {
    let of_cycle = cycle.ledger.iter().filter(|(_, it)| it.purpose == Some(cycle.reason));
    let is_failing = |it: &Record| it.failure || (!it.success && it.message.is_some());
    let failing = of_cycle.filter(|(_, record)| is_failing(record));
    let failing = failing.map(|(id, record)| Failing {
        id: id.clone(),
        message: record.message.as_deref().unwrap_or("failed").to_owned(),
        for_good: record.failure,
        class: None,
    });
    failing.collect()
}

/// Returns the errors as text, or `None` if there are none.
fn text(failing: &[Failing]) -> Option<String> {
    if failing.is_empty() {
        return None;
    }
    let shown = failing.iter().take(TOLD);
    let shown = shown.map(|it| format!("{}: {}", it.id, it.message));
    let text = shown.collect::<Vec<_>>().join("; ");
    Some(match failing.len().saturating_sub(TOLD) {
        0 => text,
        more => format!("{text}; and {more} more"),
    })
}

/// Returns the object's condition of this type.
fn stored<'a>(body: &'a Body, kind: &str) -> Option<&'a Value> {
    in_list(body.status().get("conditions")?, kind)
}

fn in_list<'a>(list: &'a Value, kind: &str) -> Option<&'a Value> {
    list.as_array()?.iter().find(|it| it["type"] == *kind)
}

fn own_reasons() -> impl Iterator<Item = &'static str> {
    let of_children = ChildTrouble::ALL.map(ChildTrouble::reason);
    REASONS.into_iter().chain(of_children)
}

/// Returns the reason of a condition if it is one of those used here.
fn own_reason(condition: &Value) -> Option<&'static str> {
    own_reasons().find(|it| condition["reason"] == **it)
}

/// Returns true if handlers set the condition of this type, now or before.
fn is_users(kind: &str, body: &Body, wanted: &Patch) -> bool {
    let is_own = |reason: &str| own_reasons().any(|it| it == reason);
    let is_foreign = |reason: Option<&str>| reason.is_none_or(|it| !is_own(it));
    if let Some(edit) = wanted.status_edits().condition(kind) {
        // It may be ours, from a pass that could not be written.
        return is_foreign(edit.wanted.as_ref().map(|it| &*it.reason)) && edit.wanted.is_some();
    }
    let listed = wanted.get(&["status", "conditions"]);
    let listed = listed.and_then(|list| in_list(list, kind));
    let found = listed.or_else(|| stored(body, kind));
    found.is_some_and(|it| is_foreign(it["reason"].as_str()))
}
