//! The return type of `#[reconcile]` functions: when to requeue the object if nothing changes before.
//!
//! This module reads no clock.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::handler::error::HandlerError;
use crate::handler::seconds::Seconds;

/// The requeue request that a function with [`#[reconcile]`](macro@crate::reconcile) returns: when to call it again
/// if the object does not change before.
///
/// ```
/// use kopf_rs::prelude::*;
///
/// #[reconcile("kopfexamples")]
/// async fn follow(#[from(status.phase)] phase: Option<&str>) -> HandlerResult<Again> {
///     if phase != Some("Ready") {
///         return Ok(Again::after(30));
///     }
///     Ok(Again::on_change())
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Again(Option<Duration>);

/// Stores the requeue request of a call until the engine evaluates the outcome.
#[derive(Clone, Debug, Default)]
pub(crate) struct AgainCell(Arc<Mutex<Again>>);

/// Types that a reconcile function can return.
#[diagnostic::on_unimplemented(
    message = "a reconcile function cannot return `{Self}`",
    label = "not a return type of reconcile functions",
    note = "return nothing, `Again::after(30)`, or a `Result` of one of these, such as `HandlerResult<Again>`; what is to be seen in the status is put there by `patch`"
)]
pub trait IntoAgain {
    /// Returns the requeue request.
    ///
    /// # Errors
    /// Returns the error of the function if the function has failed.
    fn into_again(self) -> Result<Again, HandlerError>;
}

// === impl ===

impl Again {
    /// Requeues after this time, given in seconds or as a `Duration`. A change of the object triggers an earlier
    /// call, whose own result then applies.
    pub fn after(time: impl Into<Seconds>) -> Self {
        Self(Some(time.into().duration()))
    }

    /// Waits for the next change or resync, as if the function had returned nothing.
    pub fn on_change() -> Self {
        Self(None)
    }

    pub(crate) fn pause(self) -> Option<Duration> {
        self.0
    }
}

impl AgainCell {
    pub(crate) fn set(&self, again: Again) {
        *self.0.lock() = again;
    }

    pub(crate) fn get(&self) -> Again {
        *self.0.lock()
    }
}

impl IntoAgain for () {
    fn into_again(self) -> Result<Again, HandlerError> {
        Ok(Again::on_change())
    }
}

impl IntoAgain for Again {
    fn into_again(self) -> Result<Again, HandlerError> {
        Ok(self)
    }
}

impl<T: IntoAgain, E: Into<HandlerError>> IntoAgain for Result<T, E> {
    fn into_again(self) -> Result<Again, HandlerError> {
        self.map_err(Into::into)?.into_again()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::error::{HandlerResult, PermanentError};

    #[test]
    fn all_return_types_are_requeue_requests() {
        let soon = Again::after(1.5);
        assert_eq!(soon.pause(), Some(Duration::from_millis(1500)));
        assert_eq!(soon.into_again().unwrap(), soon);
        assert_eq!(HandlerResult::Ok(soon).into_again().unwrap(), soon);
        assert_eq!(().into_again().unwrap(), Again::on_change());
        assert_eq!(HandlerResult::Ok(()).into_again().unwrap().pause(), None);
        let failed: Result<Again, _> = Err(PermanentError::new("no"));
        assert_eq!(failed.into_again().unwrap_err().to_string(), "no");
    }
}
