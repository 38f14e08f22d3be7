//! Tracks the handler call that runs on this thread, for functions that find the handled object without an argument.
//!
//! Tasks and threads that a handler starts have no current call, as with log spans. This module does not know what
//! calls handlers.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use crate::handler::cause::Cause;

thread_local! {
    /// The current call; for a sub-handler, the sub-handler's own call rather than its parent's.
    static CURRENT: RefCell<Option<Arc<Cause>>> = const { RefCell::new(None) };
}

/// Guard that makes a call the current one, and restores the previous one on drop.
pub(crate) struct Entered {
    outer: Option<Arc<Cause>>,
}

/// Makes this call the current one until the guard is dropped. Enter it while the call's future is polled or its
/// function runs.
pub(crate) fn enter(cause: &Arc<Cause>) -> Entered {
    Entered { outer: CURRENT.replace(Some(cause.clone())) }
}

/// Returns the call that runs on this thread.
pub(crate) fn cause() -> Option<Arc<Cause>> {
    CURRENT.with_borrow(Clone::clone)
}

/// Returns whether log lines of the current call are posted as Kubernetes Events.
#[must_use]
pub fn posts_lines() -> bool {
    CURRENT.with_borrow(|cause| cause.as_ref().is_some_and(|it| it.logger().posts_lines()))
}

/// Posts a log line as a Kubernetes Event.
pub fn post_line(level: tracing::Level, line: fmt::Arguments<'_>) {
    if let Some(cause) = cause() {
        cause.logger().post_line(level, line);
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.outer.take());
    }
}
