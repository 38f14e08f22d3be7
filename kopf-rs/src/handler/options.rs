//! Options that several families of handlers share, and the bag in which a closure collects its own.
//!
//! What only one family has is in its module.

use std::time::Duration;

use crate::handler::cause::Param;
use crate::handler::filter::{Criterion, Filters};
use crate::handler::required::RequiredState;
use crate::handler::timing::Timing;
use crate::object::path::FieldPath;

/// The options that all attributes have.
#[derive(Clone, Default)]
pub struct CommonOptions {
    /// Another id than the function's name.
    pub id: Option<String>,
    /// An opaque value for the argument `param`.
    pub param: Option<Param>,
    /// What the operator must be given for the function.
    pub required_state: Vec<RequiredState>,
}

impl CommonOptions {
    /// The same for a function with an argument that requires this.
    #[must_use]
    pub fn requiring(mut self, state: Option<RequiredState>) -> Self {
        self.required_state.extend(state);
        self
    }
}

/// How failed attempts are repeated.
#[derive(Clone, Debug, Default)]
pub struct RetryOptions {
    /// What arbitrary errors mean.
    pub errors: Option<ErrorsMode>,
    /// Total time over all attempts; an async attempt is cancelled when it is over.
    pub timeout: Option<Duration>,
    /// Total number of attempts.
    pub retries: Option<u32>,
    /// Fixed delay after an arbitrary error.
    pub backoff: Option<Duration>,
}

/// The options of a family that has no [`RetryOptions`].
pub(crate) static NO_RETRY: RetryOptions = RetryOptions {
    errors: None,
    timeout: None,
    retries: None,
    backoff: None,
};

/// What an arbitrary error means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorsMode {
    /// The error is logged, and the handler counts as succeeded.
    Ignored,
    /// The handler is tried again. The default.
    Temporary,
    /// The handler is not tried again.
    Permanent,
}

/// What was said of a closure before its family is known: it has a method for each option of each family.
#[derive(Clone, Default)]
pub(crate) struct CallbackOptions {
    pub(crate) param: Option<Param>,
    pub(crate) retry: RetryOptions,
    pub(crate) field: Option<FieldPath>,
    pub(crate) filters: Filters,
    pub(crate) old: Option<Criterion>,
    pub(crate) new: Option<Criterion>,
    pub(crate) optional: bool,
    pub(crate) deleted: bool,
    pub(crate) timing: Timing,
}

impl CallbackOptions {
    /// Whether functions of users are among its filters.
    pub(crate) fn has_filter_functions(&self) -> bool {
        let Self {
            filters, old, new, ..
        } = self;
        filters.has_functions()
            || self.timing.has_functions()
            || old.iter().chain(new).any(Criterion::is_function)
    }

    /// The names of the methods that were called, but for `param`, which each family has.
    pub(crate) fn given(&self) -> impl Iterator<Item = &'static str> {
        let Self {
            retry,
            filters,
            timing,
            ..
        } = self;
        let all = [
            ("errors", retry.errors.is_some()),
            ("timeout", retry.timeout.is_some()),
            ("retries", retry.retries.is_some()),
            ("backoff", retry.backoff.is_some()),
            ("field", self.field.is_some()),
            ("value", filters.value.is_some()),
            ("label", !filters.labels.is_empty()),
            ("annotation", !filters.annotations.is_empty()),
            ("when", filters.when.is_some()),
            ("old", self.old.is_some()),
            ("new", self.new.is_some()),
            ("optional", self.optional),
            ("deleted", self.deleted),
            ("initial_delay", timing.initial_delay.is_some()),
            ("interval", timing.interval.is_some()),
            ("sharp", timing.sharp),
            ("idle", timing.idle.is_some()),
            (
                "cancellation_backoff",
                timing.cancellation_backoff.is_some(),
            ),
            (
                "cancellation_timeout",
                timing.cancellation_timeout.is_some(),
            ),
            (
                "cancellation_polling",
                timing.cancellation_polling.is_some(),
            ),
        ];
        all.into_iter()
            .filter(|(_, given)| *given)
            .map(|(name, _)| name)
    }
}
