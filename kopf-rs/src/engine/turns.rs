//! How many objects are in a turn at a time. In a turn, an object is a tree, and so is what is to be written: ten times its text.
//!
//! Objects are planned faster than they are written, so without a bound a burst of changes is a burst of trees, and the allocator keeps
//! the memory. Promises that neither a handler that runs for long nor a slow server keeps other objects waiting: both give the permit
//! back early. The worker limit is another matter: it counts handlers for as long as they run. Must not know what a turn does.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Enough for the writes that are in flight at a time, for those that wait for them, and for calls that return at once.
const PERMITS: usize = 64;

/// All permits for turns.
pub(super) struct Turns(Arc<Semaphore>);

/// The permit of one object; or none, where it was given back or not taken yet.
#[derive(Debug, Default)]
pub(super) struct TurnPermit(Option<OwnedSemaphorePermit>);

impl Turns {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(PERMITS)))
    }

    pub(super) async fn take(&self) -> TurnPermit {
        TurnPermit(self.0.clone().acquire_owned().await.ok())
    }
}

impl TurnPermit {
    /// Handlers that are called: most return at once, and whoever waits for something may wait for hours.
    pub(super) const CALLS: Duration = Duration::from_millis(10);
    /// A write: others wait for it, up to a limit.
    pub(super) const WRITE: Duration = Duration::from_secs(1);

    pub(super) fn is_held(&self) -> bool {
        self.0.is_some()
    }

    /// Await `work`, and give the permit back once it has taken `longest`.
    pub(super) fn held_for<T>(
        &mut self,
        longest: Duration,
        work: impl Future<Output = T>,
    ) -> impl Future<Output = T> {
        // Boxed here: what is moved into a future is stored in it twice.
        let mut work = Box::pin(work);
        async move {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = tokio::time::sleep(longest), if self.0.is_some() => {}
            }
            self.0 = None;
            work.await
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_takes_long_gives_its_permit_back_and_goes_on() {
        let turns = Turns::new();
        let free = || turns.0.available_permits();
        let mut permit = turns.take().await;
        assert_eq!(
            permit.held_for(TurnPermit::CALLS, ready(1)).await,
            1,
            "at once"
        );
        assert_eq!(free(), PERMITS - 1);
        let call = permit.held_for(TurnPermit::CALLS, pending::<()>());
        let called = tokio::time::timeout(TurnPermit::CALLS * 2, call).await;
        assert!(called.is_err());
        assert_eq!(free(), PERMITS, "given back while the call runs");
        let write = permit.held_for(TurnPermit::WRITE, ready(2));
        assert_eq!(write.await, 2, "without a permit");
    }
}
