//! Records when idle objects are due: one entry for each object, however many timers it has.
//!
//! Ten thousand objects may be idle, so their entries lie side by side in one heap. An entry stays there when its object is woken for
//! another reason or is gone: the caller that pops an entry asks the object whether the entry is still valid. Must not know the work that is due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tokio::time::Instant;

use crate::object::key::Key;

/// Objects by the time at which they are due, and outdated entries.
#[derive(Debug, Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<Entry>>,
    /// The number of entries at which outdated ones are dropped.
    most: usize,
}

/// The due time and the object.
type Entry = (Instant, Key);

impl Timers {
    /// Up to this number, outdated entries are not dropped.
    const FEW: usize = 256;

    /// Schedules the object. Returns whether it is due earlier than all others. `counts` returns whether an entry is still valid.
    pub(super) fn insert(&mut self, due: Instant, key: Key, counts: impl Fn(Instant, &Key) -> bool) -> bool {
        if self.heap.len() >= self.most.max(Self::FEW) {
            self.drop_others(counts);
        }
        let is_first = self.first().is_none_or(|first| due < first);
        self.heap.push(Reverse((due, key)));
        is_first
    }

    /// Drops outdated and duplicate entries. The next time comes when there are twice as many.
    fn drop_others(&mut self, counts: impl Fn(Instant, &Key) -> bool) {
        let mut entries = std::mem::take(&mut self.heap).into_vec();
        entries.retain(|Reverse((due, key))| counts(*due, key));
        entries.sort_unstable();
        entries.dedup();
        self.most = entries.len() * 2;
        self.heap = entries.into();
    }

    /// Returns the time of the first entry, which may be outdated.
    pub(super) fn first(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((due, _))| *due)
    }

    /// Takes an entry that is due, which may be outdated.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Entry> {
        let is_due = self.first().is_some_and(|due| due <= now);
        let Reverse(entry) = is_due.then(|| self.heap.pop())??;
        Some(entry)
    }

    /// The memory that an idle object takes here.
    #[cfg(test)]
    pub(super) const SIZE: usize = size_of::<Reverse<Entry>>();
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn key(name: &str) -> Key {
        Key::Text(name.into())
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_is_due_first_and_nobody_before_its_time() {
        let now = Instant::now();
        let at = |seconds| now + Duration::from_secs(seconds);
        let mut timers = Timers::default();
        let mut insert = |due, name| timers.insert(due, key(name), |_, _| true);
        assert!(insert(at(5), "a"));
        assert!(!insert(at(7), "b"));
        assert!(insert(at(3), "c"));
        assert_eq!((timers.first(), timers.pop(at(2))), (Some(at(3)), None));
        assert_eq!(timers.pop(at(4)), Some((at(3), key("c"))));
        assert_eq!(timers.pop(at(4)), None);
        assert_eq!(timers.pop(at(9)), Some((at(5), key("a"))));
        assert_eq!(timers.pop(at(9)), Some((at(7), key("b"))));
        assert_eq!((timers.pop(at(9)), timers.first()), (None, None));
    }

    #[tokio::test(start_paused = true)]
    async fn entries_that_do_not_count_any_more_do_not_pile_up() {
        let now = Instant::now();
        let mut timers = Timers::default();
        for minute in 0..100_000 {
            // One object changes all the time, the other is woken all the time and stays due at the same time.
            let due = now + Duration::from_secs(60 * minute);
            let counts = |at, object: &Key| *object == key("same") || at == due;
            timers.insert(due, key("changing"), counts);
            timers.insert(now, key("same"), counts);
            assert!(timers.heap.len() <= Timers::FEW, "{}", timers.heap.len());
        }
        let last = now + Duration::from_secs(60 * 99_999);
        let left = std::iter::from_fn(|| timers.pop(last));
        let counting = left.filter(|(at, _)| *at == last);
        assert_eq!(counting.count(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn objects_that_wait_are_looked_through_seldom() {
        let now = Instant::now();
        let mut timers = Timers::default();
        let looks = std::cell::Cell::new(0);
        for number in 0..10_000 {
            timers.insert(now, key(&number.to_string()), |_, _| {
                looks.set(looks.get() + 1);
                true
            });
        }
        assert!(looks.get() < 20_000, "{}", looks.get());
        let due = std::iter::from_fn(|| timers.pop(now));
        assert_eq!(due.count(), 10_000);
    }
}
