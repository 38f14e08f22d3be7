//! Calls of handlers, noted by themselves, to be awaited and asserted on.
//!
//! Must not know handlers.

use std::sync::Arc;

use tokio::sync::watch;

use crate::testing::deadline::within;
use crate::testing::lines::Lines;

/// What handlers note, in order: [`TestCluster::calls`](crate::testing::TestCluster::calls). Clones share it, so that a handler can have one
/// as its `State<Calls>`, or in a closure.
#[derive(Clone, Debug)]
pub struct Calls {
    made: Arc<watch::Sender<Vec<String>>>,
    lines: Lines,
}

impl Calls {
    /// None yet. A failure shows these lines, and comes after their patience.
    #[must_use]
    pub fn new(lines: &Lines) -> Self {
        Self {
            made: Arc::new(watch::Sender::new(Vec::new())),
            lines: lines.clone(),
        }
    }

    /// Note a call.
    pub fn note(&self, call: impl Into<String>) {
        self.made.send_modify(|calls| calls.push(call.into()));
    }

    /// All calls so far.
    #[must_use]
    pub fn all(&self) -> Vec<String> {
        self.made.borrow().clone()
    }

    /// Wait until there are `count` calls; all there are.
    ///
    /// # Panics
    /// At the deadline, with all calls and all log lines.
    pub async fn until(&self, count: usize) -> Vec<String> {
        let mut changes = self.made.subscribe();
        let enough = changes.wait_for(|calls| calls.len() >= count);
        let waited = within(self.lines.patience(), enough).await;
        let calls = waited.and_then(Result::ok).map(|calls| calls.clone());
        calls.unwrap_or_else(|| {
            let (calls, lines) = (self.all(), self.lines.shown());
            panic!(
                "expected {count} calls, found {}: {calls:?}\n{lines}",
                calls.len()
            )
        })
    }
}
