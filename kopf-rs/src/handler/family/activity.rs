//! Handlers of the operator itself: `on_startup`, `on_cleanup`, `on_login`, `on_probe`. They are called for no object, and what is retried is retried in
//! memory.

use crate::handler::attribute::{Attribute, ON_CLEANUP, ON_LOGIN, ON_PROBE, ON_STARTUP};
use crate::handler::cause::Cause;
use crate::handler::extract::given::{ByType, GivenToActivities, OfAnObject};
use crate::handler::options::{CallbackOptions, RetryOptions};
use crate::handler::registry::Registry;
use crate::handler::registry::callback::Callback;
use crate::handler::rules::FamilyRules;
use crate::handler::subject::{Activity, Subject};

/// The options of `on_startup`, `on_cleanup`, `on_login` and `on_probe`.
#[derive(Clone, Default)]
pub struct ActivityOptions {
    /// How failed attempts are repeated.
    pub retry: RetryOptions,
}

/// A handler of an activity.
pub(crate) struct ActivityHandler {
    activity: Activity,
    options: ActivityOptions,
}

pub(super) fn attribute(activity: Activity) -> Attribute {
    match activity {
        Activity::Startup => ON_STARTUP,
        Activity::Cleanup => ON_CLEANUP,
        Activity::Login => ON_LOGIN,
        Activity::Probe => ON_PROBE,
    }
}

impl ActivityHandler {
    pub(super) fn new(activity: Activity, options: ActivityOptions) -> Self {
        Self { activity, options }
    }
}

impl FamilyRules for ActivityHandler {
    fn attribute(&self) -> Attribute {
        attribute(self.activity)
    }

    fn id_scope(&self) -> &'static str {
        self.activity.as_str()
    }

    fn noun(&self) -> &'static str {
        "Activity"
    }

    fn retry(&self) -> &RetryOptions {
        &self.options.retry
    }

    fn activity(&self) -> Option<Activity> {
        Some(self.activity)
    }
}

impl<T: OfAnObject> ByType<T, ActivityOptions> {
    /// Nothing, where it compiles.
    pub fn is_given()
    where
        T: GivenToActivities,
    {
    }
}

impl From<CallbackOptions> for ActivityOptions {
    fn from(given: CallbackOptions) -> Self {
        Self {
            retry: given.change.retry,
        }
    }
}

impl Registry {
    /// Call `handler` once, before any object is handled.
    #[must_use]
    pub fn on_startup(self, handler: Callback) -> Self {
        self.with_activity(Activity::Startup, handler)
    }

    /// Call `handler` once, after all objects have been handled.
    #[must_use]
    pub fn on_cleanup(self, handler: Callback) -> Self {
        self.with_activity(Activity::Cleanup, handler)
    }

    /// Call `handler` for credentials: its result is a [`ConnectionInfo`](crate::ConnectionInfo), or an `Option` of one. See
    /// [`Operator::run_logged_in`](crate::Operator::run_logged_in).
    #[must_use]
    pub fn on_login(self, handler: Callback) -> Self {
        self.with_activity(Activity::Login, handler)
    }

    /// Call `handler` whenever the liveness endpoint is asked ([`Operator::liveness`](crate::Operator::liveness)); its result is part of the answer.
    #[must_use]
    pub fn on_probe(self, handler: Callback) -> Self {
        self.with_activity(Activity::Probe, handler)
    }

    fn with_activity(self, activity: Activity, handler: Callback) -> Self {
        self.with(attribute(activity), handler, |options| {
            Ok(Box::new(ActivityHandler::new(activity, options.into())))
        })
    }
}

impl Cause {
    /// `startup`, `cleanup`, `authentication` or `probe`; `None` for handlers of objects.
    #[must_use]
    pub fn activity(&self) -> Option<&'static str> {
        match &self.subject {
            Subject::Activity(activity) => Some(activity.as_str()),
            _ => None,
        }
    }
}
