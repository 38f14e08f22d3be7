//! A limited number of places: if all are taken, the holder that has been idle longest loses its place to the next one.
//!
//! Idle holders therefore cannot starve others. This module must not depend on the purpose of a place.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The pool of places. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Places(Arc<Shared>);

/// One place. Dropping it frees it.
#[derive(Debug)]
pub(crate) struct Place {
    of: Places,
    number: u64,
    lost: CancellationToken,
}

/// Protects the place from being taken away while it exists.
#[derive(Debug)]
pub(crate) struct AtWork(Arc<Place>);

#[derive(Debug)]
struct Shared {
    most: usize,
    table: Mutex<Table>,
    /// Notified when a place may be free, or may be taken from its holder.
    news: Notify,
}

#[derive(Debug, Default)]
struct Table {
    /// The logical time: older changes have smaller numbers.
    next: u64,
    taken: BTreeMap<u64, Taken>,
}

#[derive(Debug)]
struct Taken {
    /// True if the holder has proven itself. Unproven holders lose their places first.
    is_proven: bool,
    /// The logical time since when the holder has been idle; `None` while it works.
    rests: Option<u64>,
    lost: CancellationToken,
}

impl Places {
    pub(crate) fn new(most: usize) -> Self {
        Self(Arc::new(Shared { most, table: Mutex::default(), news: Notify::new() }))
    }

    /// Takes a free place, or else that of the longest-idle holder, preferring holders that have not proven themselves. Waits while all
    /// holders work. Cancel-safe.
    pub(crate) async fn take(&self) -> Place {
        loop {
            if let Some(place) = self.take_now() {
                return place;
            }
            self.0.news.notified().await;
        }
    }

    fn take_now(&self) -> Option<Place> {
        let mut table = self.0.table.lock();
        if table.taken.len() >= self.0.most {
            let resting = table.taken.iter();
            let resting = resting.filter_map(|(number, it)| Some((it.is_proven, it.rests?, *number)));
            let (_, _, number) = resting.min()?;
            if let Some(taken) = table.taken.remove(&number) {
                taken.lost.cancel();
            }
        }
        let number = table.tick();
        let lost = CancellationToken::new();
        let taken = Taken { is_proven: false, rests: Some(number), lost: lost.clone() };
        table.taken.insert(number, taken);
        drop(table);
        let of = self.clone();
        Some(Place { of, number, lost })
    }
}

impl Table {
    fn tick(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

impl Place {
    /// Waits until the place is taken away. Cancel-safe.
    pub(crate) async fn lost(&self) {
        self.lost.cancelled().await;
    }

    /// Returns a token that is cancelled when the place is taken away. Cancelling the token makes the holder give the place up.
    pub(crate) fn losing(&self) -> CancellationToken {
        self.lost.clone()
    }

    /// Protects the place until the returned guard is dropped.
    pub(crate) fn work(self: &Arc<Self>) -> AtWork {
        self.change(|taken, _| taken.rests = None);
        AtWork(self.clone())
    }

    /// Marks the holder as proven, so that unproven holders lose their places first.
    pub(crate) fn prove(&self) {
        self.change(|taken, _| taken.is_proven = true);
    }

    fn change(&self, change: impl FnOnce(&mut Taken, u64)) {
        let mut table = self.of.0.table.lock();
        let now = table.tick();
        if let Some(taken) = table.taken.get_mut(&self.number) {
            change(taken, now);
        }
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.change(|taken, now| taken.rests = Some(now));
        self.0.of.0.news.notify_one();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.of.0.table.lock().taken.remove(&self.number);
        self.of.0.news.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn is_lost(place: &Place) -> bool {
        place.lost().now_or_never().is_some()
    }

    #[tokio::test]
    async fn whoever_has_rested_longest_gives_its_place_up() {
        let places = Places::new(2);
        let take = async || Arc::new(places.take().await);
        let (first, second) = (take().await, take().await);
        // The first one counts as idle only since then.
        drop(first.work());
        let third = take().await;
        assert!(is_lost(&second) && !is_lost(&first));
        let fourth = take().await;
        assert!(is_lost(&first) && !is_lost(&third));
        // A holder that has lost its place frees none.
        drop((first, second));
        let fifth = take().await;
        assert!(is_lost(&third) && !is_lost(&fourth) && !is_lost(&fifth));
    }

    #[tokio::test]
    async fn strangers_lose_their_places_first_and_whoever_works_keeps_its_own() {
        let places = Places::new(2);
        let take = async || Arc::new(places.take().await);
        let known = take().await;
        known.prove();
        for _ in 0..3 {
            let _stranger = take().await;
            assert!(!is_lost(&known));
        }
        let (other, working) = (take().await, known.work());
        let at_work = other.work();
        assert!(places.take().now_or_never().is_none());
        drop(at_work);
        let next = places.take().now_or_never();
        assert!(next.is_some() && is_lost(&other) && !is_lost(&known));
        drop(working);
    }

    #[tokio::test]
    async fn a_waiting_taker_is_woken() {
        let places = Places::new(1);
        let place = Arc::new(places.take().await);
        let working = place.work();
        let waiting = tokio::spawn({
            let places = places.clone();
            async move { places.take().await }
        });
        tokio::task::yield_now().await;
        drop(working);
        waiting.await.unwrap();
        assert!(is_lost(&place));
    }
}
