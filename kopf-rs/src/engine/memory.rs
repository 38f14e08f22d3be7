//! What the process remembers of an object: facts, the handlers' memo, the version handled last.
//!
//! Twenty thousand of these rest at once: small, and no body among them.

use std::cmp::Ordering;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use tokio::time::Instant;

use crate::engine::running_calls::RunningCall;
use crate::handler::memo::Memo;
use crate::handler::stopped::StopReason;
use crate::object::event::EventType;
use crate::reaction::background::BackgroundMemory;
use crate::reaction::memory::ObjectMemory;
use crate::state::trace::Trace;

/// The memory of one object.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) seen: ObjectMemory,
    /// Made when first needed; dropped again where nothing is in it and nobody holds it.
    pub(crate) memo: Option<Memo>,
    /// The newest version handled or written by us.
    pub(crate) version: Version,
    /// What of the operator's own it carries in the newest state known.
    pub(crate) trace: Option<Trace>,
    pub(crate) lately: Lately,
}

/// What this process has seen of its own work on the object. Most objects are at rest from the start and take a pointer.
#[derive(Debug, Default)]
pub(crate) struct Lately(Option<Box<Recent>>);

#[derive(Debug, Default)]
pub(crate) struct Recent {
    pub(crate) pace: Pace,
    /// When the server has last answered a read or a write of ours: a listing that was asked for later is newer than what it said.
    pub(crate) answered: Option<Instant>,
    pub(crate) self_triggered: SelfTriggered,
    /// How often somebody else has put the operator's finalizer on.
    pub(crate) readded_finalizers: u8,
    /// Boxed: most objects have no daemons and timers.
    background: Option<Box<ObjectBackground>>,
}

/// The daemons and timers of an object.
#[derive(Debug, Default)]
pub(crate) struct ObjectBackground {
    pub(crate) memory: BackgroundMemory,
    /// Boxed: most timers rest.
    calls: Option<Box<ObjectCalls>>,
    /// When to look at them without any other reason.
    pub(crate) due: Option<Instant>,
}

/// The calls of an object that run.
#[derive(Debug, Default)]
struct ObjectCalls(Vec<Arc<RunningCall>>);

/// An object that was not found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Missing {
    /// What its watch has told of it, where that was not handled yet.
    pub(super) event: Option<EventType>,
}

impl Memory {
    pub(crate) fn first(event: EventType) -> Self {
        Self {
            seen: ObjectMemory::first(event),
            ..Self::default()
        }
    }

    /// What of it is remembered while the operator is paused: others may change the object meanwhile.
    pub(crate) fn before_a_pause(mut self) -> Self {
        Self {
            memo: self.memo.take(),
            seen: std::mem::take(&mut self.seen).before_a_pause(),
            ..Self::default()
        }
    }

    /// Whether another instance that takes over has to look at the object, though nothing has changed.
    pub(crate) fn asks_for_something(&self) -> bool {
        self.background().is_some() || self.seen.is_unfinished()
    }

    /// Its daemons and timers, where it has any.
    pub(crate) fn background(&self) -> Option<&ObjectBackground> {
        self.lately.background.as_deref()
    }

    /// The same, to be changed.
    pub(crate) fn background_mut(&mut self) -> Option<&mut ObjectBackground> {
        self.background()?;
        self.lately.background.as_deref_mut()
    }

    /// The same, where it may be the first one.
    pub(crate) fn background_or_none(&mut self) -> &mut ObjectBackground {
        self.lately.background.get_or_insert_default()
    }

    /// Forget them.
    pub(crate) fn take_background(&mut self) -> Option<Box<ObjectBackground>> {
        self.background()?;
        self.lately.background.take()
    }

    /// Whether the object has to stay for its daemons and timers.
    pub(crate) fn is_held_in_background(&self, is_living: bool) -> bool {
        self.background()
            .is_some_and(|it| it.memory.holds(is_living))
    }

    /// Whether an operator that is to end waits for timers of the object.
    pub(crate) fn is_ticking(&self, now: Timestamp) -> bool {
        self.background().is_some_and(|it| {
            let goes_on = it.due.is_some() || it.has_calls();
            goes_on && it.memory.is_ticking(now)
        })
    }

    /// When to look at its daemons and timers without any other reason.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.background()?.due
    }

    /// Whether calls of daemons and timers run.
    pub(crate) fn has_calls(&self) -> bool {
        let background = self.background();
        background.is_some_and(ObjectBackground::has_calls)
    }
}

impl ObjectBackground {
    /// Those that run.
    pub(crate) fn calls(&self) -> &[Arc<RunningCall>] {
        self.calls.as_ref().map_or(&[], |calls| &calls.0)
    }

    pub(crate) fn has_calls(&self) -> bool {
        self.calls.is_some()
    }

    /// Those that run, which are nothing of the object's any more.
    pub(crate) fn take_calls(&mut self) -> Vec<Arc<RunningCall>> {
        self.calls.take().map(|calls| calls.0).unwrap_or_default()
    }

    /// A call begins.
    pub(crate) fn begins(&mut self, call: Arc<RunningCall>) {
        self.calls.get_or_insert_default().0.push(call);
    }

    /// The call of that number has ended. `false` where there is none.
    pub(crate) fn ends(&mut self, number: u64) -> bool {
        let Some(calls) = &mut self.calls else {
            return false;
        };
        let count = calls.0.len();
        calls.0.retain(|call| call.number != number);
        let is_known = calls.0.len() < count;
        self.calls.take_if(|calls| calls.0.is_empty());
        is_known
    }
}

impl Drop for ObjectBackground {
    /// The engine ends the calls of an object before it forgets the object. This ends those of a worker that has panicked.
    fn drop(&mut self) {
        for call in self.calls() {
            call.stopped.set(StopReason::RESOURCE_UNWATCHED);
            call.cancelled.cancel();
        }
    }
}

/// A `resourceVersion`: a number on every server known, but opaque by contract.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Version {
    #[default]
    Unknown,
    Number(u64),
    Opaque(Box<str>),
}

impl Deref for Lately {
    type Target = Recent;
    fn deref(&self) -> &Recent {
        static NONE: LazyLock<Recent> = LazyLock::new(Recent::default);
        self.0.as_deref().unwrap_or(&NONE)
    }
}

impl DerefMut for Lately {
    fn deref_mut(&mut self) -> &mut Recent {
        self.0.get_or_insert_default()
    }
}

impl Version {
    pub(crate) fn of(text: &str) -> Self {
        match text.parse() {
            Ok(number) => Self::Number(number),
            Err(_) if text.is_empty() => Self::Unknown,
            Err(_) => Self::Opaque(text.into()),
        }
    }

    /// Whether a state of version `other` tells nothing new to whom knows this version.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Number(known), Self::Number(other)) => known.cmp(other) != Ordering::Less,
            (Self::Opaque(known), Self::Opaque(other)) => known == other,
            _ => false,
        }
    }

    /// Whether a state of version `other` tells nothing new to code that knows this version, from a listing that was asked for at `listing` or
    /// from a watch; the server has last answered about the object at `answered`.
    ///
    /// A listing is as new as the moment when it was asked for. So an older version in it is only then an old state where the object was
    /// read or written since. Else the server itself has gone back, restored from a backup: what it lists counts.
    pub(crate) fn knows(
        &self,
        other: &Self,
        listing: Option<Instant>,
        answered: Option<Instant>,
    ) -> bool {
        let is_truth = || {
            let asked = listing.filter(|_| other != self);
            asked.is_some_and(|asked| answered.is_none_or(|last| last < asked))
        };
        self.covers(other) && !is_truth()
    }
}

/// How busy the object has been lately: many cycles back to back are paced (row 25 of `docs/coming-from-kopf.md`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    streak: u8,
    ended: Option<Instant>,
}

impl Pace {
    /// Cycles closer than this are back to back.
    const CLOSE: std::time::Duration = std::time::Duration::from_millis(200);
    /// So many may follow each other unpaced.
    const FREE: u8 = 3;
    const FIRST: std::time::Duration = std::time::Duration::from_millis(25);
    const LONGEST: std::time::Duration = std::time::Duration::from_millis(800);

    /// A cycle has ended.
    pub(crate) fn ended(&mut self, now: Instant) {
        self.ended = Some(now);
    }

    /// A change has come in at `arrived`: how long to collect further ones before handling the newest.
    pub(crate) fn pause(&mut self, arrived: Instant) -> Option<std::time::Duration> {
        let close = self
            .ended
            .is_some_and(|ended| arrived < ended + Self::CLOSE);
        self.streak = if close {
            self.streak.saturating_add(1)
        } else {
            0
        };
        let over = u32::from(self.streak.checked_sub(Self::FREE)?);
        Some((Self::FIRST * 2_u32.pow(over.min(5))).min(Self::LONGEST))
    }
}

/// How often in a row the object was changed by its own handlers only (row 30 of `docs/coming-from-kopf.md`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SelfTriggered(u8);

impl SelfTriggered {
    /// So many may follow each other without a pause.
    pub(crate) const FREE: u8 = 20;
    const FIRST: std::time::Duration = std::time::Duration::from_millis(500);
    const LONGEST: std::time::Duration = std::time::Duration::from_secs(60);

    /// Its handlers have changed it. `true` where that has become too often.
    pub(crate) fn count(&mut self) -> bool {
        self.0 = self.0.saturating_add(1);
        self.0 == Self::FREE
    }

    /// Somebody else has changed it.
    pub(crate) fn end(&mut self) {
        self.0 = 0;
    }

    /// How long to wait before the handlers may change it again.
    pub(crate) fn pause(self) -> Option<std::time::Duration> {
        let over = u32::from(self.0.checked_sub(Self::FREE)?);
        Some((Self::FIRST * 2_u32.pow(over.min(7))).min(Self::LONGEST))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::timers::Timers;

    #[test]
    fn an_object_that_was_never_worked_on_takes_few_bytes() {
        assert!(size_of::<Memory>() <= 72, "{}", size_of::<Memory>());
        assert!(Memory::default().lately.0.is_none());
    }

    /// Ten thousand may rest, and each takes 200 bytes more than an object without.
    #[test]
    fn an_object_with_a_timer_at_rest_takes_few_bytes() {
        let sizes = [
            size_of::<Recent>(),
            size_of::<ObjectBackground>(),
            BackgroundMemory::SIZE_OF_A_TIMER,
            Timers::SIZE,
        ];
        let all: usize = sizes.iter().sum();
        assert!(all <= 200, "{all} bytes: {sizes:?}");
    }

    #[test]
    fn versions_compare_as_numbers_or_by_equality() {
        let known = Version::of("10");
        assert!(known.covers(&Version::of("10")) && known.covers(&Version::of("9")));
        assert!(!known.covers(&Version::of("11")) && !known.covers(&Version::of("x")));
        assert!(Version::of("x").covers(&Version::of("x")));
        assert!(!Version::of("").covers(&Version::of("")));
    }

    #[test]
    fn who_changes_its_object_again_and_again_is_slowed_down() {
        let mut self_triggered = SelfTriggered::default();
        let told: Vec<_> = (0..30).filter(|_| self_triggered.count()).collect();
        assert_eq!(
            (told, self_triggered.pause()),
            (vec![19], Some(Duration::from_secs(60)))
        );
        self_triggered.end();
        assert_eq!(
            (self_triggered.count(), self_triggered.pause()),
            (false, None)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_lone_change_is_not_paced_and_a_storm_is() {
        let mut pace = Pace::default();
        let mut now = Instant::now();
        let mut pauses = Vec::new();
        for _ in 0..10 {
            pauses.push(pace.pause(now).map(|pause| pause.as_millis()));
            pace.ended(now);
        }
        assert_eq!(pauses[..3], [None, None, None]);
        assert_eq!(pauses[3..], [25, 50, 100, 200, 400, 800, 800].map(Some));
        now += Duration::from_secs(1);
        assert_eq!(pace.pause(now), None);
    }
}
