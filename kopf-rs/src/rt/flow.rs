//! Limits the bytes in transit between a producer and its consumers.
//!
//! A producer that can wait, such as a listing, awaits [`Flow::room`] before it continues, so that its data does not
//! pile up in memory. This module guarantees not to wait for consumers that make no progress. It must not depend on
//! the content.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

/// With this many bytes in transit, a producer waits until half of them are consumed.
const FULL: usize = 256 * 1024;
/// Waiting ends when consumers make no progress for this long: they are blocked by something else, so waiting does not help.
const PATIENCE: Duration = Duration::from_secs(1);

/// The bytes in transit. Clones are the same flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flow(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    bytes: AtomicUsize,
    /// Notified when half of the bytes are consumed.
    drained: Notify,
}

/// A part of the bytes. Dropping it marks them as consumed.
#[derive(Debug, Default)]
pub(crate) struct Load(Option<(usize, Flow)>);

impl Flow {
    /// Adds this many bytes to the flow.
    pub(crate) fn load(&self, bytes: usize) -> Load {
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
        Load(Some((bytes, self.clone())))
    }

    /// Waits until there is room for more. Returns `false` if the consumers make no progress.
    pub(crate) async fn room(&self) -> bool {
        let mut before = self.bytes();
        if before < FULL {
            return true;
        }
        loop {
            let drained = pin!(self.0.drained.notified());
            if self.bytes() <= FULL / 2 {
                return true;
            }
            if timeout(PATIENCE, drained).await.is_err() {
                let now = self.bytes();
                if now >= before {
                    return false;
                }
                before = now;
            }
        }
    }

    fn bytes(&self) -> usize {
        self.0.bytes.load(Ordering::Relaxed)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let Some((bytes, Flow(flow))) = self.0.take() else {
            return;
        };
        let before = flow.bytes.fetch_sub(bytes, Ordering::Relaxed);
        let half = FULL / 2;
        if before > half && before - bytes <= half {
            flow.drained.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_producer_waits_until_half_of_the_bytes_are_taken_in() {
        let flow = Flow::default();
        let mut loads: Vec<_> = (0..4).map(|_| flow.load(FULL / 4 - 1)).collect();
        assert_eq!(flow.room().now_or_never(), Some(true));
        loads.push(flow.load(4));
        let mut room = Box::pin(flow.room());
        assert_eq!((&mut room).now_or_never(), None);
        loads.truncate(3);
        assert_eq!((&mut room).now_or_never(), None);
        loads.truncate(2);
        assert_eq!(room.now_or_never(), Some(true));
    }

    #[tokio::test(start_paused = true)]
    async fn consumers_that_take_nothing_in_are_not_waited_for() {
        let flow = Flow::default();
        let load = flow.load(2 * FULL);
        let began = Instant::now();
        assert!(!flow.room().await);
        assert_eq!(began.elapsed(), PATIENCE);
        // Slow consumers that make progress are waited for.
        let pieces: Vec<_> = (0..4).map(|_| flow.load(1)).collect();
        let slow = async move {
            let _load = load;
            for piece in pieces {
                tokio::time::sleep(PATIENCE * 9 / 10).await;
                drop(piece);
            }
        };
        let (is_waited_for, ()) = tokio::join!(flow.room(), slow);
        assert!(is_waited_for);
    }
}
