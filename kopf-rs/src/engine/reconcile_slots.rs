//! How many calls of level-triggered handlers run at the same time, for each kind of objects.
//!
//! A call that runs is a tree of its object, so a listing of thousands of objects must not be thousands of calls. An object that waits for a slot has
//! its worker, and no tree. Promises that objects get slots in the order in which they have asked for one, and that none of them holds a slot, or keeps
//! one from others, while it does something else. Must not know what is called.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The slots of all kinds.
#[derive(Debug)]
pub(super) struct ReconcileSlots {
    /// How many calls of one kind may run.
    limit: usize,
    kinds: Mutex<HashMap<u32, OfKind>>,
}

/// Those of one kind.
#[derive(Debug, Default)]
struct OfKind {
    taken: usize,
    /// The number of the object that asks next.
    next: u64,
    /// The objects that are ready to take a slot, by their numbers.
    line: BTreeMap<u64, Arc<Notify>>,
}

/// A slot that is taken, until it is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Arc<ReconcileSlots>,
    kind: u32,
}

/// What one object has, or waits for.
#[derive(Debug, Default)]
pub(super) struct SlotWish(Option<Box<Wish>>);

#[derive(Debug, Default)]
struct Wish {
    /// It waits for a slot: by this number.
    number: Option<u64>,
    in_line: Option<InLine>,
    slot: Option<Slot>,
}

/// A place in the line, until it is dropped.
#[derive(Debug)]
struct InLine {
    slots: Arc<ReconcileSlots>,
    kind: u32,
    number: u64,
}

// === impl ===

impl ReconcileSlots {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit: limit.max(1),
            kinds: Mutex::default(),
        })
    }

    /// A slot, where one is free that nobody waits for who is ahead of `number`; a newcomer is behind all others.
    fn take(self: &Arc<Self>, kind: u32, number: Option<u64>) -> Option<Slot> {
        let mut kinds = self.lock();
        let of_kind = kinds.entry(kind).or_default();
        let ahead = match number {
            Some(number) => of_kind.line.range(..number).count(),
            None => of_kind.line.len(),
        };
        if of_kind.taken + ahead >= self.limit {
            return None;
        }
        of_kind.taken += 1;
        Some(Slot {
            slots: self.clone(),
            kind,
        })
    }

    /// The number of an object that asks for a slot from now on.
    fn number(&self, kind: u32) -> u64 {
        let mut kinds = self.lock();
        let of_kind = kinds.entry(kind).or_default();
        of_kind.next += 1;
        of_kind.next
    }

    /// Change something, and wake those who have a slot by that.
    fn change(&self, kind: u32, change: impl FnOnce(&mut OfKind)) {
        let mut kinds = self.lock();
        let Some(of_kind) = kinds.get_mut(&kind) else {
            return;
        };
        change(of_kind);
        let free = self.limit.saturating_sub(of_kind.taken);
        for wake in of_kind.line.values().take(free) {
            wake.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, OfKind>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SlotWish {
    /// A slot for a call that is to begin. Where there is none, the object waits for one from now on.
    pub(super) fn take(&mut self, slots: &Arc<ReconcileSlots>, kind: u32) -> Option<Slot> {
        let wish = self.0.as_deref_mut();
        let held = wish.and_then(|wish| wish.slot.take_if(|slot| slot.kind == kind));
        let number = self.number();
        let slot = held.or_else(|| slots.take(kind, number));
        if slot.is_none() && number.is_none() {
            self.0.get_or_insert_default().number = Some(slots.number(kind));
        }
        slot
    }

    /// Whether the object waits for a slot.
    pub(super) fn waits(&self) -> bool {
        let wish = self.0.as_ref();
        wish.is_some_and(|wish| wish.number.is_some() && wish.slot.is_none())
    }

    fn number(&self) -> Option<u64> {
        self.0.as_ref()?.number
    }

    /// There is nothing else to do: whether a slot is there. Where there is none, the object is woken for the next one.
    pub(super) fn stand_in_line(
        &mut self,
        slots: &Arc<ReconcileSlots>,
        kind: u32,
        wake: &Arc<Notify>,
    ) -> bool {
        let Some(wish) = &mut self.0 else {
            return false;
        };
        let Some(number) = wish.number else {
            return false;
        };
        wish.in_line.take_if(|it| it.kind != kind);
        // In line first: what becomes free after the look wakes it.
        wish.in_line
            .get_or_insert_with(|| InLine::enter(slots, (kind, number), wake));
        wish.slot = slots.take(kind, Some(number));
        wish.in_line.take_if(|_| wish.slot.is_some());
        wish.slot.is_some()
    }

    /// Something else is to be done first: others may have the next slot. The number stays.
    pub(super) fn step_out(&mut self) {
        if let Some(wish) = &mut self.0 {
            wish.in_line = None;
        }
    }

    /// A slot that was not needed is given back. The number stays.
    pub(super) fn give_back(&mut self) {
        if let Some(wish) = &mut self.0 {
            wish.slot = None;
        }
    }

    /// All that was to be called is called, or waits for a slot.
    pub(super) fn is_planned(&mut self, waits: bool) {
        self.give_back();
        if !waits {
            *self = Self::default();
        }
    }
}

impl InLine {
    fn enter(slots: &Arc<ReconcileSlots>, (kind, number): (u32, u64), wake: &Arc<Notify>) -> Self {
        let mut kinds = slots.lock();
        let of_kind = kinds.entry(kind).or_default();
        of_kind.line.insert(number, wake.clone());
        Self {
            slots: slots.clone(),
            kind,
            number,
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.change(self.kind, |it| it.taken -= 1);
    }
}

impl Drop for InLine {
    fn drop(&mut self) {
        let number = self.number;
        self.slots
            .change(self.kind, |it| drop(it.line.remove(&number)));
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const KIND: u32 = 1;

    struct Object {
        wish: SlotWish,
        wake: Arc<Notify>,
    }

    impl Object {
        fn new() -> Self {
            Self {
                wish: SlotWish::default(),
                wake: Arc::new(Notify::new()),
            }
        }
        fn waits(slots: &Arc<ReconcileSlots>) -> Self {
            let mut object = Self::new();
            assert!(object.wish.take(slots, KIND).is_none());
            assert!(object.wish.waits() && !object.stands(slots));
            object
        }
        fn stands(&mut self, slots: &Arc<ReconcileSlots>) -> bool {
            self.wish.stand_in_line(slots, KIND, &self.wake)
        }
        fn is_woken(&self) -> bool {
            self.wake.notified().now_or_never().is_some()
        }
    }

    #[test]
    fn slots_go_to_those_who_have_waited_longest_and_are_ready() {
        let slots = ReconcileSlots::new(2);
        let mut others = Object::new();
        let held: Vec<_> = (0..2).map(|_| others.wish.take(&slots, KIND)).collect();
        assert!(held.iter().all(Option::is_some));
        let (mut first, mut second) = (Object::waits(&slots), Object::waits(&slots));
        assert!(Object::new().wish.take(&slots, 2).is_some(), "another kind");
        // The first has something else to do.
        first.wish.step_out();
        drop(held);
        assert!(second.is_woken() && second.stands(&slots));
        let of_second = second.wish.take(&slots, KIND).expect("it has one");
        second.wish.is_planned(false);
        let mut third = Object::new();
        let of_third = third.wish.take(&slots, KIND);
        assert!(of_third.is_some(), "nobody else is ready");
        assert!(!first.stands(&slots), "none is left");
        let mut fourth = Object::waits(&slots);
        drop(of_second);
        assert!(first.is_woken());
        assert!(
            !fourth.stands(&slots) && !fourth.is_woken(),
            "the first comes first"
        );
        assert!(
            Object::new().wish.take(&slots, KIND).is_none(),
            "nor a newcomer"
        );
        drop(first);
        assert!(fourth.is_woken() && fourth.stands(&slots));
    }

    #[test]
    fn what_is_not_needed_is_given_back() {
        let slots = ReconcileSlots::new(0);
        let mut one = Object::new();
        let held = one.wish.take(&slots, KIND);
        let mut other = Object::waits(&slots);
        drop(held);
        assert!(other.stands(&slots));
        let mut third = Object::waits(&slots);
        other.wish.is_planned(false);
        assert!(third.is_woken() && third.stands(&slots));
        third.wish.is_planned(true);
        assert!(third.wish.waits() && third.stands(&slots));
    }
}
