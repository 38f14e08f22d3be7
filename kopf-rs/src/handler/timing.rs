//! The options of background handlers: when the operator calls them, and how it stops them.
//!
//! This module reads no clock.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use kopf_rs_schedule::{HandlerKind, Schedule};

use crate::handler::cause::Cause;
use crate::handler::seconds::Seconds;

/// When the operator calls a background handler, and how it stops it. Empty for other handlers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timing {
    pub(crate) initial_delay: Option<Pause>,
    pub(crate) interval: Option<Pause>,
    pub(crate) sharp: bool,
    pub(crate) idle: Option<Duration>,
    pub(crate) schedule: Option<Schedule>,
    /// The time after a success at which the handler is called again without any change.
    pub(crate) resync: Option<Duration>,
    pub(crate) cancellation_backoff: Option<Duration>,
    pub(crate) cancellation_timeout: Option<Duration>,
    pub(crate) cancellation_polling: Option<Duration>,
}

/// A span of time, or a function of the cause that returns one.
#[derive(Clone)]
pub struct Pause(Length);

#[derive(Clone)]
enum Length {
    Fixed(Duration),
    Of(Arc<dyn Fn(&Cause) -> Duration + Send + Sync>),
}

/// The default of `resync`, as in controller-runtime.
const RESYNC: Duration = Duration::from_secs(10 * 60 * 60);

/// Evaluates a pause: returns the span, or the panic message of the user's function.
pub(crate) type AskPause = fn(&Pause, &Cause) -> Result<Duration, String>;

/// Values that an option for a span of time accepts: seconds, a `Duration`, or a function of the cause that returns
/// one of these.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no span of time, nor a function that gives one",
    label = "expected seconds, a `Duration`, or a function of `&Cause`",
    note = "such as `interval = 30`, `interval = Duration::from_millis(500)`, `interval = |cause| 30`; closures given to methods need the type: `|cause: &Cause| 30`"
)]
pub trait IntoPause<M> {
    /// Converts to a pause.
    fn into_pause(self) -> Pause;
}

/// Marker for spans of time.
#[derive(Debug)]
pub enum AsItIs {}

/// Marker for functions.
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

/// Makes a closure a function of the cause, so that its argument needs no type annotation: for generated code.
pub fn of_cause<T: Into<Seconds>, F: Fn(&Cause) -> T>(function: F) -> F {
    function
}

impl Pause {
    /// Creates a pause whose length `function` computes for the object on each use.
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
    /// The longest accepted span. A larger number is a mistake, such as a wrong unit.
    const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

    /// Adds the schedule and the defaults of a handler's kind.
    ///
    /// # Errors
    /// Returns an error for implausible spans, and for options that contradict each other.
    pub(super) fn resolve(
        &mut self,
        kind: HandlerKind,
        schedule: Option<&str>,
        zone: Option<&str>,
    ) -> Result<(), String> {
        self.schedule = match schedule {
            None if zone.is_some() => return Err("`zone` is that of a `schedule`: give one".to_owned()),
            None => None,
            Some(text) => Some(Schedule::parse(text, zone).map_err(|error| error.to_string())?),
        };
        if kind == HandlerKind::Reconcile {
            self.resync.get_or_insert(RESYNC);
        }
        self.check()
    }

    fn check(&self) -> Result<(), String> {
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
                return Err(format!("`{name}` is longer than a hundred years: it is a number of seconds"));
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
                "a `resync` of zero would call the function again and again without a pause".to_owned()
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

    /// Returns whether the options contain user functions.
    pub(crate) fn has_functions(&self) -> bool {
        let mut pauses = self.initial_delay.iter().chain(&self.interval);
        pauses.any(Pause::is_function)
    }
}
