//! From outcomes to effects.

use std::sync::Arc;

use jiff::Timestamp;

use crate::handler::outcome::Outcome;
use crate::object::patch::Patch;
use crate::reaction::plan::{Plan, Seen};

/// One attempt that was made.
#[derive(Debug)]
pub(crate) struct Attempted {
    /// Handler id.
    pub(crate) id: Arc<str>,
    pub(crate) outcome: Outcome,
}

/// What is to be done after the calls.
#[derive(Debug)]
pub(crate) struct Effects {
    /// The one merge patch of this cycle: progress, essence, finalizers, results, and what the handlers put in. Empty: nothing to write.
    pub(crate) patch: Patch,
    /// Set where the patch replaces the finalizers: it must only land on an object with exactly these finalizers.
    pub(crate) expected_finalizers: Option<Vec<String>>,
    /// When to plan again without an event. `now` or earlier: as soon as the patch has landed.
    pub(crate) wake_at: Option<Timestamp>,
    /// Log lines to write.
    pub(crate) lines: Vec<Line>,
    /// Handlers that failed for good in this pass.
    pub(crate) failed: Vec<Arc<str>>,
    /// To remember once the patch has landed (or was empty).
    pub(crate) seen: Seen,
    /// To remember where the patch was refused: outcomes that still have to be written, so that no handler runs twice.
    pub(crate) seen_if_refused: Seen,
}

/// A log line about the object, in Kopf's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) level: tracing::Level,
    pub(crate) text: String,
}

/// Turn outcomes into effects. `patch` is what the called handlers have put in.
pub(crate) fn settle(
    plan: Plan,
    attempted: Vec<Attempted>,
    patch: Patch,
    now: Timestamp,
) -> Effects {
    let _ = (plan, attempted, patch, now);
    todo!("core")
}
