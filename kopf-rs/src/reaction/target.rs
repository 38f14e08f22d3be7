//! Determines the target essence of a cycle.

use crate::handler::subject::Reason;
use crate::happening::handling::Handling;
use crate::object::essence::Essence;
use crate::reaction::input::Input;
use crate::reaction::memory::{Ongoing, Target};
use crate::reaction::progress_table::Ledger;
use crate::state::diffbase::KnownEssence;

impl Target {
    /// Returns the target in memory, or else the one that the object carries, or else the current object.
    pub(super) fn of(input: &Input<'_>, newest: &Essence, ledger: &Ledger, told: &mut Vec<Handling>) -> Self {
        let deleting = input.body.is_deleting();
        let goes_on = |ongoing: &&Ongoing| match ongoing.reason {
            Reason::Delete => deleting,
            // In a deletion, handlers get the change from the state that they have handled.
            Reason::Create | Reason::Update => true,
            // No handler has acted on a change yet.
            Reason::Resume => false,
        };
        let held = input.seen.ongoing().filter(goes_on);
        if let Some(held) = held.and_then(|ongoing| ongoing.target.as_ref()) {
            let is_newest = held.is(newest);
            return Self {
                essence: if is_newest { KnownEssence::Whole(newest.clone()) } else { held.clone() },
                is_fixed: true,
            };
        }
        let carried = input.persistence.progress.fetch_target(input.body);
        let carried = carried.unwrap_or_else(|damage| {
            told.push(Handling::TargetLost { damage });
            None
        });
        // The target was fixed when a handler was done, so that handler's record must be present. Otherwise the annotation is a copy or was
        // edited.
        let carried = carried.filter(|_| deleting || ledger.carries_a_finished_change());
        let is_fixed = carried.is_some();
        // For a state that was too large, only a digest exists, from which no changes can be computed: the cycle continues with the current
        // object, and handlers that were done with the former state are called again.
        let is_kept = |it: &KnownEssence| matches!(it, KnownEssence::Whole(_));
        let carried = carried.filter(|it| !it.is(newest) && is_kept(it));
        Self { essence: carried.unwrap_or_else(|| KnownEssence::Whole(newest.clone())), is_fixed }
    }
}
