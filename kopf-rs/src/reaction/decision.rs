//! Decides how an object is handled now, by one table.
//!
//! | The object | Handlers whose filters match it | Action |
//! |---|---|---|
//! | lives | one needs the finalizer, or runs in the background; the finalizer is missing | add the finalizer |
//! | lives | none needs the finalizer or runs in the background; the finalizer is present and not needed otherwise | remove the finalizer |
//! | lives | none | nothing; the memory is kept |
//! | lives | some, and there is a reason: creation, update, resuming | handle that reason |
//! | lives | some, and the essence is unchanged | remove leftovers of former cycles |
//! | is terminating, with the finalizer | some are not served now | wait for them |
//! | is terminating, with the finalizer | none is for deletions, some still run in the background | wait for them |
//! | is terminating, with the finalizer | none is for deletions | remove the finalizer |
//! | is terminating, with the finalizer | some are for deletions | handle the deletion |
//! | is terminating without the finalizer, or gone | some optional ones for deletions, not called yet | handle the deletion as far as possible |
//! | is terminating without the finalizer, or gone | none of these | forget the object |
//!
//! The first matching row applies. The finalizer stays on a living object if another operator would add it again and again, or if a deletion
//! handler that needs it is not served now. Must not know how the facts were found.

use crate::handler::subject::Reason;
use crate::reaction::facts::{Facts, Life};

/// The way in which an object is handled now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// No action, and the memory is kept: no handler's filters match the object.
    Nothing,
    /// Wait until the deletion handlers are served again.
    AwaitDeletionHandlers,
    /// Wait until daemons and timers have ended.
    AwaitBackground,
    /// Forget an object that no deletion handler applies to.
    Forget,
    /// Remove leftovers of former cycles.
    Purge,
    AddFinalizer,
    RemoveFinalizer,
    /// Call handlers, wait for them, or finish.
    Handle {
        reason: Reason,
        mode: Mode,
    },
}

/// The writes that are permitted while handlers are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// All writes.
    Persisted,
    /// Best effort for a terminating object without the finalizer: no records are written.
    Terminating,
    /// Best effort for an object that no longer exists: no writes are possible, and there is no later attempt.
    Gone,
}

pub(super) fn decide(facts: &Facts) -> Decision {
    let deletion = |mode| Decision::Handle { reason: Reason::Delete, mode };
    let is_kept = facts.finalizer_is_contested || !facts.withheld.is_empty();
    let is_best_effort_due = facts.wants_to_see_deletion() && !facts.deletion_was_handled;
    match facts.life {
        Life::Living { has_finalizer: false } if facts.is_held() => Decision::AddFinalizer,
        Life::Living { has_finalizer: true } if !facts.is_held() && !is_kept => Decision::RemoveFinalizer,
        Life::Living { .. } if !facts.is_in_scope() => Decision::Nothing,
        Life::Living { .. } => match facts.reason {
            Some(reason) => Decision::Handle { reason, mode: Mode::Persisted },
            None => Decision::Purge,
        },
        Life::Terminating { has_finalizer: true } if !facts.withheld.is_empty() => {
            Decision::AwaitDeletionHandlers
        }
        Life::Terminating { has_finalizer: true }
            if !facts.needs_finalizer() && !facts.wants_to_see_deletion() =>
        {
            if facts.is_held_in_background {
                Decision::AwaitBackground
            } else {
                Decision::RemoveFinalizer
            }
        }
        Life::Terminating { has_finalizer: true } => deletion(Mode::Persisted),
        Life::Terminating { .. } if is_best_effort_due => deletion(Mode::Terminating),
        Life::Gone if is_best_effort_due => deletion(Mode::Gone),
        Life::Terminating { .. } | Life::Gone => Decision::Forget,
    }
}
