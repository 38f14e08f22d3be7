//! Limits how many objects are in a cycle at a time. In a cycle, an object is held as a tree, and so are its writes: ten times the size of
//! its text.
//!
//! Objects are planned faster than they are written, so without a limit a burst of changes would be a burst of trees, and the allocator
//! would keep the memory. Guarantees that neither a long-running handler nor a slow server holds up other objects: both release the permit
//! early. When such a handler has returned, its object gets a permit again before any object that has not begun, because it already holds a
//! tree. The worker limit is a different one: it counts handlers for as long as they run. Must not know what a cycle does.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Enough for the writes in flight, for those that wait for them, and for calls that return at once.
const PERMITS: usize = 64;

/// The permits of all cycles.
pub(super) struct Turns {
    permits: Arc<Semaphore>,
    /// Admits one new object at a time to the wait for a permit; all other waiting objects continue a cycle, and so come first.
    first_in_line: Semaphore,
}

/// The permit of one object while it holds one. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct TurnPermit(Arc<Mutex<Option<OwnedSemaphorePermit>>>);

impl Turns {
    pub(super) fn new() -> Self {
        Self { permits: Arc::new(Semaphore::new(PERMITS)), first_in_line: Semaphore::new(1) }
    }

    /// Waits for a permit to begin a cycle.
    pub(super) async fn begin(&self, permit: &TurnPermit) {
        let _first = self.first_in_line.acquire().await;
        // Boxed because a waiting worker must be small, and only one at a time waits here.
        Box::pin(self.go_on(permit)).await;
    }

    /// Waits for a permit to continue a cycle, unless it is held.
    pub(super) async fn go_on(&self, permit: &TurnPermit) {
        if !permit.is_held() {
            let taken = self.permits.clone().acquire_owned().await;
            *permit.0.lock() = taken.ok();
        }
    }
}

impl TurnPermit {
    /// The time limit for calls of handlers: most return at once, and the others may wait for hours.
    pub(super) const CALLS: Duration = Duration::from_millis(10);
    /// The time limit for a write, for which others wait.
    pub(super) const WRITE: Duration = Duration::from_secs(1);

    pub(super) fn is_held(&self) -> bool {
        self.0.lock().is_some()
    }

    pub(super) fn release(&self) {
        *self.0.lock() = None;
    }

    /// Awaits `work`, and releases the permit after `longest`.
    pub(super) fn held_for<T>(
        &self,
        longest: Duration,
        work: impl Future<Output = T>,
    ) -> impl Future<Output = T> {
        // Boxed because a future that is moved into another one is stored twice.
        let mut work = Box::pin(work);
        async move {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = tokio::time::sleep(longest), if self.is_held() => {}
            }
            self.release();
            work.await
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use futures_util::FutureExt as _;

    use super::*;

    async fn begun(turns: &Turns) -> TurnPermit {
        let permit = TurnPermit::default();
        turns.begin(&permit).await;
        permit
    }

    #[tokio::test(start_paused = true)]
    async fn what_takes_long_gives_its_permit_back_and_goes_on() {
        let turns = Turns::new();
        let free = || turns.permits.available_permits();
        let permit = begun(&turns).await;
        assert_eq!(permit.held_for(TurnPermit::CALLS, ready(1)).await, 1, "at once");
        assert_eq!(free(), PERMITS - 1);
        turns.go_on(&permit).await;
        assert_eq!(free(), PERMITS - 1, "held still");
        let call = permit.held_for(TurnPermit::CALLS, pending::<()>());
        let called = tokio::time::timeout(TurnPermit::CALLS * 2, call).await;
        assert!(called.is_err());
        assert_eq!(free(), PERMITS, "given back while the call runs");
        let write = permit.held_for(TurnPermit::WRITE, ready(2));
        assert_eq!(write.await, 2, "without a permit");
        turns.go_on(&permit).await;
        assert_eq!(free(), PERMITS - 1, "taken again");
    }

    #[tokio::test]
    async fn turns_that_go_on_come_before_those_that_begin() {
        let turns = Turns::new();
        let mut held = Vec::new();
        for _ in 0..PERMITS {
            held.push(begun(&turns).await);
        }
        // Yields because the acquisitions above have used up the cooperative budget of this task.
        tokio::task::yield_now().await;
        let permits: Vec<_> = (0..3).map(|_| TurnPermit::default()).collect();
        let begin = permits.iter().map(|permit| Box::pin(turns.begin(permit)));
        let mut beginning: Vec<_> = begin.collect();
        for waiting in &mut beginning {
            assert!(waiting.now_or_never().is_none());
        }
        let later = TurnPermit::default();
        let mut going_on = Box::pin(turns.go_on(&later));
        assert!((&mut going_on).now_or_never().is_none());
        held.truncate(PERMITS - 2);
        for waiting in &mut beginning {
            let _ = waiting.now_or_never();
        }
        let _ = (&mut going_on).now_or_never();
        let count = permits.iter().filter(|it| it.is_held()).count();
        assert_eq!((count, later.is_held()), (1, true));
    }
}
