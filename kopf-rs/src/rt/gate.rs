//! The gate before all work: open, or closed permanently when the operator stops.
//!
//! Every start of work passes it: a worker's next cycle, each call of a handler, a sleep before the next attempt.
//! Work that has started passes no further gate: it completes, and its result is written. Pauses in favour of another
//! operator do not close the gate: the engine's queue handles them. This module does not know which work waits.

use tokio_util::sync::CancellationToken;

/// Controls whether work may start.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    closed: CancellationToken,
}

impl Gate {
    /// Closes the gate: no work starts from now on.
    pub(crate) fn close(&self) {
        self.closed.cancel();
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.closed.is_cancelled()
    }

    /// Waits until the gate is closed.
    pub(crate) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// Waits for a precondition of work. Returns `None` if the gate closes first.
    pub(crate) async fn admit<T>(&self, ready: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.closed() => None,
            ready = ready => Some(ready),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_waits_when_the_gate_closes_is_not_admitted() {
        let gate = Gate::default();
        assert_eq!(gate.admit(async { 1 }).await, Some(1));
        let waiting = gate.admit(tokio::time::sleep(Duration::from_secs(60)));
        let closing = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            gate.close();
        };
        assert_eq!(tokio::join!(waiting, closing).0, None);
        assert!(!gate.is_open());
        assert_eq!(gate.admit(async { 1 }).await, None);
    }
}
