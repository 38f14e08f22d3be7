//! The deadline of a wait, by the clock of the runtime, which may be paused, and by the real clock.
//!
//! Every wait ends, even if no task of the runtime would wake it. This module does not depend on the awaited future.

use std::future::Future;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;

/// The limit under paused time, which passes in an instant of real time.
const VIRTUAL: Duration = Duration::from_secs(3600);

/// Returns the output of `wait`; `None` if it takes longer than `patience` in real time, or an hour of paused time.
pub(super) async fn within<T>(patience: Duration, wait: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        value = wait => Some(value),
        () = tokio::time::sleep(patience.max(VIRTUAL)) => None,
        () = on_the_wall(patience) => None,
    }
}

/// Completes after this much real time. Dropping the future ends its thread.
async fn on_the_wall(time: Duration) {
    let (over, is_over) = oneshot::channel::<()>();
    let (_alive, ended) = channel::<()>();
    let clock = move || {
        if ended.recv_timeout(time) == Err(RecvTimeoutError::Timeout) {
            // The waiting side may be gone.
            let _ = over.send(());
        }
    };
    let started = thread::Builder::new().name("deadline".to_owned());
    // Without a thread, only the clock of the runtime limits the wait.
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
        // Virtual time jumps to the deadline, since no other timer is pending.
        assert_eq!(within(day, never).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_even_if_virtual_time_stands_still() {
        // A running task of tokio's blocking pool prevents the paused clock from advancing.
        let (stop, stopped) = channel::<()>();
        let blocking = tokio::task::spawn_blocking(move || stopped.recv().is_err());
        let never = std::future::pending::<()>();
        assert_eq!(within(Duration::from_millis(50), never).await, None);
        drop(stop);
        assert!(blocking.await.unwrap());
    }
}
