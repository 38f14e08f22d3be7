//! The facts about an object: its life-cycle state, its changes since it was last handled, and the handlers whose filters match it.
//!
//! Filters are evaluated here, once per plan and reason. Must not know the decision.

use std::sync::Arc;

use crate::handler::definition::Handler;
use crate::handler::subject::Reason;
use crate::happening::handling::Handling;
use crate::object::event::EventType;
use crate::reaction::comparison::{Candidate, Comparison};
use crate::reaction::input::Input;
use crate::reaction::memory::Target;
use crate::reaction::progress_table::Ledger;
use crate::state::finalizer;
use crate::state::progress::Record;

/// All facts that a decision depends on.
pub(super) struct Facts {
    pub(super) life: Life,
    /// The reason to handle it; `None` if its essence is unchanged.
    pub(super) reason: Option<Reason>,
    /// `None` if no handler could be affected by any change.
    pub(super) change: Option<ChangeFacts>,
    /// The deletion handlers for which the object must stay although they are not served now.
    pub(super) withheld: Vec<Arc<str>>,
    /// True if another operator adds the finalizer again and again.
    pub(super) finalizer_is_contested: bool,
    pub(super) deletion_was_handled: bool,
    /// True if daemons and timers block its deletion.
    pub(super) is_held_in_background: bool,
}

/// The handlers for a change.
pub(super) struct ChangeFacts {
    pub(super) comparison: Comparison,
    pub(super) ledger: Ledger,
    pub(super) candidates: Vec<Candidate>,
}

/// The life-cycle state of the object, and the presence of the operator's finalizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Living {
        has_finalizer: bool,
    },
    /// Marked for deletion.
    Terminating {
        has_finalizer: bool,
    },
    Gone,
}

impl Facts {
    /// Returns true if the filters of some handler match the object.
    pub(super) fn is_in_scope(&self) -> bool {
        self.candidates().any(|it| it.applies)
    }
    pub(super) fn needs_finalizer(&self) -> bool {
        self.candidates().any(Candidate::needs_finalizer)
    }
    /// Returns true if the object needs the finalizer.
    pub(super) fn is_held(&self) -> bool {
        self.needs_finalizer() || self.is_held_in_background
    }
    /// Returns true if some handler wants to see the deletion without blocking it.
    pub(super) fn wants_to_see_deletion(&self) -> bool {
        self.candidates().any(Candidate::is_optional_deletion)
    }
    fn candidates(&self) -> impl Iterator<Item = &Candidate> {
        self.change.iter().flat_map(|change| &change.candidates)
    }
}

/// Collects the facts.
pub(super) fn observe(input: &Input<'_>, told: &mut Vec<Handling>) -> Facts {
    let life = life(input);
    let handlers = input.handlers.iter();
    let changing: Vec<_> = handlers.filter(|it| it.is_for_changes()).collect();
    let holds = !matches!(life, Life::Gone | Life::Terminating { has_finalizer: false });
    let mut facts = Facts {
        life,
        reason: None,
        change: None,
        withheld: Vec::new(),
        finalizer_is_contested: input.finalizer_is_contested,
        deletion_was_handled: input.seen.deletion_was_handled,
        is_held_in_background: false,
    };
    let may_concern = if holds {
        !(changing.is_empty() && input.withheld.is_empty())
    } else {
        changing.iter().any(|it| it.is_optional_deletion())
    };
    if may_concern {
        let ledger = Ledger::read(input, &changing, told);
        let comparison = comparison(input, &changing, &ledger, told);
        let (reason, candidates) = candidates(input, &changing, &comparison, &ledger);
        facts.reason = reason;
        let is_held = life != (Life::Living { has_finalizer: false }) && holds;
        if is_held {
            facts.withheld = withheld(input, &comparison, reason);
        }
        facts.change = Some(ChangeFacts { comparison, ledger, candidates });
    }
    facts
}

pub(super) fn life(input: &Input<'_>) -> Life {
    let has_finalizer = finalizer::is_on(input.body, &input.persistence.finalizer);
    if input.event == Some(EventType::Deleted) {
        Life::Gone
    } else if input.body.is_deleting() {
        Life::Terminating { has_finalizer }
    } else {
        Life::Living { has_finalizer }
    }
}

fn withheld(input: &Input<'_>, comparison: &Comparison, reason: Option<Reason>) -> Vec<Arc<str>> {
    let holds = |handler: &&Arc<Handler>| {
        let candidate = comparison.candidate(input, handler, reason);
        candidate.needs_finalizer()
    };
    let withheld = input.withheld.iter().filter(holds);
    withheld.map(|handler| handler.id.clone()).collect()
}

/// Compares the last-handled essence, the current one, and the target of the cycle.
fn comparison(
    input: &Input<'_>,
    changing: &[&Arc<Handler>],
    ledger: &Ledger,
    told: &mut Vec<Handling>,
) -> Comparison {
    // Memory has the essence if the object could not hold it: the object then carries an older or a damaged one.
    let in_progress = input.seen.in_progress.as_ref();
    let last = in_progress.and_then(|in_progress| in_progress.last.clone()).or_else(|| {
        let last = input.persistence.essence.fetch(input.body);
        last.unwrap_or_else(|damage| {
            told.push(Handling::LastHandledLost { damage });
            None
        })
    });
    let all = changing.iter().copied();
    let watching = input.handlers.iter().filter(|it| it.is_for_events());
    let fields = all.chain(watching).filter_map(|it| it.field());
    let newest = input.persistence.essence_of(input.body, fields);
    let target = Target::of(input, &newest, ledger, told);
    let comparison = Comparison::new(last, target, newest);
    if input.body.is_deleting() { comparison.of_deletion() } else { comparison }
}

/// Returns the reason, and the handlers with the results of their filters.
fn candidates(
    input: &Input<'_>,
    changing: &[&Arc<Handler>],
    comparison: &Comparison,
    ledger: &Ledger,
) -> (Option<Reason>, Vec<Candidate>) {
    let is_living = matches!(life(input), Life::Living { .. });
    let marked = |handler: &Handler| {
        let field = handler.field();
        let is_marked = is_living
            && handler.reacts_to_differences()
            && ledger.is_marked(&handler.id, &comparison.newest, field);
        ledger.record(&handler.id).filter(|_| is_marked)
    };
    let marked: Vec<Option<&Record>> = changing.iter().map(|it| marked(it)).collect();
    let reason = |marked, resumes| {
        let initial = input.seen.is_initial() || resumes;
        comparison.reason(!is_living, marked, initial)
    };
    let mut owning = changing.iter();
    let drifted = owning.any(|it| input.seen.has_drifted(it, input.handlers));
    let supposed = reason(marked.iter().any(Option::is_some), drifted);
    let candidates_for = |reason| -> Vec<Candidate> {
        let candidate = |(handler, marked): (&&Arc<Handler>, Option<&Record>)| {
            let comparison = comparison.of(handler, ledger.record(&handler.id));
            match marked {
                Some(record) => comparison.marked_candidate(input, handler, reason, record),
                None => comparison.candidate(input, handler, reason),
            }
        };
        changing.iter().zip(marked.iter().copied()).map(candidate).collect()
    };
    let candidates = candidates_for(supposed);
    // If the filters exclude the marked handlers, the reason is a different one, and the filters are evaluated for that.
    let real = reason(
        candidates.iter().any(|it| it.marked && it.applies),
        candidates.iter().any(|it| it.resumes() && it.applies),
    );
    if real == supposed { (real, candidates) } else { (real, candidates_for(real)) }
}
