//! Decides how an object is handled now: one table.
//!
//! | The object | Handlers whose filters let it pass | What is done |
//! |---|---|---|
//! | lives | one needs the finalizer, or runs in the background; it is not on | add the finalizer |
//! | lives | none needs the finalizer, or runs in the background; it is on, and nothing keeps it there | remove the finalizer |
//! | lives | none | nothing: what is remembered stays remembered |
//! | lives | some, and there is a reason: creation, update, resuming | handle that |
//! | lives | some, and nothing that counts has changed | take off what is left of former cycles |
//! | is terminating, with the finalizer | some that are not served now | wait for them |
//! | is terminating, with the finalizer | none is for deletions, some have not ended in the background | wait for them |
//! | is terminating, with the finalizer | none is for deletions | remove the finalizer |
//! | is terminating, with the finalizer | some are for deletions | handle the deletion |
//! | is terminating without the finalizer, or gone | some optional ones for deletions, not called yet | handle the deletion as well as that goes |
//! | is terminating without the finalizer, or gone | none of these | forget it |
//!
//! The first row that fits counts. The finalizer is kept on a living object where another operator would add it again and again, and where a
//! deletion handler that needs it is not served now. Must not know how the facts were found.

use crate::handler::subject::Reason;
use crate::reaction::facts::{Facts, Life};

/// How an object is handled now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Nothing, and nothing is forgotten: no handler's filters select the object.
    Nothing,
    /// Nothing until the deletion handlers are served again.
    AwaitDeletionHandlers,
    /// Nothing until daemons and timers have ended.
    AwaitBackground,
    /// Forget an object whose deletion no handler is for.
    Forget,
    /// Take off what is left of former cycles.
    Purge,
    AddFinalizer,
    RemoveFinalizer,
    /// Call handlers, or wait for them, or finish.
    Handle {
        reason: Reason,
        mode: Mode,
    },
}

/// The writes that are permitted while handlers are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Everything.
    Persisted,
    /// Best effort for a terminating object without the finalizer: no record is written.
    Terminating,
    /// Best effort for an object that is no more: nothing can be written, and there is no later.
    Gone,
}

pub(super) fn decide(facts: &Facts) -> Decision {
    let deletion = |mode| Decision::Handle {
        reason: Reason::Delete,
        mode,
    };
    let is_kept = facts.finalizer_is_contested || !facts.withheld.is_empty();
    let is_best_effort_due = facts.wants_to_see_deletion() && !facts.deletion_was_handled;
    match facts.life {
        Life::Living {
            has_finalizer: false,
        } if facts.is_held() => Decision::AddFinalizer,
        Life::Living {
            has_finalizer: true,
        } if !facts.is_held() && !is_kept => Decision::RemoveFinalizer,
        Life::Living { .. } if !facts.is_in_scope() => Decision::Nothing,
        Life::Living { .. } => match facts.reason {
            Some(reason) => Decision::Handle {
                reason,
                mode: Mode::Persisted,
            },
            None => Decision::Purge,
        },
        Life::Terminating {
            has_finalizer: true,
        } if !facts.withheld.is_empty() => Decision::AwaitDeletionHandlers,
        Life::Terminating {
            has_finalizer: true,
        } if !facts.needs_finalizer() && !facts.wants_to_see_deletion() => {
            if facts.is_held_in_background {
                Decision::AwaitBackground
            } else {
                Decision::RemoveFinalizer
            }
        }
        Life::Terminating {
            has_finalizer: true,
        } => deletion(Mode::Persisted),
        Life::Terminating { .. } if is_best_effort_due => deletion(Mode::Terminating),
        Life::Gone if is_best_effort_due => deletion(Mode::Gone),
        Life::Terminating { .. } | Life::Gone => Decision::Forget,
    }
}
