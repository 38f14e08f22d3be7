//! Standby while another instance leads: watches and indices continue, and the queue only records which objects to requeue at the takeover.
//!
//! Guarantees that no worker starts meanwhile, and that the takeover requeues each object that has needed attention since. Must not know how
//! leaders are elected.

use std::collections::BTreeSet;

use crate::engine::mailbox::Message;
use crate::engine::memory::Memory;
use crate::engine::queue::{Queue, Slot, State, Work};
use crate::engine::resource_handlers::ResourceHandlers;
use crate::object::key::Key;

impl Queue {
    /// Enters standby: running work ends, which includes daemons and timers of idle objects, no work starts, and objects that need attention
    /// are recorded.
    pub(crate) fn stand_by(&self) {
        let mut state = self.state.lock();
        if state.standby.is_some() {
            return;
        }
        let mut noted = BTreeSet::new();
        let mut others = Vec::new();
        for (key, slot) in state.objects.iter_mut() {
            match &mut slot.work {
                Work::Resting(memory) if !memory.has_calls() => {
                    if memory.asks_for_something() {
                        noted.insert(key.clone());
                    }
                    *memory = std::mem::take(memory).before_a_pause();
                }
                _ => {
                    noted.insert(key.clone());
                    others.push(key.clone());
                }
            }
        }
        for key in others {
            let resting = state.objects.get(&key).is_some_and(Slot::is_at_rest);
            if resting {
                state.wake(&key, Message::Due);
            }
            state.deliver(&key, Message::Unwatched);
        }
        state.standby = Some(noted);
        drop(state);
        self.changed.notify_waiters();
    }

    /// Notes that the watch no longer shows the object and has reported that, so that a takeover does not read it. Does nothing
    /// if the object was shown again since that report was taken.
    pub(crate) fn mark_out_of_sight(&self, key: &Key) {
        if let Some(busy) = self.state.lock().busy_slot(key)
            && busy.is_absent
        {
            busy.is_gone = true;
            busy.mailbox.cancel_take_over();
        }
    }

    /// Returns whether another instance leads.
    pub(crate) fn stands_by(&self) -> bool {
        self.state.lock().standby.is_some()
    }

    /// Leaves standby: wakes the recorded objects, and all objects whose handlers are called at a start, because a new term counts as one.
    /// Leaves out objects that are gone, since reading them would be retried for ever.
    pub(crate) fn take_over(&self) {
        let mut state = self.state.lock();
        let Some(noted) = state.standby.take() else {
            return;
        };
        let acts = |slot: &Slot, kind: &ResourceHandlers| !slot.is_gone() && kind.acts_at_a_start();
        let mut those = BTreeSet::from_iter(state.keys_of(acts));
        those.extend(noted);
        for key in those {
            if state.objects.get(&key).is_some_and(|slot| !slot.is_gone()) {
                state.wake(&key, Message::TakenOver);
            }
        }
    }
}

impl State {
    /// Notes that the object is deleted while another instance leads and handles the deletion.
    fn is_gone_meanwhile(&mut self, key: &Key) {
        match self.objects.get_mut(key).map(|slot| &mut slot.work) {
            Some(Work::Busy(busy)) => busy.is_gone = true,
            Some(Work::Resting(_)) => {
                self.objects.remove(key);
                self.gone.push(key.clone());
            }
            None => {}
        }
    }

    /// Makes an object idle whose worker ends during standby. Returns the memory if that is not possible: after the watch is closed, no
    /// event would report the deletion of the object.
    pub(super) fn keep(&mut self, key: &Key, memory: Memory) -> Result<(), Memory> {
        let is_watched = self.objects.watch_of(key).is_some();
        let Some(slot) = self.objects.get_mut(key) else {
            return Err(memory);
        };
        let is_gone = slot.is_gone() || !is_watched;
        match &mut self.standby {
            Some(noted) if !is_gone => {
                noted.insert(key.clone());
                slot.work = Work::Resting(memory.before_a_pause());
                self.busy -= 1;
                Ok(())
            }
            _ => Err(memory),
        }
    }

    /// Returns the message if it has to be delivered at once: workers that are about to end get theirs. Other messages are recorded for the
    /// takeover.
    pub(super) fn unless_standing_by(&mut self, key: &Key, message: Message) -> Option<Message> {
        let Some(noted) = &mut self.standby else {
            return Some(message);
        };
        let is_absence = match &message {
            Message::State(state) => state.is_absence(),
            Message::ChildrenChanged(_) | Message::Due(_) => false,
            Message::Unwatched | Message::Returned(_) | Message::TakenOver(_) => {
                return Some(message);
            }
        };
        if is_absence {
            noted.remove(key);
            self.is_gone_meanwhile(key);
        } else if self.objects.contains(key) {
            noted.insert(key.clone());
        }
        None
    }
}
