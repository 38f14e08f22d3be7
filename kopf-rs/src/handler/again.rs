//! When a reconcile function is called again, if nothing changes: what it returns.
//!
//! Must not know the time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::handler::error::HandlerError;
use crate::handler::seconds::Seconds;

/// When a function with [`#[reconcile]`](macro@crate::reconcile) is called again, if nothing changes before: what it returns.
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

/// Where what a call has asked for is kept until it is judged.
#[derive(Clone, Debug, Default)]
pub(crate) struct AgainCell(Arc<Mutex<Again>>);

/// Return types of reconcile functions.
#[diagnostic::on_unimplemented(
    message = "a reconcile function cannot return `{Self}`",
    label = "not a return type of reconcile functions",
    note = "return nothing, `Again::after(30)`, or a `Result` of one of these, such as `HandlerResult<Again>`; what is to be seen in the status is put there by `patch`"
)]
pub trait IntoAgain {
    /// When the function is called again.
    ///
    /// # Errors
    /// Where the function has failed.
    fn into_again(self) -> Result<Again, HandlerError>;
}

// === impl ===

impl Again {
    /// Call it again after this time: seconds, or a `Duration`. If something changes before, it is called then, and what that call returns counts.
    pub fn after(time: impl Into<Seconds>) -> Self {
        Self(Some(time.into().duration()))
    }

    /// Call it again when something changes, or for the next resync: as if nothing were returned.
    pub fn on_change() -> Self {
        Self(None)
    }

    pub(crate) fn pause(self) -> Option<Duration> {
        self.0
    }
}

impl AgainCell {
    pub(crate) fn set(&self, again: Again) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = again;
    }

    pub(crate) fn get(&self) -> Again {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn all_shapes_say_when() {
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
