//! Which essence a cycle is after.

use crate::handler::subject::Reason;
use crate::happening::handling::{Handling, StateTrouble};
use crate::object::essence::Essence;
use crate::reaction::input::Input;
use crate::reaction::ledger::Ledger;
use crate::reaction::memory::{Ongoing, Target};
use crate::state::diffbase::KnownEssence;

impl Target {
    /// The target that memory holds, else the one that the object carries, else the object as it is.
    pub(super) fn of(
        input: &Input<'_>,
        newest: &Essence,
        ledger: &Ledger,
        told: &mut Vec<Handling>,
    ) -> Self {
        let deleting = input.body.is_deleting();
        let goes_on = |ongoing: &&Ongoing| match ongoing.reason {
            Reason::Delete => deleting,
            // A deletion tells handlers of the change from what they have handled.
            Reason::Create | Reason::Update => true,
            // Nobody has acted on a change yet.
            Reason::Resume => false,
        };
        let held = input.seen.ongoing().filter(goes_on);
        if let Some(held) = held.and_then(|ongoing| ongoing.target.as_ref()) {
            let is_newest = held.is(newest);
            return Self {
                essence: if is_newest {
                    KnownEssence::Whole(newest.clone())
                } else {
                    held.clone()
                },
                is_fixed: true,
            };
        }
        let carried = input.persistence.progress.fetch_target(input.body);
        let carried = carried.unwrap_or_else(|damage| {
            told.push(Handling::State(StateTrouble::TargetLost(damage)));
            None
        });
        // It was fixed when somebody was done, whose record is beside it; else it is a copy, or was put there by hand.
        let carried = carried.filter(|_| deleting || ledger.carries_a_finished_change());
        let takes_digests = input.persistence.essence.takes_digests();
        let is_fixed = carried.is_some();
        // A digest of another state could not be stored in the end: the cycle goes on, for the object as it is.
        let is_kept = |it: &KnownEssence| takes_digests || matches!(it, KnownEssence::Whole(_));
        let carried = carried.filter(|it| !it.is(newest) && is_kept(it));
        Self {
            essence: carried.unwrap_or_else(|| KnownEssence::Whole(newest.clone())),
            is_fixed,
        }
    }
}
