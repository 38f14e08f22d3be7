//! Background handlers: `daemon`, `timer`, and the rules that `reconcile` shares with them. They run concurrently
//! with all other handlers while the object exists and passes their filters. Their progress is in memory only.

use std::time::Duration;

use kopf_rs_schedule::Schedule;

use crate::handler::attribute::{Attribute, DAEMON, RECONCILE, TIMER};
use crate::handler::extract::background::IsStopped;
use crate::handler::filter::Filters;
use crate::handler::options::{CallbackOptions, RetryOptions};
use crate::handler::owned::OwnedKind;
use crate::handler::registry::Registry;
use crate::handler::registry::callback::Callback;
use crate::handler::registry::selectors::IntoSelector;
use crate::handler::rules::FamilyRules;
use crate::handler::seconds::Seconds;
use crate::handler::target::TargetKind;
use crate::handler::timing::{BackgroundKind, IntoPause, Pause, Timing};
use crate::object::path::FieldPath;
use crate::object::selector::Selector;

/// The options of `daemon` and `timer`.
#[derive(Clone, Default)]
pub struct BackgroundOptions {
    /// How the engine retries failed attempts.
    pub retry: RetryOptions,
    /// The field that the handler is restricted to.
    pub field: Option<FieldPath>,
    /// `labels annotations when value`
    pub filters: Filters,
    /// The delay before the first call.
    pub initial_delay: Option<Pause>,
    /// `daemon`: the grace period between setting the stop flag and cancelling the function.
    pub cancellation_backoff: Option<Duration>,
    /// `daemon`: how long to wait for the function after cancelling it.
    pub cancellation_timeout: Option<Duration>,
    /// `daemon`: the interval of log lines about a function that still runs.
    pub cancellation_polling: Option<Duration>,
    /// `timer`: the time from the end of one call to the start of the next.
    pub interval: Option<Pause>,
    /// `timer`: measure the interval from start to start.
    pub sharp: bool,
    /// `timer`: how long the object must have been unchanged.
    pub idle: Option<Duration>,
    /// `timer`: a cron expression.
    pub schedule: Option<String>,
    /// `timer`: the time zone of the cron expression.
    pub zone: Option<String>,
}

/// A daemon, a timer or a level-triggered handler.
pub(crate) struct BackgroundHandler {
    kind: BackgroundKind,
    selector: Selector,
    retry: RetryOptions,
    field: Option<FieldPath>,
    filters: Filters,
    timing: Timing,
    owns: Vec<OwnedKind>,
    formerly_owns: Vec<Selector>,
    watches: Vec<TargetKind>,
}

/// The options that all handlers of objects share.
pub(super) struct Common {
    pub(super) retry: RetryOptions,
    pub(super) field: Option<FieldPath>,
    pub(super) filters: Filters,
}

impl IsStopped for BackgroundOptions {}

// === impl ===

pub(super) fn attribute(kind: BackgroundKind) -> Attribute {
    match kind {
        BackgroundKind::Daemon => DAEMON,
        BackgroundKind::Timer => TIMER,
        BackgroundKind::Reconcile => RECONCILE,
    }
}

impl BackgroundHandler {
    pub(crate) fn new(
        kind: BackgroundKind,
        selector: Selector,
        options: BackgroundOptions,
    ) -> Result<Self, String> {
        let timing = Timing {
            schedule: schedule(options.schedule.as_deref(), options.zone.as_deref())?,
            initial_delay: options.initial_delay,
            interval: options.interval,
            sharp: options.sharp,
            idle: options.idle,
            resync: None,
            cancellation_backoff: options.cancellation_backoff,
            cancellation_timeout: options.cancellation_timeout,
            cancellation_polling: options.cancellation_polling,
        };
        let common = Common {
            retry: options.retry,
            field: options.field,
            filters: options.filters,
        };
        Self::called((kind, timing), selector, common)
    }

    /// Builds a handler with this kind and timing.
    pub(super) fn called(
        (kind, timing): (BackgroundKind, Timing),
        selector: Selector,
        common: Common,
    ) -> Result<Self, String> {
        timing.check()?;
        let Common {
            retry,
            field,
            filters,
        } = common;
        filters.check(field.as_ref())?;
        Ok(Self {
            kind,
            selector,
            retry,
            field,
            filters,
            timing,
            owns: Vec::new(),
            formerly_owns: Vec::new(),
            watches: Vec::new(),
        })
    }

    /// Adds the kinds of its children.
    pub(super) fn owning(self, owns: Vec<OwnedKind>, formerly_owns: Vec<Selector>) -> Self {
        Self {
            owns,
            formerly_owns,
            ..self
        }
    }

    /// Adds the kinds of objects that it refers to.
    pub(super) fn watching(self, watches: Vec<TargetKind>) -> Self {
        Self { watches, ..self }
    }
}

impl FamilyRules for BackgroundHandler {
    fn attribute(&self) -> Attribute {
        attribute(self.kind)
    }

    fn id_scope(&self) -> &'static str {
        "background"
    }

    fn noun(&self) -> &'static str {
        match self.kind {
            BackgroundKind::Daemon => "Daemon",
            BackgroundKind::Timer => "Timer",
            BackgroundKind::Reconcile => "Reconciler",
        }
    }

    fn selector(&self) -> Option<&Selector> {
        Some(&self.selector)
    }

    fn field(&self) -> Option<&FieldPath> {
        self.field.as_ref()
    }

    fn filters(&self) -> &Filters {
        &self.filters
    }

    fn has_filter_functions(&self) -> bool {
        self.filters.has_functions() || self.timing.has_functions()
    }

    fn retry(&self) -> &RetryOptions {
        &self.retry
    }

    fn background(&self) -> Option<(BackgroundKind, &Timing)> {
        Some((self.kind, &self.timing))
    }

    fn owns(&self) -> &[OwnedKind] {
        &self.owns
    }

    fn formerly_owns(&self) -> &[Selector] {
        &self.formerly_owns
    }

    fn watches(&self) -> &[TargetKind] {
        &self.watches
    }
}

impl From<CallbackOptions> for BackgroundOptions {
    fn from(given: CallbackOptions) -> Self {
        let CallbackOptions {
            change,
            timing,
            schedule,
            zone,
            ..
        } = given;
        Self {
            retry: change.retry,
            field: change.field,
            filters: change.filters,
            initial_delay: timing.initial_delay,
            cancellation_backoff: timing.cancellation_backoff,
            cancellation_timeout: timing.cancellation_timeout,
            cancellation_polling: timing.cancellation_polling,
            interval: timing.interval,
            sharp: timing.sharp,
            idle: timing.idle,
            schedule,
            zone,
        }
    }
}

fn schedule(text: Option<&str>, zone: Option<&str>) -> Result<Option<Schedule>, String> {
    match (text, zone) {
        (None, None) => Ok(None),
        (None, Some(_)) => Err("`zone` is that of a `schedule`: give one".to_owned()),
        (Some(text), zone) => {
            let schedule = Schedule::parse(text, zone);
            schedule.map(Some).map_err(|error| error.to_string())
        }
    }
}

impl Registry {
    /// Runs `handler` for each object while the object exists.
    #[must_use]
    pub fn daemon(self, resources: impl IntoSelector, handler: Callback) -> Self {
        self.with_background(BackgroundKind::Daemon, resources, handler)
    }

    /// Calls `handler` for each object periodically.
    #[must_use]
    pub fn timer(self, resources: impl IntoSelector, handler: Callback) -> Self {
        self.with_background(BackgroundKind::Timer, resources, handler)
    }

    fn with_background(
        self,
        kind: BackgroundKind,
        resources: impl IntoSelector,
        handler: Callback,
    ) -> Self {
        let selector = resources.into_selector();
        self.with(attribute(kind), handler, |options| {
            let handler = BackgroundHandler::new(kind, selector?, options.into())?;
            Ok(Box::new(handler))
        })
    }
}

impl Callback {
    /// For `daemon` and `timer`: the delay before the first call: seconds, a `Duration`, or a function that returns
    /// one of them, `|cause: &Cause| 5`. Default: zero.
    #[must_use]
    pub fn initial_delay<M>(mut self, delay: impl IntoPause<M>) -> Self {
        self.options.timing.initial_delay = Some(delay.into_pause());
        self
    }
    /// For `timer`: the time from the end of one call to the start of the next: seconds, a `Duration`, or a function
    /// that returns one of them, `|cause: &Cause| 5`. Default: none; the timer is called once, or once after each
    /// `idle` period.
    #[must_use]
    pub fn interval<M>(mut self, interval: impl IntoPause<M>) -> Self {
        self.options.timing.interval = Some(interval.into_pause());
        self
    }
    /// For `timer`: measures the interval from start to start, and skips missed calls. Default: from the end of a
    /// call to the start of the next.
    #[must_use]
    pub fn sharp(mut self) -> Self {
        self.options.timing.sharp = true;
        self
    }
    /// For `timer`: calls it only when the object has been unchanged for this long: seconds, or a `Duration`.
    /// Default: no such condition.
    #[must_use]
    pub fn idle(mut self, idle: impl Into<Seconds>) -> Self {
        self.options.timing.idle = Some(idle.into().duration());
        self
    }
    /// For `timer`: calls it at the times of a cron expression: minute, hour, day of the month, month, day of the
    /// week. Default: none; the `interval` determines the times.
    #[must_use]
    pub fn schedule(mut self, expression: impl Into<String>) -> Self {
        self.options.schedule = Some(expression.into());
        self
    }
    /// For `timer`: the time zone of the `schedule`, such as `Europe/Kyiv`. Default: UTC.
    #[must_use]
    pub fn zone(mut self, zone: impl Into<String>) -> Self {
        self.options.zone = Some(zone.into());
        self
    }
    /// For `daemon`: the grace period between setting the stop flag and cancelling the function: seconds, or a
    /// `Duration`. Default: zero.
    #[must_use]
    pub fn cancellation_backoff(mut self, backoff: impl Into<Seconds>) -> Self {
        self.options.timing.cancellation_backoff = Some(backoff.into().duration());
        self
    }
    /// For `daemon`: how long the deletion of the object waits for the function after cancelling it: seconds, or a
    /// `Duration`. Default: the deletion waits until the function returns.
    #[must_use]
    pub fn cancellation_timeout(mut self, timeout: impl Into<Seconds>) -> Self {
        self.options.timing.cancellation_timeout = Some(timeout.into().duration());
        self
    }
    /// For `daemon`: the interval of log lines about a function that still runs and is not cancelled: seconds, or a
    /// `Duration`. Default: [`Background::cancellation_polling`](crate::Background::cancellation_polling), 60
    /// seconds.
    #[must_use]
    pub fn cancellation_polling(mut self, polling: impl Into<Seconds>) -> Self {
        self.options.timing.cancellation_polling = Some(polling.into().duration());
        self
    }
}
