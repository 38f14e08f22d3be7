//! Limits the number of concurrent calls of level-triggered handlers for each kind.
//!
//! A running call holds its object as a tree, so a listing of thousands of objects must not start thousands of calls. An object that waits
//! for a slot has its worker but no tree. Guarantees that objects get slots in the order of their requests, and that an object that does
//! something else neither holds a slot nor keeps others from one. Must not know handlers.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The slots of all kinds.
#[derive(Debug)]
pub(super) struct ReconcileSlots {
    /// The maximum number of concurrent calls for one kind.
    limit: usize,
    kinds: Mutex<HashMap<u32, OfKind>>,
}

/// The slots of one kind.
#[derive(Debug, Default)]
struct OfKind {
    taken: usize,
    /// The number of the next object that asks.
    next: u64,
    /// The objects that are ready to take a slot, by their numbers.
    line: BTreeMap<u64, Arc<Notify>>,
}

/// A slot in use, until it is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Arc<ReconcileSlots>,
    kind: u32,
}

/// One object's request for a slot.
#[derive(Debug, Default)]
pub(super) struct SlotRequest(Option<Box<Wish>>);

#[derive(Debug, Default)]
struct Wish {
    /// The number of the waiting object, which is its rank.
    number: Option<u64>,
    in_line: Option<InLine>,
    slot: Option<Slot>,
}

/// An entry in the waiting line, until it is dropped.
#[derive(Debug)]
struct InLine {
    slots: Arc<ReconcileSlots>,
    kind: u32,
    number: u64,
}

// === impl ===

impl ReconcileSlots {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit: limit.max(1), kinds: Mutex::default() })
    }

    /// Takes a slot if one is free beyond those for waiting objects ahead of `number`; a newcomer without a number is behind all others.
    fn take(self: &Arc<Self>, kind: u32, number: Option<u64>) -> Option<Slot> {
        let mut kinds = self.kinds.lock();
        let of_kind = kinds.entry(kind).or_default();
        let ahead = match number {
            Some(number) => of_kind.line.range(..number).count(),
            None => of_kind.line.len(),
        };
        if of_kind.taken + ahead >= self.limit {
            return None;
        }
        of_kind.taken += 1;
        Some(Slot { slots: self.clone(), kind })
    }

    /// Returns the number for an object that asks for a slot.
    fn number(&self, kind: u32) -> u64 {
        let mut kinds = self.kinds.lock();
        let of_kind = kinds.entry(kind).or_default();
        of_kind.next += 1;
        of_kind.next
    }

    /// Changes the state of a kind, and wakes the objects that get a slot.
    fn change(&self, kind: u32, change: impl FnOnce(&mut OfKind)) {
        let mut kinds = self.kinds.lock();
        let Some(of_kind) = kinds.get_mut(&kind) else {
            return;
        };
        change(of_kind);
        let free = self.limit.saturating_sub(of_kind.taken);
        for wake in of_kind.line.values().take(free) {
            wake.notify_one();
        }
    }
}

impl SlotRequest {
    /// Takes a slot for a call that is about to begin. If there is none, the object waits for one from now on.
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

    /// Returns whether the object waits for a slot.
    pub(super) fn waits(&self) -> bool {
        let wish = self.0.as_ref();
        wish.is_some_and(|wish| wish.number.is_some() && wish.slot.is_none())
    }

    fn number(&self) -> Option<u64> {
        self.0.as_ref()?.number
    }

    /// Enters the waiting line, since the object has no other work. Returns whether it has a slot; otherwise it is woken when it gets one.
    pub(super) fn enqueue(&mut self, slots: &Arc<ReconcileSlots>, kind: u32, wake: &Arc<Notify>) -> bool {
        let Some(wish) = &mut self.0 else {
            return false;
        };
        let Some(number) = wish.number else {
            return false;
        };
        wish.in_line.take_if(|it| it.kind != kind);
        // Enters the line first, so that a slot that becomes free after the check wakes it.
        wish.in_line.get_or_insert_with(|| InLine::enter(slots, (kind, number), wake));
        wish.slot = slots.take(kind, Some(number));
        wish.in_line.take_if(|_| wish.slot.is_some());
        wish.slot.is_some()
    }

    /// Leaves the line because other work comes first, so that others may take the next slot. The number stays.
    pub(super) fn cancel(&mut self) {
        if let Some(wish) = &mut self.0 {
            wish.in_line = None;
        }
    }

    /// Returns an unneeded slot. The number stays.
    pub(super) fn release(&mut self) {
        if let Some(wish) = &mut self.0 {
            wish.slot = None;
        }
    }

    /// Ends a plan, of which all calls have begun or (`waits`) wait for a slot.
    pub(super) fn finish_plan(&mut self, waits: bool) {
        self.release();
        if !waits {
            *self = Self::default();
        }
    }
}

impl InLine {
    fn enter(slots: &Arc<ReconcileSlots>, (kind, number): (u32, u64), wake: &Arc<Notify>) -> Self {
        let mut kinds = slots.kinds.lock();
        let of_kind = kinds.entry(kind).or_default();
        of_kind.line.insert(number, wake.clone());
        Self { slots: slots.clone(), kind, number }
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
        self.slots.change(self.kind, |it| drop(it.line.remove(&number)));
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const KIND: u32 = 1;

    struct Object {
        wish: SlotRequest,
        wake: Arc<Notify>,
    }

    impl Object {
        fn new() -> Self {
            Self { wish: SlotRequest::default(), wake: Arc::new(Notify::new()) }
        }
        fn waits(slots: &Arc<ReconcileSlots>) -> Self {
            let mut object = Self::new();
            assert!(object.wish.take(slots, KIND).is_none());
            assert!(object.wish.waits() && !object.stands(slots));
            object
        }
        fn stands(&mut self, slots: &Arc<ReconcileSlots>) -> bool {
            self.wish.enqueue(slots, KIND, &self.wake)
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
        // The first object has other work.
        first.wish.cancel();
        drop(held);
        assert!(second.is_woken() && second.stands(&slots));
        let of_second = second.wish.take(&slots, KIND).expect("it has one");
        second.wish.finish_plan(false);
        let mut third = Object::new();
        let of_third = third.wish.take(&slots, KIND);
        assert!(of_third.is_some(), "nobody else is ready");
        assert!(!first.stands(&slots), "none is left");
        let mut fourth = Object::waits(&slots);
        drop(of_second);
        assert!(first.is_woken());
        assert!(!fourth.stands(&slots) && !fourth.is_woken(), "the first comes first");
        assert!(Object::new().wish.take(&slots, KIND).is_none(), "nor a newcomer");
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
        other.wish.finish_plan(false);
        assert!(third.is_woken() && third.stands(&slots));
        third.wish.finish_plan(true);
        assert!(third.wish.waits() && third.stands(&slots));
    }
}
