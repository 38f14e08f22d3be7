//! While another instance is at work: watches and indices go on, and of an object no more is kept than whether it is to be looked at then.
//!
//! Promises that no worker begins, and that whoever takes over looks at each object that has asked for something since. Must not know what
//! decides which instance is at work.

use std::collections::BTreeSet;

use crate::engine::key::Key;
use crate::engine::mailbox::Letter;
use crate::engine::memory::Memory;
use crate::engine::queue::{Queue, Slot, State, Work, WorkerStart};

impl Queue {
    /// Another instance is at work from now on: what runs ends, nothing begins, and objects that ask for something are noted. Hands over the
    /// workers of those that rest while their daemons and timers run.
    pub(crate) fn stand_by(&self) -> Vec<WorkerStart> {
        let mut state = self.lock();
        if state.standby.is_some() {
            return Vec::new();
        }
        let mut noted = BTreeSet::new();
        let mut others = Vec::new();
        for (key, slot) in &mut state.slots {
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
        let mut started = Vec::new();
        for key in others {
            let resting = state.slots.get(&key).is_some_and(Slot::is_at_rest);
            let origin = state.origin(&key).filter(|_| resting);
            let due = origin.map(Letter::Due);
            started.extend(due.and_then(|due| state.deliver(&key, due)));
            state.deliver(&key, Letter::Unwatched);
        }
        state.standby = Some(noted);
        drop(state);
        self.changed.notify_waiters();
        started
    }

    /// This instance is at work from now on: the workers of the objects that have asked for something meanwhile.
    pub(crate) fn take_over(&self) -> Vec<WorkerStart> {
        let mut state = self.lock();
        let Some(noted) = state.standby.take() else {
            return Vec::new();
        };
        let look = |key: Key| {
            let origin = state.origin(&key)?;
            state.deliver(&key, Letter::TakenOver(origin))
        };
        noted.into_iter().filter_map(look).collect()
    }
}

impl State {
    /// The object is deleted while another instance is at work, which is the one to handle that.
    fn is_gone_meanwhile(&mut self, key: &Key) {
        match self.slots.get_mut(key).map(|slot| &mut slot.work) {
            Some(Work::Busy(busy)) => busy.is_gone = true,
            Some(Work::Resting(_)) => {
                self.slots.remove(key);
                self.gone.push(key.clone());
            }
            None => {}
        }
    }

    /// While another instance is at work, an object rests whose worker is done with it. The memory where that is not so.
    pub(super) fn keep(&mut self, key: &Key, memory: Memory) -> Result<(), Memory> {
        let Some(slot) = self.slots.get_mut(key) else {
            return Err(memory);
        };
        let is_gone = matches!(&slot.work, Work::Busy(busy) if busy.is_gone);
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

    /// The letter, unless it is noted for whenever this instance is at work. Workers that are about to end get theirs.
    pub(super) fn unless_standing_by(&mut self, key: &Key, letter: Letter) -> Option<Letter> {
        let Some(noted) = &mut self.standby else {
            return Some(letter);
        };
        let is_absence = match &letter {
            Letter::State(state) => state.is_absence(),
            Letter::ChildrenChanged(_) | Letter::Due(_) => false,
            Letter::Unwatched | Letter::Returned(_) | Letter::TakenOver(_) => return Some(letter),
        };
        if is_absence {
            noted.remove(key);
            self.is_gone_meanwhile(key);
        } else if self.slots.contains_key(key) {
            noted.insert(key.clone());
        }
        None
    }
}
