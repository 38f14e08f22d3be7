//! Gives the stop flag of daemons and timers a sleep with a time limit.
//!
//! Must not know who sets the flag.

use std::pin::Pin;
use std::time::Duration;

use crate::handler::stopped::Stopped;

impl Stopped {
    /// Creates a flag that is not set, for unit tests of daemons and timers.
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
