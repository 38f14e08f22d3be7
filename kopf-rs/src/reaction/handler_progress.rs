//! A handler within a cycle: its record, its limits, and its due time. Must not know other handlers.

use std::sync::Arc;

use jiff::Timestamp;

use crate::handler::cause::Attempt;
use crate::handler::definition::Handler;
use crate::reaction::comparison::Comparison;
use crate::reaction::limits::{Exhausted, attempt};
use crate::reaction::standing::Standing;
use crate::state::progress::{Record, micros};

/// One handler of the cycle.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) handler: Arc<Handler>,
    pub(super) record: Record,
    /// True if the handler also reacts to later changes, so that the state seen by its last attempt matters.
    pub(super) recurs: bool,
    /// True if the object must stay until the handler is done.
    pub(super) holds: bool,
    /// True if the handler is for resuming only, and is owed one successful run regardless of changes.
    pub(super) only_resumes: bool,
    /// The limit that was reached: the handler then fails without a call.
    pub(super) exhausted: Option<Exhausted>,
    pub(super) standing: Standing,
    /// The change since its own last attempt, if that is the one that it gets.
    pub(super) own: Option<Arc<Comparison>>,
}

/// Which handlers may still be attempted, as far as a deletion restricts that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Openness {
    /// All handlers.
    All,
    /// Handlers that block the deletion are left. Meanwhile, optional deletion handlers are retried, and all others are called once.
    Held,
    /// No handler blocks the deletion any more: all others get one last call.
    LastChance,
}

/// The combined purpose of the selected declarations of one id.
#[derive(Clone, Copy, Debug)]
pub(super) struct Declared {
    /// Only resuming.
    pub(super) only_resumes: bool,
    /// The object must stay until the handler has seen its deletion.
    pub(super) holds: bool,
    /// Deletions, whether or not they block it.
    pub(super) sees_deletions: bool,
}

/// Returns the time when the first unfinished handler is due.
pub(super) fn next_due<'a>(records: impl Iterator<Item = &'a Record>, now: Timestamp) -> Option<Timestamp> {
    let left = records.filter(|record| !record.is_final());
    left.map(|record| record.delayed.unwrap_or(now)).min()
}

impl Declared {
    pub(super) fn of(id: &str, selected: &[Arc<Handler>]) -> Self {
        let declarations = || selected.iter().filter(|it| *it.id == *id);
        let holds = declarations().any(|it| it.needs_finalizer());
        Self {
            only_resumes: declarations().all(|it| it.is_for_resuming()),
            holds,
            sees_deletions: holds || declarations().any(|it| it.is_optional_deletion()),
        }
    }
}

impl Member {
    /// Returns true if attempts are left.
    pub(super) fn is_open(&self, openness: Openness) -> bool {
        let is_open = match openness {
            Openness::All => true,
            Openness::Held => !self.had_its_chance() || self.handler.is_optional_deletion(),
            Openness::LastChance => !self.had_its_chance(),
        };
        is_open && !self.record.is_final()
    }

    /// Returns true if a deletion no longer waits for the handler.
    pub(super) fn had_its_chance(&self) -> bool {
        !self.holds && (self.record.was_called() || self.is_suspended())
    }

    pub(super) fn is_suspended(&self) -> bool {
        self.standing == Standing::Suspended
    }

    /// Returns the limit that was reached, if any.
    pub(super) fn limit_reached(&self, now: Timestamp) -> Option<Exhausted> {
        if self.standing != Standing::Released {
            return Exhausted::of(&self.handler, &self.record, now);
        }
        let mut record = self.record.clone();
        record.started = micros(now);
        Exhausted::of(&self.handler, &record, now)
    }

    /// Begins an attempt.
    pub(super) fn begin(&mut self, now: Timestamp) {
        if self.standing == Standing::Released {
            self.record.started = micros(now);
        }
        // The keys of its attempts contain the time in the record, which must stay the same after a crash.
        if !self.handler.is_keyed {
            self.record.begin(now);
        }
    }

    pub(super) fn attempt(&self, now: Timestamp) -> Attempt {
        attempt(&self.record, now)
    }
}
