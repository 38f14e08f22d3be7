//! How long a test waits: by the clock of its runtime, which may be paused, and by the clock on the wall, which is not.
//!
//! Promise: a wait ends, also where nothing in the runtime would ever wake it. Must not know what is waited for.

use std::future::Future;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;

/// Under paused time, so much of it passes before a wait is given up; it takes no more than a moment.
const VIRTUAL: Duration = Duration::from_secs(3600);

/// What `wait` comes to; `None` where it took longer than `patience` on the wall, or an hour of paused time.
pub(super) async fn within<T>(patience: Duration, wait: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        value = wait => Some(value),
        () = tokio::time::sleep(patience.max(VIRTUAL)) => None,
        () = on_the_wall(patience) => None,
    }
}

/// Ready after so much real time. Its thread ends with it.
async fn on_the_wall(time: Duration) {
    let (over, is_over) = oneshot::channel::<()>();
    let (_alive, ended) = channel::<()>();
    let clock = move || {
        if ended.recv_timeout(time) == Err(RecvTimeoutError::Timeout) {
            // Nobody may wait any more.
            let _ = over.send(());
        }
    };
    let started = thread::Builder::new().name("deadline".to_owned());
    // Without a thread there is only the clock of the runtime.
    if started.spawn(clock).is_err() || is_over.await.is_err() {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_by_either_clock() {
        let never = std::future::pending::<()>();
        let day = Duration::from_secs(86_400);
        assert_eq!(within(day, async { 1 }).await, Some(1));
        // Virtual time jumps to the deadline, since nothing else is to be waited for.
        assert_eq!(within(day, never).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn time_that_stands_still_is_no_reason_to_wait_for_ever() {
        // A thread of tokio's pool keeps paused time from going on.
        let (stop, stopped) = channel::<()>();
        let blocking = tokio::task::spawn_blocking(move || stopped.recv().is_err());
        let never = std::future::pending::<()>();
        assert_eq!(within(Duration::from_millis(50), never).await, None);
        drop(stop);
        assert!(blocking.await.unwrap());
    }
}
