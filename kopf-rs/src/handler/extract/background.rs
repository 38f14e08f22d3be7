//! Arguments that only daemons and timers have: the stop flag, and the object as it is now.

use crate::handler::cause::Cause;
use crate::handler::error::{HandlerError, PermanentError};
use crate::handler::extract::given::ByType;
use crate::handler::extract::{FromArg, FromCause, LendArg, arg};
use crate::handler::live::Live;
use crate::handler::stopped::Stopped;
use crate::handler::subject::{BackgroundSubject, Subject};

impl Cause {
    /// The stop flag, for daemons and timers.
    #[must_use]
    pub fn stopped(&self) -> Option<&Stopped> {
        Some(&self.background()?.stopped)
    }

    /// The object as it is now, for daemons and timers.
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

impl<'a> LendArg<'a, arg::stopped> for Stopped {
    type Held = &'a Stopped;
    fn hold(cause: &'a Cause) -> Result<&'a Stopped, HandlerError> {
        cause.stopped().ok_or_else(|| not_here("stopped"))
    }
}

impl<'a> FromArg<'a, arg::stopped> for Stopped {
    fn from_arg(cause: &'a Cause) -> Result<Self, HandlerError> {
        <Self as LendArg<'a, arg::stopped>>::hold(cause).cloned()
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

/// Families whose handlers run in the background, until they are stopped.
#[diagnostic::on_unimplemented(
    message = "handlers of this attribute have neither `Stopped` nor `Live`",
    label = "only what runs in the background is stopped, and sees its object change",
    note = "they belong to #[daemon], #[timer] and #[reconcile]"
)]
pub trait IsStopped {}

impl<O> ByType<Stopped, O> {
    /// Nothing, where it compiles.
    pub fn is_given()
    where
        O: IsStopped,
    {
    }
}

impl<O> ByType<Live, O> {
    /// Nothing, where it compiles.
    pub fn is_given()
    where
        O: IsStopped,
    {
    }
}
