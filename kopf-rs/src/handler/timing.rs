//! When what runs in the background is called, and how it is stopped: the options that only those attributes have.
//!
//! Must not know the time.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use kopf_rs_schedule::Schedule;

use crate::handler::cause::Cause;
use crate::handler::seconds::Seconds;

/// What runs in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackgroundKind {
    /// `#[daemon]`
    Daemon,
    /// `#[timer]`
    Timer,
    /// `#[reconcile]`
    Reconcile,
}

/// When it is called, and how it is stopped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timing {
    pub(crate) initial_delay: Option<Pause>,
    pub(crate) interval: Option<Pause>,
    pub(crate) sharp: bool,
    pub(crate) idle: Option<Duration>,
    pub(crate) schedule: Option<Schedule>,
    /// How long after a success it is called though nothing has changed.
    pub(crate) resync: Option<Duration>,
    pub(crate) cancellation_backoff: Option<Duration>,
    pub(crate) cancellation_timeout: Option<Duration>,
    pub(crate) cancellation_polling: Option<Duration>,
}

/// A span of time, or a function of the object that says it.
#[derive(Clone)]
pub struct Pause(Length);

#[derive(Clone)]
enum Length {
    Fixed(Duration),
    Of(Arc<dyn Fn(&Cause) -> Duration + Send + Sync>),
}

/// Asks for a span of time: the span, or what the user's function has panicked with.
pub(crate) type AskPause = fn(&Pause, &Cause) -> Result<Duration, String>;

/// What an option that is a span of time can be set to: seconds, a `Duration`, or a function of the cause that gives one of these.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no span of time, nor a function that gives one",
    label = "expected seconds, a `Duration`, or a function of `&Cause`",
    note = "such as `interval = 30`, `interval = Duration::from_millis(500)`, `interval = |cause| 30`; closures given to methods need the type: `|cause: &Cause| 30`"
)]
pub trait IntoPause<M> {
    /// The span of time, or the function.
    fn into_pause(self) -> Pause;
}

/// The marker of spans of time.
#[derive(Debug)]
pub enum AsItIs {}

/// The marker of functions.
#[derive(Debug)]
pub struct ByFunction<T>(PhantomData<T>);

impl<T: Into<Seconds>> IntoPause<AsItIs> for T {
    fn into_pause(self) -> Pause {
        Pause(Length::Fixed(self.into().duration()))
    }
}

impl<T: Into<Seconds>, F: Fn(&Cause) -> T + Send + Sync + 'static> IntoPause<ByFunction<T>> for F {
    fn into_pause(self) -> Pause {
        Pause::of(self)
    }
}

/// A span of time, or a function that says it: for generated code.
pub fn pause<M>(pause: impl IntoPause<M>) -> Pause {
    pause.into_pause()
}

impl Pause {
    /// As long as `function` says of the object, each time it is asked.
    pub fn of<T: Into<Seconds>>(function: impl Fn(&Cause) -> T + Send + Sync + 'static) -> Self {
        let length = move |cause: &Cause| function(cause).into().duration();
        Self(Length::Of(Arc::new(length)))
    }

    pub(crate) fn is_function(&self) -> bool {
        matches!(self.0, Length::Of(_))
    }

    pub(crate) fn length(&self, cause: &Cause) -> Duration {
        match &self.0 {
            Length::Fixed(length) => *length,
            Length::Of(function) => function(cause),
        }
    }

    fn fixed(&self) -> Option<Duration> {
        match &self.0 {
            Length::Fixed(length) => Some(*length),
            Length::Of(_) => None,
        }
    }
}

impl fmt::Debug for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Length::Fixed(length) => write!(f, "Pause({length:?})"),
            Length::Of(_) => f.write_str("Pause(..)"),
        }
    }
}

impl Timing {
    /// Nobody means more: a number is in other units, or a mistake.
    const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

    /// What cannot be meant, or does not go together.
    pub(crate) fn check(&self) -> Result<(), String> {
        let fixed = |pause: &Option<Pause>| pause.as_ref().and_then(Pause::fixed);
        let interval = fixed(&self.interval);
        let spans = [
            ("interval", interval),
            ("initial_delay", fixed(&self.initial_delay)),
            ("idle", self.idle),
            ("resync", self.resync),
            ("cancellation_backoff", self.cancellation_backoff),
            ("cancellation_timeout", self.cancellation_timeout),
            ("cancellation_polling", self.cancellation_polling),
        ];
        for (name, span) in spans {
            if span.is_some_and(|span| span > Self::LONGEST) {
                return Err(format!(
                    "`{name}` is longer than a hundred years: it is a number of seconds"
                ));
            }
        }
        let is_zero = |span: Option<Duration>| span.is_some_and(|span| span.is_zero());
        if is_zero(interval) {
            return Err(
                "an `interval` of zero, or a negative one, would call the timer again and again without a pause"
                    .to_owned(),
            );
        }
        if is_zero(self.resync) {
            return Err(
                "a `resync` of zero would call the function again and again without a pause"
                    .to_owned(),
            );
        }
        if is_zero(self.idle) || is_zero(self.cancellation_polling) {
            return Err("`idle` and `cancellation_polling` must be longer than zero".to_owned());
        }
        if self.schedule.is_some() {
            let others = [
                ("interval", self.interval.is_some()),
                ("sharp", self.sharp),
                ("initial_delay", self.initial_delay.is_some()),
            ];
            if let Some((other, _)) = others.iter().find(|(_, given)| *given) {
                return Err(format!(
                    "a `schedule` says by itself when the timer is called: leave out either it or `{other}`"
                ));
            }
        }
        if self.sharp && self.interval.is_none() {
            return Err("`sharp` is about the `interval`: give one".to_owned());
        }
        Ok(())
    }

    /// Whether functions of users are among them.
    pub(crate) fn has_functions(&self) -> bool {
        let mut pauses = self.initial_delay.iter().chain(&self.interval);
        pauses.any(Pause::is_function)
    }
}
