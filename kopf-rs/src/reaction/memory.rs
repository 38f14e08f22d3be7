//! What the process remembers of an object between two plans. Must not know what is planned.

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

/// The few facts of an object that live in memory. Opaque to the engine: made by [`ObjectMemory::first`], replaced by what `settle` gives.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObjectMemory {
    /// Whether the first event of this object came from a listing.
    pub(super) listed: bool,
    /// Whether some cycle of it has been finished in this process.
    pub(super) handled_once: bool,
    /// Whether its deletion has been handled.
    pub(super) deletion_was_handled: bool,
    pub(super) background: Background,
    pub(super) drift: Drift,
    /// Boxed: most objects are at rest and have none of this.
    pub(super) in_progress: Option<Box<InProgress>>,
}

/// Whether the daemons and timers of an object have been planned in this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Background {
    #[default]
    Unplanned,
    Planned,
}

/// Which handlers of changes have children that are others than before: a bit for each handler that owns any, in the order of declaration. Those
/// after the fifteenth share the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Drift {
    /// Since the cycle under way has begun.
    noted: u16,
    /// The cycle under way is for them.
    taken: u16,
}

/// What is remembered of an unfinished cycle, or of what could not be written.
#[derive(Clone, Debug, Default)]
pub(super) struct InProgress {
    pub(super) ongoing: Option<Ongoing>,
    /// Records that are newer than those on the object.
    pub(super) records: BTreeMap<Arc<str>, Record>,
    /// What handlers want changed and could not yet be written.
    pub(super) patch: Patch,
    /// What daemons and timers want changed. Apart from the former: where the server refuses one of the two, the other is written.
    pub(super) in_background: Patch,
    /// What was handled last, where the object has no room for it.
    pub(super) last: Option<KnownEssence>,
    /// The end of the cycle for this reason has been told.
    pub(super) announced: Option<Reason>,
}

/// The cycle this process is in.
#[derive(Clone, Debug)]
pub(super) struct Ongoing {
    pub(super) reason: Reason,
    /// Its target, once that is fixed. Until then it is what the object is, and thousands of objects may wait in a cycle: nothing of
    /// them is kept twice.
    pub(super) target: Option<KnownEssence>,
}

/// The essence a cycle is after.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) essence: KnownEssence,
    /// Some handler or sub-handler is done with the cycle. Until then the newest state is as good a target, and sooner: those that are
    /// left are told of that one anyway.
    pub(super) is_fixed: bool,
}

impl ObjectMemory {
    /// What is known of an object after its first event.
    pub(crate) fn first(event: EventType) -> Self {
        Self {
            listed: event == EventType::Listed,
            ..Self::default()
        }
    }
    /// What of it counts after the operator has been paused: that the object was handled before, so that it is not resumed once more.
    pub(crate) fn before_a_pause(self) -> Self {
        Self {
            listed: true,
            handled_once: self.handled_once,
            deletion_was_handled: self.deletion_was_handled,
            ..Self::default()
        }
    }
    /// Give up what handlers wanted changed: the server has refused its content and would again. Their outcomes stay.
    pub(crate) fn without_patch(mut self) -> Self {
        if let Some(in_progress) = &mut self.in_progress {
            in_progress.patch = Patch::new();
        }
        self
    }
    /// Whether a cycle is under way, or due, or something is still to be written.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.in_progress.is_some() || self.drift.is_any()
    }
    /// Whether something that handlers want changed is still to be written.
    pub(crate) fn wants(&self) -> bool {
        self.in_progress
            .as_ref()
            .is_some_and(|it| !it.patch.is_empty())
    }
    /// Something that handlers want changed is still to be written.
    pub(crate) fn keep_for_later(&mut self, patch: Patch) {
        self.in_progress.get_or_insert_default().patch.absorb(patch);
    }
    /// What daemons and timers want changed and is still to be written.
    pub(crate) fn wanted_in_background(&self) -> Option<&Patch> {
        let in_progress = self.in_progress.as_ref()?;
        Some(&in_progress.in_background).filter(|patch| !patch.is_empty())
    }
    /// Something that daemons and timers want changed is still to be written.
    pub(crate) fn keep_of_background(&mut self, patch: Patch) {
        let in_progress = self.in_progress.get_or_insert_default();
        in_progress.in_background.absorb(patch);
    }
    /// What daemons and timers wanted changed is written, or given up. The wishes of handlers, and all else, stay.
    pub(crate) fn forget_of_background(&mut self) {
        if let Some(in_progress) = self.in_progress.take() {
            let without = InProgress {
                in_background: Patch::new(),
                ..*in_progress
            };
            self.in_progress = without.boxed();
        }
    }
    /// Take over from `other` what daemons and timers want changed.
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
        self.in_progress
            .as_ref()
            .map(|in_progress| &in_progress.records)
    }
    pub(super) fn is_initial(&self) -> bool {
        self.listed && !self.handled_once
    }
    /// Whether the object was there before the operator, and its daemons and timers are planned for the first time.
    pub(super) fn is_new_to_background(&self) -> bool {
        self.listed && self.background == Background::Unplanned
    }
    /// Its daemons and timers are planned.
    pub(crate) fn background_is_planned(&mut self) {
        self.background = Background::Planned;
    }
}

impl ObjectMemory {
    /// A child of the object is another than before. Whether that concerns some handler of changes.
    pub(crate) fn child_changed(&mut self, kind: &Resource, handlers: &[Arc<Handler>]) -> bool {
        let is_of_kind = |owned: &OwnedKind| owned.selector.names(kind);
        let those = owning(handlers).filter(|(_, it)| it.owns().iter().any(is_of_kind));
        let noted = those.fold(0, |noted, (bit, _)| noted | bit);
        self.drift.noted |= noted;
        noted != 0
    }
    /// Whether children of this handler are others than before. What comes in during a cycle is for the next one.
    pub(super) fn has_drifted(&self, handler: &Arc<Handler>, handlers: &[Arc<Handler>]) -> bool {
        let Drift { noted, taken } = self.drift;
        let counted = if self.ongoing().is_some() {
            taken
        } else {
            noted | taken
        };
        let mut all = owning(handlers);
        counted != 0 && all.any(|(bit, it)| Arc::ptr_eq(it, handler) && counted & bit != 0)
    }
}

/// The handlers of changes that own children, each with its bit.
fn owning(handlers: &[Arc<Handler>]) -> impl Iterator<Item = (u16, &Arc<Handler>)> {
    let those = handlers.iter();
    let those = those.filter(|it| it.is_for_changes() && !it.owns().is_empty());
    those.enumerate().map(|(at, it)| (1 << at.min(15), it))
}

impl Drift {
    /// Whether some handler is to be called for its children.
    pub(super) fn is_any(self) -> bool {
        self != Self::default()
    }
    /// Whether there is something for the next cycle.
    pub(super) fn is_noted(self) -> bool {
        self.noted != 0
    }
    /// A cycle begins.
    pub(super) fn begin(&mut self) {
        self.taken |= std::mem::take(&mut self.noted);
    }
    /// It is over.
    pub(super) fn end(&mut self) {
        self.taken = 0;
    }
}

impl InProgress {
    /// For the memory of an object; nothing where there is nothing to remember.
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
