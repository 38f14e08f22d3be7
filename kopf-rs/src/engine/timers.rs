//! When objects at rest are due: one entry for each that has something to wait for, however many timers it has.
//!
//! Must not know what is due.

use std::collections::BTreeSet;

use tokio::time::Instant;

use crate::engine::key::Key;
use crate::engine::memory::Memory;

/// Objects by the time they are due.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeSet<(Instant, Key)>);

impl Timers {
    /// The object is due then. Whether that is sooner than what was due first.
    pub(super) fn insert(&mut self, due: Instant, key: Key) -> bool {
        let is_first = self.first().is_none_or(|first| due < first);
        self.0.insert((due, key));
        is_first
    }

    /// The object is not at rest any more.
    pub(super) fn forget(&mut self, memory: &Memory, key: &Key) {
        if let Some(due) = memory.due() {
            self.remove(due, key);
        }
    }

    fn remove(&mut self, due: Instant, key: &Key) {
        self.0.remove(&(due, key.clone()));
    }

    /// When the first one is due.
    pub(super) fn first(&self) -> Option<Instant> {
        self.0.first().map(|(due, _)| *due)
    }

    /// How many objects there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Those that are due first.
    pub(super) fn first_ones(&self, count: usize) -> impl Iterator<Item = (Instant, &Key)> {
        self.0.iter().take(count).map(|(due, key)| (*due, key))
    }

    /// Take one that is due.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Key> {
        let (due, _) = self.0.first()?;
        if *due > now {
            return None;
        }
        self.0.pop_first().map(|(_, key)| key)
    }
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
        assert!(timers.insert(at(5), key("a")));
        assert!(!timers.insert(at(7), key("b")));
        assert!(timers.insert(at(3), key("c")));
        timers.remove(at(3), &key("c"));
        assert_eq!((timers.first(), timers.pop(at(4))), (Some(at(5)), None));
        assert_eq!(timers.pop(at(9)), Some(key("a")));
        assert_eq!(timers.pop(at(9)), Some(key("b")));
        assert_eq!((timers.pop(at(9)), timers.first()), (None, None));
    }
}
