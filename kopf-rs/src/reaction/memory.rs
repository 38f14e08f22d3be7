//! The process's memory of an object between two plans. Must not know the plans.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::handler::definition::Handler;
use crate::handler::owned::OwnedKind;
use crate::handler::subject::Reason;
use crate::object::event::EventType;
use crate::object::patch::Patch;
use crate::object::resource::Resource;
use crate::state::diffbase::KnownEssence;
use crate::state::progress::Record;

/// The facts about an object that are kept in memory. Opaque to the engine: created by [`ObjectMemory::first`], replaced by the result of
/// `settle`.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObjectMemory {
    /// True if the first event of this object came from a listing.
    pub(super) listed: bool,
    /// True if a cycle for the object has completed in this process.
    pub(super) handled_once: bool,
    /// True if its deletion has been handled.
    pub(super) deletion_was_handled: bool,
    pub(super) background: Background,
    pub(super) drift: Drift,
    /// Boxed, because most objects are idle and need none of this.
    pub(super) in_progress: Option<Box<InProgress>>,
}

/// The planning state of an object's daemons and timers in this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Background {
    #[default]
    Unplanned,
    Planned,
}

/// The change handlers whose children have changed: a bit for each handler that owns children, in the order of declaration. Handlers after
/// the fifteenth share the last bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Drift {
    /// Changes since the current cycle began.
    noted: u16,
    /// Changes that the current cycle handles.
    taken: u16,
}

/// The memory of an unfinished cycle, or of state that could not be written.
#[derive(Clone, Debug, Default)]
pub(super) struct InProgress {
    pub(super) ongoing: Option<Ongoing>,
    /// Records that are newer than those on the object.
    pub(super) records: BTreeMap<Arc<str>, Record>,
    /// Requested changes of handlers that could not be written yet.
    pub(super) patch: Patch,
    /// Requested changes of daemons and timers. They are separate, so that the server's refusal of one patch does not block the other.
    pub(super) in_background: Patch,
    /// The last-handled state, if the object has no room for it.
    pub(super) last: Option<KnownEssence>,
    /// The reason of the cycle whose end was already reported.
    pub(super) announced: Option<Reason>,
}

/// The current cycle of this process.
#[derive(Clone, Debug)]
pub(super) struct Ongoing {
    pub(super) reason: Reason,
    /// Its target, once fixed. Until then it equals the current object, and is not stored here to save memory, because thousands of objects
    /// may wait in a cycle.
    pub(super) target: Option<KnownEssence>,
}

/// The essence that a cycle is to reach.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) essence: KnownEssence,
    /// True once a handler or sub-handler is done with the cycle. Until then the newest state is an equally good target, because the
    /// remaining handlers see that one anyway.
    pub(super) is_fixed: bool,
}

impl ObjectMemory {
    /// Creates the memory of an object after its first event.
    pub(crate) fn first(event: EventType) -> Self {
        Self { listed: event == EventType::Listed, ..Self::default() }
    }
    /// Returns the part of the memory that stays valid after a pause or in another term of leadership. Other instances may have changed the
    /// object and its children meanwhile, and this instance's watches may have missed that. The end of a pause and a new term therefore count
    /// as a start: resume handlers and handlers that own children are called again. Only a handled deletion stays handled.
    pub(crate) fn before_a_pause(self) -> Self {
        Self { listed: true, deletion_was_handled: self.deletion_was_handled, ..Self::default() }
    }
    /// Does the same for an object that was busy meanwhile, possibly with changes that still have to be written.
    pub(crate) fn begun_anew(mut self, is_unwritten: bool) -> Self {
        let in_progress = self.in_progress.take().filter(|_| is_unwritten);
        Self { in_progress, ..self.before_a_pause() }
    }
    /// Drops the requested changes of handlers, because the server has refused their content and would do so again. Their outcomes stay.
    pub(crate) fn without_patch(mut self) -> Self {
        if let Some(in_progress) = &mut self.in_progress {
            in_progress.patch = Patch::new();
        }
        self
    }
    /// Returns true if a cycle is in progress or due, or if changes still have to be written.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.in_progress.is_some() || self.drift.is_any()
    }
    /// Returns true if the object has been planned for and nothing is left to do without a change, except for daemons and timers.
    pub(crate) fn awaits_change(&self) -> bool {
        self.background == Background::Planned && !self.is_unfinished()
    }
    /// Returns true if requested changes of handlers still have to be written.
    pub(crate) fn wants(&self) -> bool {
        self.in_progress.as_ref().is_some_and(|it| !it.patch.is_empty())
    }
    /// Keeps requested changes of handlers that still have to be written.
    pub(crate) fn keep_for_later(&mut self, patch: Patch) {
        self.in_progress.get_or_insert_default().patch.absorb(patch);
    }
    /// Returns the requested changes of daemons and timers that still have to be written.
    pub(crate) fn wanted_in_background(&self) -> Option<&Patch> {
        let in_progress = self.in_progress.as_ref()?;
        Some(&in_progress.in_background).filter(|patch| !patch.is_empty())
    }
    /// Keeps requested changes of daemons and timers that still have to be written.
    pub(crate) fn keep_of_background(&mut self, patch: Patch) {
        let in_progress = self.in_progress.get_or_insert_default();
        in_progress.in_background.absorb(patch);
    }
    /// Drops the requested changes of daemons and timers after they were written or given up. Everything else stays.
    pub(crate) fn forget_of_background(&mut self) {
        if let Some(in_progress) = self.in_progress.take() {
            let without = InProgress { in_background: Patch::new(), ..*in_progress };
            self.in_progress = without.boxed();
        }
    }
    /// Takes over the requested changes of daemons and timers from `other`.
    pub(super) fn want_in_background_as(&mut self, other: &Self) {
        self.forget_of_background();
        if let Some(wanted) = other.wanted_in_background() {
            self.keep_of_background(wanted.clone());
        }
    }
    pub(super) fn ongoing(&self) -> Option<&Ongoing> {
        self.in_progress.as_ref()?.ongoing.as_ref()
    }
    pub(super) fn records(&self) -> Option<&BTreeMap<Arc<str>, Record>> {
        self.in_progress.as_ref().map(|in_progress| &in_progress.records)
    }
    pub(super) fn is_initial(&self) -> bool {
        self.listed && !self.handled_once
    }
    /// Returns true if the object existed before the operator started, and its daemons and timers are planned for the first time.
    pub(super) fn is_new_to_background(&self) -> bool {
        self.listed && self.background == Background::Unplanned
    }
    /// Records that its daemons and timers are planned.
    pub(crate) fn background_is_planned(&mut self) {
        self.background = Background::Planned;
    }
}

impl ObjectMemory {
    /// Records a changed child, and returns true if that affects a change handler.
    pub(crate) fn child_changed(&mut self, kind: &Resource, handlers: &[Arc<Handler>]) -> bool {
        let is_of_kind = |owned: &OwnedKind| owned.selector.names(kind);
        let those = owning(handlers).filter(|(_, it)| it.owns.iter().any(is_of_kind));
        let noted = those.fold(0, |noted, (bit, _)| noted | bit);
        self.drift.noted |= noted;
        noted != 0
    }
    /// Returns true if children of this handler have changed. Changes during a cycle count for the next one.
    pub(super) fn has_drifted(&self, handler: &Arc<Handler>, handlers: &[Arc<Handler>]) -> bool {
        let Drift { noted, taken } = self.drift;
        let counted = if self.ongoing().is_some() { taken } else { noted | taken };
        let mut all = owning(handlers);
        counted != 0 && all.any(|(bit, it)| Arc::ptr_eq(it, handler) && counted & bit != 0)
    }
}

/// Returns the change handlers that own children, each with its bit.
fn owning(handlers: &[Arc<Handler>]) -> impl Iterator<Item = (u16, &Arc<Handler>)> {
    let those = handlers.iter();
    let those = those.filter(|it| it.is_for_changes() && !it.owns.is_empty());
    those.enumerate().map(|(at, it)| (1 << at.min(15), it))
}

impl Drift {
    /// Returns true if some handler is to be called for its children.
    pub(super) fn is_any(self) -> bool {
        self != Self::default()
    }
    /// Returns true if there are changes for the next cycle.
    pub(super) fn is_noted(self) -> bool {
        self.noted != 0
    }
    /// Begins a cycle.
    pub(super) fn begin(&mut self) {
        self.taken |= std::mem::take(&mut self.noted);
    }
    /// Ends the cycle.
    pub(super) fn end(&mut self) {
        self.taken = 0;
    }
}

impl InProgress {
    /// Returns the state for an object's memory, or `None` if it is empty.
    pub(super) fn boxed(self) -> Option<Box<Self>> {
        let is_idle = self.ongoing.is_none()
            && self.records.is_empty()
            && self.patch.is_empty()
            && self.in_background.is_empty()
            && self.last.is_none()
            && self.announced.is_none();
        (!is_idle).then(|| Box::new(self))
    }
}
