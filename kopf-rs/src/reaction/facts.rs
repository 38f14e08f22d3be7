//! The facts about an object: its life, its changes since it was handled last, and which handlers' filters select it.
//!
//! Filters are evaluated here, once per plan and reason. Must not know what follows from the facts.

use std::sync::Arc;

use crate::handler::definition::Handler;
use crate::handler::subject::Reason;
use crate::happening::handling::{Handling, StateTrouble};
use crate::object::event::EventType;
use crate::reaction::comparison::{Candidate, Comparison};
use crate::reaction::input::Input;
use crate::reaction::ledger::Ledger;
use crate::reaction::memory::Target;
use crate::state::finalizer;

/// All that a decision depends on.
pub(super) struct Facts {
    pub(super) life: Life,
    /// The reason to handle it; `None` where its essence is unchanged.
    pub(super) reason: Option<Reason>,
    /// Nothing where no handler could be concerned, whatever has changed.
    pub(super) change: Option<ChangeFacts>,
    /// Those of the deletion handlers that are not served now for which the object has to stay.
    pub(super) withheld: Vec<Arc<str>>,
    /// Another operator adds the finalizer again and again.
    pub(super) finalizer_is_contested: bool,
    pub(super) deletion_was_handled: bool,
    /// It has to stay for its daemons and timers.
    pub(super) is_held_in_background: bool,
}

/// The handlers for a change.
pub(super) struct ChangeFacts {
    pub(super) comparison: Comparison,
    pub(super) ledger: Ledger,
    pub(super) candidates: Vec<Candidate>,
}

/// Whether the object is to stay, and whether the operator's finalizer is on it.
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
    /// Whether the filters of some handler let the object pass.
    pub(super) fn is_in_scope(&self) -> bool {
        self.candidates().any(|it| it.applies)
    }
    pub(super) fn needs_finalizer(&self) -> bool {
        self.candidates().any(Candidate::needs_finalizer)
    }
    /// Whether the object must not vanish before it has been let go.
    pub(super) fn is_held(&self) -> bool {
        self.needs_finalizer() || self.is_held_in_background
    }
    /// Whether some handler wants to see the deletion without holding it up.
    pub(super) fn wants_to_see_deletion(&self) -> bool {
        self.candidates().any(Candidate::is_optional_deletion)
    }
    fn candidates(&self) -> impl Iterator<Item = &Candidate> {
        self.change.iter().flat_map(|change| &change.candidates)
    }
}

/// Find out what is the case.
pub(super) fn observe(input: &Input<'_>, told: &mut Vec<Handling>) -> Facts {
    let life = life(input);
    let handlers = input.handlers.iter();
    let changing: Vec<_> = handlers.filter(|it| it.is_for_changes()).collect();
    let holds = !matches!(
        life,
        Life::Gone
            | Life::Terminating {
                has_finalizer: false
            }
    );
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
        let is_held =
            life != (Life::Living {
                has_finalizer: false,
            }) && holds;
        if is_held {
            facts.withheld = withheld(input, &comparison, reason);
        }
        facts.change = Some(ChangeFacts {
            comparison,
            ledger,
            candidates,
        });
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
        let candidate = comparison.candidate(input, handler, reason, false);
        candidate.needs_finalizer()
    };
    let withheld = input.withheld.iter().filter(holds);
    withheld.map(|handler| handler.id.clone()).collect()
}

/// The last handled essence, the present one, and the target of the cycle.
fn comparison(
    input: &Input<'_>,
    changing: &[&Arc<Handler>],
    ledger: &Ledger,
    told: &mut Vec<Handling>,
) -> Comparison {
    // Memory has it where the object could not take it: what the object carries then is older, or damaged.
    let in_progress = input.seen.in_progress.as_ref();
    let last = in_progress
        .and_then(|in_progress| in_progress.last.clone())
        .or_else(|| {
            let last = input.persistence.essence.fetch(input.body);
            last.unwrap_or_else(|damage| {
                told.push(Handling::State(StateTrouble::LastHandledLost(damage)));
                None
            })
        });
    let all = changing.iter().copied();
    let watching = input.handlers.iter().filter(|it| it.is_for_events());
    let fields = all.chain(watching).filter_map(|it| it.field());
    let newest = input.persistence.essence_of(input.body, fields);
    let target = Target::of(input, &newest, ledger, told);
    let comparison = Comparison::new(last, target, newest);
    if input.body.is_deleting() {
        comparison.of_deletion()
    } else {
        comparison
    }
}

/// The reason, and the handlers with what their filters say.
fn candidates(
    input: &Input<'_>,
    changing: &[&Arc<Handler>],
    comparison: &Comparison,
    ledger: &Ledger,
) -> (Option<Reason>, Vec<Candidate>) {
    let is_living = matches!(life(input), Life::Living { .. });
    let is_marked = |handler: &Handler| {
        is_living
            && handler.reacts_to_differences()
            && ledger.is_marked(&handler.id, &comparison.newest, handler.field())
    };
    let marked: Vec<bool> = changing.iter().map(|it| is_marked(it)).collect();
    let reason = |marked, resumes| {
        let initial = input.seen.is_initial() || resumes;
        comparison.reason(!is_living, marked, initial)
    };
    let mut owning = changing.iter();
    let drifted = owning.any(|it| input.seen.has_drifted(it, input.handlers));
    let supposed = reason(marked.contains(&true), drifted);
    let candidates_for = |reason| -> Vec<Candidate> {
        let candidate = |(handler, marked): (&&Arc<Handler>, &bool)| {
            let comparison = comparison.of(handler, ledger.record(&handler.id));
            comparison.candidate(input, handler, reason, *marked)
        };
        changing.iter().zip(&marked).map(candidate).collect()
    };
    let candidates = candidates_for(supposed);
    // Where no filter lets such a handler through, the reason is another one: the filters are asked about that.
    let real = reason(
        candidates.iter().any(|it| it.marked && it.applies),
        candidates.iter().any(|it| it.resumes() && it.applies),
    );
    if real == supposed {
        (real, candidates)
    } else {
        (real, candidates_for(real))
    }
}
