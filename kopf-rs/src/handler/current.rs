//! The call that runs on this thread: for functions that need no argument to know which object is being handled.
//!
//! As with log lines, tasks and threads that a handler starts know of none. Must not know what calls handlers.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use crate::handler::cause::Cause;

thread_local! {
    /// A sub-handler's within its parent's.
    static CURRENT: RefCell<Option<Arc<Cause>>> = const { RefCell::new(None) };
}

/// While it lives, a call is the current one. Dropped, the one before is again.
pub(crate) struct Entered {
    outer: Option<Arc<Cause>>,
}

/// Make this call the current one for a while: for as long as it is polled, or its function runs.
pub(crate) fn enter(cause: &Arc<Cause>) -> Entered {
    Entered {
        outer: CURRENT.replace(Some(cause.clone())),
    }
}

/// The call that runs on this thread.
pub(crate) fn cause() -> Option<Arc<Cause>> {
    CURRENT.with_borrow(Clone::clone)
}

/// Whether log lines are posted as Events here.
#[must_use]
pub fn posts_lines() -> bool {
    CURRENT.with_borrow(|cause| cause.as_ref().is_some_and(|it| it.logger().posts_lines()))
}

/// Post a log line as an Event.
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
