//! How many objects are in a turn at a time. In a turn, an object is a tree, and so is what is to be written: ten times its text.
//!
//! Objects are planned faster than they are written, so without a bound a burst of changes is a burst of trees, and the allocator keeps
//! the memory. Promises that neither a handler that runs for long nor a slow server keeps other objects waiting: both give the permit
//! back early. Once such a handler has returned, its object takes a permit again, before any object that has not begun: what waits for it
//! is a tree already. The worker limit is another matter: it counts handlers for as long as they run. Must not know what a turn does.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Enough for the writes that are in flight at a time, for those that wait for them, and for calls that return at once.
const PERMITS: usize = 64;

/// All permits for turns.
pub(super) struct Turns {
    permits: Arc<Semaphore>,
    /// Of the objects that are to begin, one at a time waits for a permit: all others that wait for one go on with a turn.
    first_in_line: Semaphore,
}

/// The permit of one object, while it has one. Clones are the same permit.
#[derive(Clone, Debug, Default)]
pub(super) struct TurnPermit(Arc<Mutex<Option<OwnedSemaphorePermit>>>);

impl Turns {
    pub(super) fn new() -> Self {
        Self {
            permits: Arc::new(Semaphore::new(PERMITS)),
            first_in_line: Semaphore::new(1),
        }
    }

    /// Wait for a permit to begin a turn.
    pub(super) async fn begin(&self, permit: &TurnPermit) {
        let _first = self.first_in_line.acquire().await;
        // Boxed: a worker that waits must be small, and one at a time waits here.
        Box::pin(self.go_on(permit)).await;
    }

    /// Wait for a permit to go on with a turn, unless it is held still.
    pub(super) async fn go_on(&self, permit: &TurnPermit) {
        if !permit.is_held() {
            let taken = self.permits.clone().acquire_owned().await;
            *permit.lock() = taken.ok();
        }
    }
}

impl TurnPermit {
    /// Handlers that are called: most return at once, and whoever waits for something may wait for hours.
    pub(super) const CALLS: Duration = Duration::from_millis(10);
    /// A write: others wait for it, up to a limit.
    pub(super) const WRITE: Duration = Duration::from_secs(1);

    pub(super) fn is_held(&self) -> bool {
        self.lock().is_some()
    }

    pub(super) fn give_back(&self) {
        *self.lock() = None;
    }

    /// Await `work`, and give the permit back once it has taken `longest`.
    pub(super) fn held_for<T>(
        &self,
        longest: Duration,
        work: impl Future<Output = T>,
    ) -> impl Future<Output = T> {
        // Boxed here: what is moved into a future is stored in it twice.
        let mut work = Box::pin(work);
        async move {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = tokio::time::sleep(longest), if self.is_held() => {}
            }
            self.give_back();
            work.await
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<OwnedSemaphorePermit>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        assert_eq!(
            permit.held_for(TurnPermit::CALLS, ready(1)).await,
            1,
            "at once"
        );
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
        // All that was acquired at once has used up the budget of this task.
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
