//! The arguments of background handlers: the stop flag, and the live object.

use crate::handler::cause::Cause;
use crate::handler::error::{HandlerError, PermanentError};
use crate::handler::extract::extractors::{ByType, family};
use crate::handler::extract::{FromCause, GivenAs, LentAs, arg};
use crate::handler::live::Live;
use crate::handler::stopped::Stopped;
use crate::handler::subject::{BackgroundSubject, Subject};

impl Cause {
    /// Returns the stop flag; `None` outside of background handlers.
    #[must_use]
    pub fn stopped(&self) -> Option<&Stopped> {
        Some(&self.background()?.stopped)
    }

    /// Returns the live object; `None` outside of background handlers.
    #[must_use]
    pub fn live(&self) -> Option<&Live> {
        Some(&self.background()?.live)
    }

    fn background(&self) -> Option<&BackgroundSubject> {
        match &self.subject {
            Subject::Background(subject) => Some(subject),
            _ => None,
        }
    }
}

impl<'a> LentAs<'a, arg::stopped> for Stopped {
    type Held = &'a Stopped;
    fn hold(cause: &'a Cause) -> Result<&'a Stopped, HandlerError> {
        cause.stopped().ok_or_else(|| not_here("stopped"))
    }
}

impl<'a> GivenAs<'a, arg::stopped> for Stopped {
    fn from_arg(cause: &'a Cause) -> Result<Self, HandlerError> {
        <Self as LentAs<'a, arg::stopped>>::hold(cause).cloned()
    }
}

impl FromCause<'_> for Stopped {
    fn from_cause(cause: &Cause) -> Result<Self, HandlerError> {
        let stopped = cause.stopped().cloned();
        stopped.ok_or_else(|| not_here("Stopped"))
    }
}

impl FromCause<'_> for Live {
    fn from_cause(cause: &Cause) -> Result<Self, HandlerError> {
        let live = cause.live().cloned();
        live.ok_or_else(|| not_here("Live"))
    }
}

fn not_here(wanted: &str) -> HandlerError {
    PermanentError::new(format!(
        "the handler asks for `{wanted}`, which only daemons, timers and reconcilers have"
    ))
    .into()
}

/// Families whose handlers run in the background until they are stopped.
#[diagnostic::on_unimplemented(
    message = "handlers of this attribute have neither `Stopped` nor `Live`",
    label = "only what runs in the background is stopped, and sees its object change",
    note = "they belong to #[daemon], #[timer] and #[reconcile]"
)]
pub trait IsStopped {}

#[diagnostic::do_not_recommend]
impl IsStopped for family::Background {}

impl<O> ByType<Stopped, O> {
    /// Compiles only if handlers of this family run in the background.
    pub fn is_given()
    where
        O: IsStopped,
    {
    }
}

impl<O> ByType<Live, O> {
    /// Compiles only if handlers of this family run in the background.
    pub fn is_given()
    where
        O: IsStopped,
    {
    }
}
