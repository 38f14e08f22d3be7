//! Handlers of the operator itself: `on_startup`, `on_cleanup`. They are called for no object, and retried in memory.

use crate::handler::cause::Cause;
use crate::handler::family::{Attribute, Family, FamilyRules, Subject};
use crate::handler::options::{CallbackOptions, RETRY, RetryOptions};
use crate::handler::registry::Registry;
use crate::handler::registry::callback::Callback;

/// What an operator does for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// `#[on_startup]`
    Startup,
    /// `#[on_cleanup]`
    Cleanup,
}

/// The options of `on_startup` and `on_cleanup`.
#[derive(Clone, Default)]
pub struct ActivityOptions {
    /// How failed attempts are repeated.
    pub retry: RetryOptions,
}

/// A handler of an activity.
pub(crate) struct ActivityHandler {
    pub(crate) activity: Activity,
    options: ActivityOptions,
}

const ON_STARTUP: Attribute = Attribute {
    name: "on_startup",
    options: &[RETRY],
};
const ON_CLEANUP: Attribute = Attribute {
    name: "on_cleanup",
    options: &[RETRY],
};
pub(super) const ATTRIBUTES: [Attribute; 2] = [ON_STARTUP, ON_CLEANUP];

impl Activity {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Cleanup => "cleanup",
        }
    }

    pub(super) fn attribute(self) -> Attribute {
        match self {
            Self::Startup => ON_STARTUP,
            Self::Cleanup => ON_CLEANUP,
        }
    }
}

impl ActivityHandler {
    pub(super) fn new(activity: Activity, options: ActivityOptions) -> Self {
        Self { activity, options }
    }
}

impl FamilyRules for ActivityHandler {
    fn attribute(&self) -> Attribute {
        self.activity.attribute()
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
}

impl From<CallbackOptions> for ActivityOptions {
    fn from(given: CallbackOptions) -> Self {
        Self { retry: given.retry }
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

    fn with_activity(self, activity: Activity, handler: Callback) -> Self {
        self.with(activity.attribute(), handler, |options| {
            Ok(Family::Activity(ActivityHandler::new(
                activity,
                options.into(),
            )))
        })
    }
}

impl Cause {
    /// `startup` or `cleanup`; `None` for handlers of objects.
    #[must_use]
    pub fn activity(&self) -> Option<&'static str> {
        match &self.subject {
            Subject::Activity(activity) => Some(activity.as_str()),
            _ => None,
        }
    }
}
