//! Records calls of handlers, for tests to await and assert on.
//!
//! This module does not depend on handlers.

use std::sync::Arc;

use tokio::sync::watch;

use crate::testing::lines::Lines;

/// The calls that handlers have recorded, in order: [`TestCluster::calls`](crate::testing::TestCluster::calls).
/// Clones share the list, so that a handler can take it as `State<Calls>`, or capture it in a closure.
#[derive(Clone, Debug)]
pub struct Calls {
    made: Arc<watch::Sender<Vec<String>>>,
    lines: Lines,
}

impl Calls {
    /// Creates an empty list. Waits use the patience of `lines`, and failures show these lines.
    #[must_use]
    pub fn new(lines: &Lines) -> Self {
        Self { made: Arc::new(watch::Sender::new(Vec::new())), lines: lines.clone() }
    }

    /// Records a call.
    pub fn note(&self, call: impl Into<String>) {
        self.made.send_modify(|calls| calls.push(call.into()));
    }

    /// Returns all calls so far.
    #[must_use]
    pub fn all(&self) -> Vec<String> {
        self.made.borrow().clone()
    }

    /// Waits until there are at least `count` calls; returns all of them.
    ///
    /// # Panics
    /// Panics at the deadline, showing all calls and all log lines.
    pub async fn until(&self, count: usize) -> Vec<String> {
        let mut changes = self.made.subscribe();
        let enough = changes.wait_for(|calls| calls.len() >= count);
        let waited = self.lines.wait(enough).await;
        let calls = waited.and_then(Result::ok).map(|calls| calls.clone());
        calls.unwrap_or_else(|| {
            let (calls, lines) = (self.all(), self.lines.shown());
            panic!(
                "expected {count} calls, found {} {}: {calls:?}\n{lines}",
                calls.len(),
                self.lines.in_vain()
            )
        })
    }
}
