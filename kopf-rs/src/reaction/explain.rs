//! The facts of a plan for explaining it, without calls or writes.
//!
//! Inspects the object through the same functions as [`plan`](crate::reaction::plan::plan). Must not know any wording.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::handler::definition::Handler;
use crate::handler::subject::Reason;
use crate::object::diff::Diff;
use crate::reaction::comparison::Comparison;
use crate::reaction::input::Input;
use crate::reaction::plan::{Life, observe};
use crate::state::progress::Record;

/// The facts.
pub(crate) struct Explained {
    /// The reason for calling handlers of changes; `None` if the essence is unchanged.
    pub(crate) reason: Option<Reason>,
    pub(crate) has_finalizer: bool,
    /// The difference between the last-handled and the current state; empty for a new object.
    pub(crate) diff: Arc<Diff>,
    /// True if only a digest of the last-handled state is left.
    pub(crate) old_is_unknown: bool,
    /// The handlers of changes in the order of declaration.
    pub(crate) handlers: Vec<ExplainedHandler>,
    /// The records of sub-handlers by id.
    pub(crate) subhandlers: BTreeMap<Arc<str>, Record>,
}

/// One handler of changes.
pub(crate) struct ExplainedHandler {
    pub(crate) handler: Arc<Handler>,
    pub(crate) record: Option<Record>,
    /// True if its filters match the object.
    pub(crate) applies: bool,
    /// True if it is declared for the reason.
    pub(crate) is_for_reason: bool,
    /// True if it is to be called for the reason, or has been.
    pub(crate) is_selected: bool,
}

/// Inspects the object.
pub(crate) fn explain(input: &Input<'_>) -> Explained {
    let facts = observe(input, &mut Vec::new());
    let has_finalizer = matches!(
        facts.life,
        Life::Living { has_finalizer: true } | Life::Terminating { has_finalizer: true }
    );
    let (reason, initial) = (facts.reason, input.seen.is_initial());
    let handlers = facts.candidates.iter().map(|candidate| {
        let handler = candidate.handler.clone();
        let is_for = |reason| handler.is_for(reason, initial);
        ExplainedHandler {
            record: facts.ledger.record(&handler.id).cloned(),
            applies: candidate.applies,
            is_for_reason: reason.is_some_and(is_for),
            is_selected: reason.is_some_and(|it| candidate.is_selected(it, initial)),
            handler,
        }
    });
    let is_declared = |id: &Arc<str>| facts.candidates.iter().any(|it| it.handler.id == *id);
    let subhandlers = facts.ledger.iter().filter(|(id, _)| !is_declared(id));
    let comparison = facts.comparison.as_ref();
    Explained {
        reason,
        has_finalizer,
        diff: comparison.map(|it| it.diff.clone()).unwrap_or_default(),
        old_is_unknown: comparison.is_some_and(Comparison::is_old_unknown),
        handlers: handlers.collect(),
        subhandlers: subhandlers.map(|(id, record)| (id.clone(), record.clone())).collect(),
    }
}
