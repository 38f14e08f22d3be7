//! How the stop flag of daemons and timers waits for no longer than it is told.
//!
//! Must not know who sets it.

use std::pin::Pin;
use std::time::Duration;

use crate::handler::stopped::Stopped;

impl Stopped {
    /// A flag that is not set: for unit tests of daemons and timers.
    #[must_use]
    pub fn new() -> Self {
        Self::unset(Some(sleep))
    }
}

impl Default for Stopped {
    fn default() -> Self {
        Self::new()
    }
}

fn sleep(longest: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(tokio::time::sleep(longest))
}
