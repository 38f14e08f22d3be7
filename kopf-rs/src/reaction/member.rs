//! A handler within a cycle: its record, its limits, when it is due. Must not know other handlers.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::handler::cause::Attempt;
use crate::handler::definition::Handler;
use crate::state::progress::{Record, micros};

/// One handler of the cycle.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) handler: Arc<Handler>,
    pub(super) record: Record,
    /// It is also for later changes, so it matters what its last attempt has seen.
    pub(super) recurs: bool,
    /// The object must not vanish before it is done.
    pub(super) holds: bool,
    /// It is for nothing but resuming, and owed one successful run, whatever changes meanwhile.
    pub(super) only_resumes: bool,
    /// Its limits are reached: it fails without being called.
    pub(super) exhausted: Option<Exhausted>,
    pub(super) standing: Standing,
}

/// Whether a handler may be called for the object as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Callable,
    /// Its attempts have keys, and the object does not carry yet what they are made of.
    AwaitsRecord,
    Suspended,
    /// It was suspended, and the object has changed since: its time counts anew.
    Released,
}

/// What the selected declarations of one id are for, all together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Declared {
    /// Nothing but resuming.
    pub(super) only_resumes: bool,
    /// The object must not vanish before the handler has seen its deletion.
    pub(super) holds: bool,
    /// Deletions, holding the object or not.
    pub(super) sees_deletions: bool,
}

/// Which limit is reached.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Exhausted {
    Timeout(Duration),
    Retries(u32),
}

/// When the first of those that are left is due.
pub(super) fn next_due<'a>(
    records: impl Iterator<Item = &'a Record>,
    now: Timestamp,
) -> Option<Timestamp> {
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
    /// Whether there is something more to attempt. A deletion waits for deletion handlers only: others are called once, as a last chance.
    pub(super) fn is_left(&self, is_persisted_deletion: bool) -> bool {
        let record = &self.record;
        let is_passed_by = record.was_called() || self.is_suspended();
        let had_its_chance = is_persisted_deletion && !self.holds && is_passed_by;
        !record.is_final() && !had_its_chance
    }

    pub(super) fn is_suspended(&self) -> bool {
        self.standing == Standing::Suspended
    }

    /// The limit that it has reached, if any.
    pub(super) fn limit_reached(&self, now: Timestamp) -> Option<Exhausted> {
        if self.standing != Standing::Released {
            return Exhausted::of(&self.handler, &self.record, now);
        }
        let mut record = self.record.clone();
        record.started = micros(now);
        Exhausted::of(&self.handler, &record, now)
    }

    /// An attempt begins.
    pub(super) fn begin(&mut self, now: Timestamp) {
        if self.standing == Standing::Released {
            self.record.started = micros(now);
        }
        // The keys of its attempts are made of the time in the record, which a crash must not change.
        if !self.handler.is_keyed {
            self.record.begin(now);
        }
    }

    pub(super) fn attempt(&self, now: Timestamp) -> Attempt {
        attempt(&self.record, now)
    }
}

impl Exhausted {
    /// The limit that `handler` has reached, if any. No time runs out before the first attempt.
    pub(crate) fn of(handler: &Handler, record: &Record, now: Timestamp) -> Option<Self> {
        let runtime = since(record.started, now);
        let is_over = |timeout| record.was_called() && runtime >= timeout;
        if handler.timeout().is_some_and(is_over) {
            return Some(Self::Timeout(runtime));
        }
        let limit = handler.retries()?;
        (record.retries >= limit).then_some(Self::Retries(limit))
    }
}

/// What a handler is told of its attempts.
pub(crate) fn attempt(record: &Record, now: Timestamp) -> Attempt {
    Attempt {
        retry: record.retries,
        is_first: !record.was_called(),
        started: record.started,
        runtime: since(record.started, now),
        key: None,
    }
}

/// The time from `then` to `now`; none where the clock was set back.
pub(crate) fn since(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then)).unwrap_or_default()
}
