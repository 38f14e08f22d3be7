//! The process's memory of an object: facts, the handlers' memo, the last handled version.
//!
//! Tens of thousands of memories are idle at once, so they are small and hold no object body.

use std::cmp::Ordering;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use tokio::time::Instant;

use crate::engine::rewritten::Rewritten;
use crate::engine::running_calls::RunningCall;
use crate::engine::unsure_writes::UnsureWrites;
use crate::handler::memo::Memo;
use crate::handler::stopped::StopReason;
use crate::object::event::EventType;
use crate::reaction::background::BackgroundMemory;
use crate::reaction::memory::ObjectMemory;

/// The memory of one object.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) seen: ObjectMemory,
    /// Created when first needed; dropped again if it is empty and has no other owner.
    pub(crate) memo: Option<Memo>,
    /// The newest version that this process has handled or written.
    pub(crate) version: Version,
    pub(crate) recent: Lately,
}

/// Observations of this process about its own work on the object. Most objects are idle from the start, and take the size of a pointer.
#[derive(Debug, Default)]
pub(crate) struct Lately(Option<Box<Recent>>);

#[derive(Debug, Default)]
pub(crate) struct Recent {
    pub(crate) pace: Pace,
    /// When the server last answered a read or a write of ours. A listing that was requested later is newer than that answer.
    pub(crate) answered: Option<Instant>,
    pub(crate) self_triggered: SelfTriggered,
    /// The number of times that this process has removed the operator's finalizer since it last added it.
    removed_finalizers: u8,
    /// Boxed because it is rarely needed: most values are stored as sent, and most requests are answered.
    pub(crate) writes: Option<Box<LastWrites>>,
    /// Boxed because most objects have no daemons and timers.
    background: Option<Box<ObjectBackground>>,
}

/// Facts that the last writes of the object have shown.
#[derive(Debug, Default)]
pub(crate) struct LastWrites {
    pub(crate) rewritten: Option<Rewritten>,
    pub(crate) unsure: UnsureWrites,
}

/// The daemons and timers of an object.
#[derive(Debug, Default)]
pub(crate) struct ObjectBackground {
    pub(crate) memory: BackgroundMemory,
    /// Boxed because most timers are idle.
    calls: Option<Box<ObjectCalls>>,
    /// When to plan for them without any other reason.
    pub(crate) due: Option<Instant>,
}

/// The running calls of an object.
#[derive(Debug, Default)]
struct ObjectCalls(Vec<Arc<RunningCall>>);

/// An object that was not found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Missing {
    /// The event of its watch that has not been handled yet.
    pub(super) event: Option<EventType>,
}

impl Recent {
    /// The number of times that a worker removes a finalizer which another writer keeps adding.
    const REMOVALS: u8 = 3;

    /// Counts a landed change of the finalizers that adds or removes the operator's own. Changes of other finalizers do not count.
    pub(crate) fn count_removed_finalizer(&mut self, was_held: bool, is_held: bool) {
        self.removed_finalizers = match (was_held, is_held) {
            (true, false) => self.removed_finalizers.saturating_add(1),
            (false, true) => 0,
            _ => return,
        };
    }

    /// Returns whether another writer adds the finalizer as often as this process removes it. Removing it again would never end.
    pub(crate) fn is_finalizer_contested(&self) -> bool {
        self.removed_finalizers >= Self::REMOVALS
    }
}

impl Memory {
    pub(crate) fn first(event: EventType) -> Self {
        Self { seen: ObjectMemory::first(event), ..Self::default() }
    }

    /// Returns the part that survives a pause of the operator, in which others may change the object.
    pub(crate) fn before_a_pause(mut self) -> Self {
        Self {
            memo: self.memo.take(),
            seen: std::mem::take(&mut self.seen).before_a_pause(),
            ..Self::default()
        }
    }

    /// Returns whether an instance that takes over has to requeue the object although it has not changed.
    pub(crate) fn asks_for_something(&self) -> bool {
        self.background().is_some() || self.seen.is_unfinished()
    }

    /// Returns the daemons and timers of the object, if it has any.
    pub(crate) fn background(&self) -> Option<&ObjectBackground> {
        self.recent.background.as_deref()
    }

    /// Returns the daemons and timers for a change, if there are any.
    pub(crate) fn background_mut(&mut self) -> Option<&mut ObjectBackground> {
        self.background()?;
        self.recent.background.as_deref_mut()
    }

    /// Returns the daemons and timers for a change, and creates the entry if it is missing.
    pub(crate) fn background_or_default(&mut self) -> &mut ObjectBackground {
        self.recent.background.get_or_insert_default()
    }

    /// Removes the daemons and timers.
    pub(crate) fn take_background(&mut self) -> Option<Box<ObjectBackground>> {
        self.background()?;
        self.recent.background.take()
    }

    /// Returns whether the daemons and timers need the finalizer.
    pub(crate) fn is_held_in_background(&self, is_living: bool) -> bool {
        self.background().is_some_and(|it| it.memory.holds(is_living))
    }

    /// Returns whether an operator with `once` waits for timers of the object.
    pub(crate) fn is_ticking(&self, now: Timestamp) -> bool {
        self.background().is_some_and(|it| {
            let goes_on = it.due.is_some() || it.has_calls();
            goes_on && it.memory.ticking(now).next().is_some()
        })
    }

    /// Returns when to plan for the daemons and timers without any other reason.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.background()?.due
    }

    /// Returns whether calls of daemons and timers are running.
    pub(crate) fn has_calls(&self) -> bool {
        let background = self.background();
        background.is_some_and(ObjectBackground::has_calls)
    }
}

impl ObjectBackground {
    /// Returns the running calls.
    pub(crate) fn calls(&self) -> &[Arc<RunningCall>] {
        self.calls.as_ref().map_or(&[], |calls| &calls.0)
    }

    pub(crate) fn has_calls(&self) -> bool {
        self.calls.is_some()
    }

    /// Takes the running calls, which then no longer belong to the object.
    pub(crate) fn take_calls(&mut self) -> Vec<Arc<RunningCall>> {
        self.calls.take().map(|calls| calls.0).unwrap_or_default()
    }

    /// Adds a call.
    pub(crate) fn begins(&mut self, call: Arc<RunningCall>) {
        self.calls.get_or_insert_default().0.push(call);
    }

    /// Removes the call of this number. Returns `false` if there is none.
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
    /// Cancels running calls. The engine ends the calls of an object before it forgets the object, so this matters only for workers that
    /// have panicked.
    fn drop(&mut self) {
        for call in self.calls() {
            call.stopped.set(StopReason::RESOURCE_UNWATCHED);
            call.cancelled.cancel();
        }
    }
}

/// A `resourceVersion`: a number on every known server, but opaque by contract.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Version {
    #[default]
    Unknown,
    Number(u64),
    /// Boxed twice: it is rare, and every known object has a version.
    Opaque(Box<Box<str>>),
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
            Err(_) => Self::Opaque(Box::new(text.into())),
        }
    }

    /// Returns whether a state of version `other` contains nothing new for code that knows this version.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Number(known), Self::Number(other)) => known.cmp(other) != Ordering::Less,
            (Self::Opaque(known), Self::Opaque(other)) => known == other,
            _ => false,
        }
    }

    /// Returns whether a state of version `other` contains nothing new for code that knows this version. The state comes from a listing that
    /// was requested at `listing`, or from a watch; the server last answered about the object at `answered`.
    ///
    /// A listing is as new as the moment of its request. An older version in it is therefore an old state only if the object was read or
    /// written since. Otherwise the server itself has gone back, because it was restored from a backup, and the listing counts.
    pub(crate) fn knows(&self, other: &Self, listing: Option<Instant>, answered: Option<Instant>) -> bool {
        let is_truth = || {
            let asked = listing.filter(|_| other != self);
            asked.is_some_and(|asked| answered.is_none_or(|last| last < asked))
        };
        self.covers(other) && !is_truth()
    }
}

/// How busy the object has been recently: consecutive cycles are paced (row 25 of `docs/coming-from-kopf.md`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    streak: u8,
    ended: Option<Instant>,
}

impl Pace {
    /// Cycles closer than this are consecutive.
    const CLOSE: std::time::Duration = std::time::Duration::from_millis(200);
    /// The number of consecutive cycles without a pause.
    const FREE: u8 = 3;
    const FIRST: std::time::Duration = std::time::Duration::from_millis(25);
    const LONGEST: std::time::Duration = std::time::Duration::from_millis(800);

    /// Notes the end of a cycle.
    pub(crate) fn ended(&mut self, now: Instant) {
        self.ended = Some(now);
    }

    /// Returns how long to debounce changes, after one that arrived at `arrived`, before the newest state is handled.
    pub(crate) fn pause(&mut self, arrived: Instant) -> Option<std::time::Duration> {
        let close = self.ended.is_some_and(|ended| arrived < ended + Self::CLOSE);
        self.streak = if close { self.streak.saturating_add(1) } else { 0 };
        let over = u32::from(self.streak.checked_sub(Self::FREE)?);
        Some((Self::FIRST * 2_u32.pow(over.min(5))).min(Self::LONGEST))
    }
}

/// The number of consecutive changes that the object's own handlers made (row 30 of `docs/coming-from-kopf.md`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SelfTriggered(u8);

impl SelfTriggered {
    /// The number of such changes without a pause.
    pub(crate) const FREE: u8 = 20;
    const FIRST: std::time::Duration = std::time::Duration::from_millis(500);
    const LONGEST: std::time::Duration = std::time::Duration::from_secs(60);

    /// Counts a change by the object's own handlers. Returns `true` when the limit is reached.
    pub(crate) fn count(&mut self) -> bool {
        self.0 = self.0.saturating_add(1);
        self.0 == Self::FREE
    }

    /// Resets the count because another writer has changed the object.
    pub(crate) fn end(&mut self) {
        self.0 = 0;
    }

    /// Returns how long to wait before the handlers may change the object again.
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
        assert!(size_of::<Memory>() <= 48, "{}", size_of::<Memory>());
        assert!(Memory::default().recent.0.is_none());
    }

    /// Ten thousand such objects may be idle, and each takes 200 bytes more than an object without a timer.
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
    fn a_finalizer_is_contested_after_three_removals_in_a_row() {
        let mut recent = Recent::default();
        let (removal, addition) = ((true, false), (false, true));
        let other = [(true, true), (false, false)];
        for (edits, is_contested) in [
            (vec![removal, removal, addition], false),
            (vec![removal, removal, other[0], other[1]], false),
            (vec![removal, other[0], other[1]], true),
            (vec![addition], false),
        ] {
            for (was_held, is_held) in edits {
                recent.count_removed_finalizer(was_held, is_held);
            }
            assert_eq!(recent.is_finalizer_contested(), is_contested);
        }
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
        assert_eq!((told, self_triggered.pause()), (vec![19], Some(Duration::from_secs(60))));
        self_triggered.end();
        assert_eq!((self_triggered.count(), self_triggered.pause()), (false, None));
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
