//! The gate before all work: open, or closed for good when the operator stops.
//!
//! Asked wherever work begins: a worker's next turn, each call of a handler, a sleep before the next attempt. What has begun passes no
//! gate any more: it ends, and is written. A pause (another operator has the say for a while) will be a third state: [`Gate::admit`]
//! then waits for the end of the pause before it waits for a place, and its callers stay as they are. Must not know what waits.

use tokio_util::sync::CancellationToken;

/// Whether work may begin.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    closed: CancellationToken,
}

impl Gate {
    /// Nothing begins from now on.
    pub(crate) fn close(&self) {
        self.closed.cancel();
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.closed.is_cancelled()
    }

    /// Wait until the gate is closed.
    pub(crate) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// Wait for what work needs to begin. `None` where it must not begin any more.
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
