//! Handlers of the operator itself: `on_startup`, `on_cleanup`, `on_login`, `on_probe`. They have no object, and
//! their retry state is in memory only.

use crate::handler::attribute::{Attribute, ON_CLEANUP, ON_LOGIN, ON_PROBE, ON_STARTUP};
use crate::handler::cause::Cause;
use crate::handler::extract::extractors::{ByType, GivenToActivities, OfAnObject};
use crate::handler::options::{CallbackOptions, RetryOptions};
use crate::handler::registry::Registry;
use crate::handler::registry::callback::Callback;
use crate::handler::rules::FamilyRules;
use crate::handler::subject::{Activity, Subject};

/// The options of `on_startup`, `on_cleanup`, `on_login` and `on_probe`.
#[derive(Clone, Default)]
pub struct ActivityOptions {
    /// How the engine retries failed attempts.
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
    /// Compiles only if activities have this argument.
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
    /// Calls `handler` once, before any object is handled.
    #[must_use]
    pub fn on_startup(self, handler: Callback) -> Self {
        self.with_activity(Activity::Startup, handler)
    }

    /// Calls `handler` once, after the last object has been handled.
    #[must_use]
    pub fn on_cleanup(self, handler: Callback) -> Self {
        self.with_activity(Activity::Cleanup, handler)
    }

    /// Calls `handler` for credentials. Its result is a [`ConnectionInfo`](crate::ConnectionInfo), or an `Option` of
    /// one. See
    /// [`Operator::run_logged_in`](crate::Operator::run_logged_in).
    #[must_use]
    pub fn on_login(self, handler: Callback) -> Self {
        self.with_activity(Activity::Login, handler)
    }

    /// Calls `handler` for each request to the liveness endpoint ([`Operator::liveness`](crate::Operator::liveness)).
    /// Its result is part of the response.
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
    /// Returns `startup`, `cleanup`, `authentication` or `probe`; `None` for handlers of objects.
    #[must_use]
    pub fn activity(&self) -> Option<&'static str> {
        match &self.subject {
            Subject::Activity(activity) => Some(activity.as_str()),
            _ => None,
        }
    }
}
