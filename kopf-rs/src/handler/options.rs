//! Options that several families share, and the options of a closure, whose family is not known yet.
//!
//! Options of one family live in the module of that family. The options of changes are here, since a closure can have
//! all of them.

use std::time::Duration;

use crate::handler::cause::Param;
use crate::handler::filter::{Criterion, Filters};
use crate::handler::index::erased::{IndexType, RequiredIndex};
use crate::handler::operation::Operation;
use crate::handler::owned::Kinds;
use crate::handler::required::RequiredState;
use crate::handler::target::WatchedKind;
use crate::handler::timing::Timing;
use crate::object::path::FieldPath;

/// The options that all attributes have.
#[derive(Clone, Default)]
pub struct CommonOptions {
    /// Overrides the function's name as the id.
    pub id: Option<String>,
    /// An opaque value for the argument `param`.
    pub param: Option<Param>,
    /// The values that must be registered with the operator before it can call the function.
    pub required_state: Vec<RequiredState>,
    /// The indices that the function asks for.
    pub required_indices: Vec<RequiredIndex>,
}

impl CommonOptions {
    /// Adds the requirement of one argument.
    #[must_use]
    pub fn requiring(mut self, state: Option<RequiredState>) -> Self {
        self.required_state.extend(state);
        self
    }

    /// Adds an index that the function asks for.
    #[must_use]
    pub fn reading(mut self, index: RequiredIndex) -> Self {
        self.required_indices.push(index);
        self
    }
}

/// How the engine retries failed attempts.
#[derive(Clone, Debug, Default)]
pub struct RetryOptions {
    /// How the engine treats arbitrary errors.
    pub errors: Option<ErrorsMode>,
    /// Total timeout over all attempts. Cancels an async attempt that is still running.
    pub timeout: Option<Duration>,
    /// Maximum number of attempts.
    pub retries: Option<u32>,
    /// Fixed back-off after an arbitrary error.
    pub backoff: Option<Duration>,
}

/// The options of families without retries.
pub(crate) static NO_RETRY: RetryOptions = RetryOptions {
    errors: None,
    timeout: None,
    retries: None,
    backoff: None,
};

/// The options of `on_create`, `on_update`, `on_delete`, `on_resume` and `on_field`.
#[derive(Clone, Default)]
pub struct ChangeOptions {
    /// How the engine retries failed attempts.
    pub retry: RetryOptions,
    /// The field that the handler is restricted to.
    pub field: Option<FieldPath>,
    /// `labels annotations when value`
    pub filters: Filters,
    /// `on_update`, `on_field`: criterion on the former value of the field.
    pub old: Option<Criterion>,
    /// `on_update`, `on_field`: criterion on the new value of the field.
    pub new: Option<Criterion>,
    /// `on_delete`: add no finalizer.
    pub optional: bool,
    /// `on_resume`: also call the handler for objects being deleted.
    pub deleted: bool,
    /// The kinds of its children.
    pub owns: Kinds,
    /// The kinds of children whose full objects it reads, beyond the fields that it applies.
    pub reads: Kinds,
}

impl ChangeOptions {
    /// Returns whether the filters contain user functions.
    pub(crate) fn has_filter_functions(&self) -> bool {
        let Self {
            filters, old, new, ..
        } = self;
        filters.has_functions() || old.iter().chain(new).any(Criterion::is_function)
    }
}

/// How the engine treats an arbitrary error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorsMode {
    /// Logs the error, and counts the handler as succeeded.
    Ignored,
    /// Retries the handler. The default.
    Temporary,
    /// Does not retry the handler.
    Permanent,
}

/// The options set on a closure before its family is known: there is a method for each option of each family.
#[derive(Clone, Default)]
pub(crate) struct CallbackOptions {
    pub(crate) param: Option<Param>,
    pub(crate) change: ChangeOptions,
    pub(crate) timing: Timing,
    pub(crate) schedule: Option<String>,
    pub(crate) zone: Option<String>,
    pub(crate) owns: Kinds,
    pub(crate) reads: Kinds,
    pub(crate) formerly_owns: Kinds,
    pub(crate) operations: Vec<Operation>,
    pub(crate) subresource: Option<String>,
    pub(crate) persistent: bool,
    pub(crate) side_effects: bool,
    pub(crate) ignore_failures: Option<bool>,
    pub(crate) watches: Vec<WatchedKind>,
    /// True if attempts have idempotency keys.
    pub(crate) keyed: bool,
    /// For `index`: the types of its keys and values.
    pub(crate) index: Option<IndexType>,
}

impl CallbackOptions {
    /// Returns the names of the methods that were called, except `param`, which all families have.
    pub(crate) fn given(&self) -> impl Iterator<Item = &'static str> {
        let ChangeOptions {
            retry,
            field,
            filters,
            old,
            new,
            optional,
            deleted,
            ..
        } = &self.change;
        let timing = &self.timing;
        let all = [
            ("errors", retry.errors.is_some()),
            ("timeout", retry.timeout.is_some()),
            ("retries", retry.retries.is_some()),
            ("backoff", retry.backoff.is_some()),
            ("field", field.is_some()),
            ("value", filters.value.is_some()),
            ("label", !filters.labels.is_empty()),
            ("annotation", !filters.annotations.is_empty()),
            ("when", filters.when.is_some()),
            ("old", old.is_some()),
            ("new", new.is_some()),
            ("optional", *optional),
            ("deleted", *deleted),
            ("initial_delay", timing.initial_delay.is_some()),
            ("interval", timing.interval.is_some()),
            ("sharp", timing.sharp),
            ("idle", timing.idle.is_some()),
            ("schedule", self.schedule.is_some()),
            ("zone", self.zone.is_some()),
            ("owns", !self.owns.is_empty()),
            ("reads", !self.reads.is_empty()),
            ("formerly_owns", !self.formerly_owns.is_empty()),
            ("watches", !self.watches.is_empty()),
            ("resync", timing.resync.is_some()),
            ("operations", !self.operations.is_empty()),
            ("subresource", self.subresource.is_some()),
            ("persistent", self.persistent),
            ("side_effects", self.side_effects),
            ("ignore_failures", self.ignore_failures.is_some()),
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
