//! The options of handlers, as attributes and closures give them: one row per option. A closure with its options is a
//! [`Callback`].
//!
//! [`HandlerKind`] lists which options each kind accepts. `definition` turns options into a [`Handler`].
//!
//! [`Handler`]: crate::handler::definition::Handler

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use kopf_rs_schedule::{HandlerKind, enumerated};

use crate::handler::callee::Callee;
use crate::handler::cause::{Cause, Param};
use crate::handler::filter::{Criterion, Filters, When};
use crate::handler::index::erased::{IndexType, RequiredIndex};
use crate::handler::location::DeclaredAt;
use crate::handler::operation::Operation;
use crate::handler::owned::Kinds;
use crate::handler::registry::selectors::IntoSelector;
use crate::handler::required::RequiredState;
use crate::handler::seconds::Seconds;
use crate::handler::target::{IntoOwners, WatchedKind, target};
use crate::handler::timing::{IntoPause, Pause};
use crate::object::path::FieldPath;

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

/// A closure with an id and options, for a [`Registry`](crate::Registry).
#[derive(Clone)]
pub struct Callback {
    pub(crate) name: String,
    pub(crate) declared_at: DeclaredAt,
    pub(crate) options: Options,
    pub(crate) callee: Callee,
}

/// Defines the field of each option, and the method of [`Callback`] that sets it (`=`) or adds to it (`+=`).
macro_rules! options {
    ($(
        $(#[$doc:meta])*
        $field:ident: $ty:ty, fn $method:ident $([$($generic:tt)*])? ($($argument:ident: $argument_ty:ty),*) $set:tt $value:expr;
    )*) => {
        /// The options of one handler.
        #[derive(Clone, Default)]
        pub struct Options {
            /// Overrides the function's name as the id.
            pub id: Option<String>,
            /// For `index`: the types of its keys and values.
            pub index: Option<IndexType>,
            /// The values that must be registered with the operator before it can call the function.
            pub required_state: Vec<RequiredState>,
            /// The indices that the function asks for.
            pub required_indices: Vec<RequiredIndex>,
            /// True if attempts have idempotency keys.
            pub keyed: bool,
            $(
                $(#[$doc])*
                pub $field: $ty,
            )*
        }

        impl Options {
            /// Returns for each option its name, the name of its method, and whether it was given.
            fn all(&self) -> Vec<(&'static str, &'static str, bool)> {
                vec![$((stringify!($field), stringify!($method), self.$field.is_given())),*]
            }
        }

        impl Callback {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $method $(<$($generic)*>)? (mut self, $($argument: $argument_ty),*) -> Self {
                    options!(@ self.options.$field, $set, $value);
                    self
                }
            )*
        }
    };
    (@ $place:expr, =, $value:expr) => { $place = $value };
    (@ $place:expr, +=, $value:expr) => { $place.extend($value) };
}

options! {
    /// An opaque value for `cause.param()`. Default: none.
    param: Option<Param>, fn param[T: Any + Send + Sync](param: T) = Some(Arc::new(param));
    /// How to treat errors other than temporary and permanent ones. Default: [`ErrorsMode::Temporary`].
    errors: Option<ErrorsMode>, fn errors(errors: ErrorsMode) = Some(errors);
    /// The total time for all attempts: seconds, or a `Duration`. Default: unlimited.
    timeout: Option<Duration>, fn timeout(timeout: impl Into<Seconds>) = Some(timeout.into().duration());
    /// The maximum number of attempts, including the first one. Default: unlimited.
    retries: Option<u32>, fn retries(retries: u32) = Some(retries);
    /// The back-off after an arbitrary error: seconds, or a `Duration`. Default: the growing back-off of the
    /// settings.
    backoff: Option<Duration>, fn backoff(backoff: impl Into<Seconds>) = Some(backoff.into().duration());
    /// The field that the handler is restricted to, such as `"spec.size"`, or an array of names. Default: the whole
    /// object.
    field: Option<FieldPath>, fn field(field: impl Into<FieldPath>) = Some(field.into());
    /// The criterion on the field's value, before or after the change. Default: [`PRESENT`](crate::PRESENT).
    value: Option<Criterion>, fn value(value: impl Into<Criterion>) = Some(value.into());
    /// Adds a criterion on a label. Can be called several times.
    labels: Vec<(String, Criterion)>, fn label(name: impl Into<String>, value: impl Into<Criterion>)
        += [(name.into(), value.into())];
    /// Adds a criterion on an annotation. Can be called several times.
    annotations: Vec<(String, Criterion)>, fn annotation(name: impl Into<String>, value: impl Into<Criterion>)
        += [(name.into(), value.into())];
    /// A predicate over the whole cause, evaluated last. Default: none.
    when: Option<When>, fn when(when: impl Fn(&Cause) -> bool + Send + Sync + 'static) = Some(Arc::new(when));
    /// The criterion on the former value of the field. Default: any value.
    old: Option<Criterion>, fn old(old: impl Into<Criterion>) = Some(old.into());
    /// The criterion on the new value of the field. Default: any value.
    new: Option<Criterion>, fn new(new: impl Into<Criterion>) = Some(new.into());
    /// For `on_delete`: adds no finalizer. By default, a finalizer keeps the object until the handler is done.
    optional: bool, fn optional() = true;
    /// For `on_resume`: also calls the handler for objects being deleted. By default, it is not called for them.
    deleted: bool, fn deleted() = true;
    /// For `daemon` and `timer`: the delay before the first call: seconds, a `Duration`, or a function that returns
    /// one of them, `|cause: &Cause| 5`. Default: zero.
    initial_delay: Option<Pause>, fn initial_delay[M](delay: impl IntoPause<M>) = Some(delay.into_pause());
    /// For `timer`: the time from the end of one call to the start of the next: seconds, a `Duration`, or a function
    /// that returns one of them, `|cause: &Cause| 5`. Default: none; the timer is called once, or once after each
    /// `idle` period.
    interval: Option<Pause>, fn interval[M](interval: impl IntoPause<M>) = Some(interval.into_pause());
    /// For `timer`: measures the interval from start to start, and skips missed calls. Default: from the end of a
    /// call to the start of the next.
    sharp: bool, fn sharp() = true;
    /// For `timer`: calls it only when the object has been unchanged for this long: seconds, or a `Duration`.
    /// Default: no such condition.
    idle: Option<Duration>, fn idle(idle: impl Into<Seconds>) = Some(idle.into().duration());
    /// For `timer`: calls it at the times of a cron expression: minute, hour, day of the month, month, day of the
    /// week. Default: none; the `interval` determines the times.
    schedule: Option<String>, fn schedule(expression: impl Into<String>) = Some(expression.into());
    /// For `timer`: the time zone of the `schedule`, such as `Europe/Kyiv`. Default: UTC.
    zone: Option<String>, fn zone(zone: impl Into<String>) = Some(zone.into());
    /// For `reconcile` and handlers of changes: a kind of its children. A change of a child triggers a call. Can be
    /// given several times. Default: none.
    owns: Kinds, fn owns(kind: impl IntoSelector) += [kind.into_selector()];
    /// Like `owns`, for children whose full objects the handler reads, beyond the fields that it applies. The
    /// informer caches whole objects, and [`Children::get`](crate::Children::get) reads them from the cache. Default:
    /// none.
    reads: Kinds, fn reads(kind: impl IntoSelector) += [kind.into_selector()];
    /// For `reconcile`: a kind of children that former versions of it made. [`Children::set`](crate::Children::set)
    /// deletes the remaining ones. Default: none.
    formerly_owns: Kinds, fn formerly_owns(kind: impl IntoSelector) += [kind.into_selector()];
    /// For `reconcile`: a kind of objects that it refers to but does not own, with a function that maps a changed
    /// object of this kind to the objects to reconcile: `|it: &Cause| it.labels().get("app").map(str::to_owned)`. Can
    /// be given several times. Default: none.
    watches: Vec<WatchedKind>, fn watches[R: IntoOwners](
        kind: impl IntoSelector, owners: impl Fn(&Cause) -> R + Send + Sync + 'static
    ) += [target(kind.into_selector(), owners)];
    /// For `reconcile`: the time after its last success at which it is called again without any change: seconds, or a
    /// `Duration`. Default: ten hours.
    resync: Option<Duration>, fn resync(resync: impl Into<Seconds>) = Some(resync.into().duration());
    /// For `on_validate` and `on_mutate`: the operations to handle. Default: all; for `on_mutate` all except
    /// deletions.
    operations: Vec<Operation>, fn operations(operations: impl IntoIterator<Item = Operation>) += operations;
    /// For `on_validate` and `on_mutate`: the subresource to handle, such as `status`; `*` for all subresources and
    /// the resource itself. Default: the resource itself.
    subresource: Option<String>, fn subresource(subresource: impl Into<String>) = Some(subresource.into());
    /// For `on_validate` and `on_mutate`: keeps the webhook configured when the operator exits, so that requests fail
    /// while no operator runs. By default, requests then pass without a check.
    persistent: bool, fn persistent() = true;
    /// For `on_validate` and `on_mutate`: declares side effects beyond changing the object, unless the request is a
    /// dry run. Default: no side effects.
    side_effects: bool, fn side_effects() = true;
    /// For `on_validate` and `on_mutate`: sets whether the API server allows requests that the webhook fails to
    /// answer, because it is unreachable, panics or times out. Default: `false`.
    ignore_failures: Option<bool>, fn ignore_failures(ignore: bool) = Some(ignore);
    /// For `daemon`: the grace period between setting the stop flag and cancelling the function: seconds, or a
    /// `Duration`. Default: zero.
    cancellation_backoff: Option<Duration>, fn cancellation_backoff(backoff: impl Into<Seconds>)
        = Some(backoff.into().duration());
    /// For `daemon`: how long the deletion of the object waits for the function after cancelling it: seconds, or a
    /// `Duration`. Default: the deletion waits until the function returns.
    cancellation_timeout: Option<Duration>, fn cancellation_timeout(timeout: impl Into<Seconds>)
        = Some(timeout.into().duration());
    /// For `daemon`: the interval of log lines about a function that still runs and is not cancelled: seconds, or a
    /// `Duration`. Default: [`Background::cancellation_polling`](crate::Background::cancellation_polling), 60
    /// seconds.
    cancellation_polling: Option<Duration>, fn cancellation_polling(polling: impl Into<Seconds>)
        = Some(polling.into().duration());
}

/// Tells given options from their defaults.
trait IsGiven {
    fn is_given(&self) -> bool;
}

// === impl ===

impl<T> IsGiven for Option<T> {
    fn is_given(&self) -> bool {
        self.is_some()
    }
}

impl<T> IsGiven for Vec<T> {
    fn is_given(&self) -> bool {
        !self.is_empty()
    }
}

impl IsGiven for bool {
    fn is_given(&self) -> bool {
        *self
    }
}

impl std::fmt::Debug for Callback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Callback({:?} at {})", self.name, self.declared_at)
    }
}

impl Options {
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

    /// Returns the first given option that handlers of this kind do not have, with the name of its method.
    pub(crate) fn foreign(&self, kind: HandlerKind) -> Option<(&'static str, &'static str)> {
        let mut all = self.all().into_iter();
        let found = all.find(|(option, _, is_given)| *is_given && !kind.has(option));
        found.map(|(option, method, _)| (option, method))
    }

    pub(crate) fn filters(&self) -> Filters {
        Filters {
            labels: self.labels.clone(),
            annotations: self.annotations.clone(),
            value: self.value.clone(),
            old: self.old.clone(),
            new: self.new.clone(),
            when: self.when.clone(),
        }
    }

    /// Returns an error for the first option that handlers of this kind do not have.
    pub(crate) fn check(&self, kind: HandlerKind) -> Result<(), String> {
        let Some((option, method)) = self.foreign(kind) else {
            return Ok(());
        };
        let owners = HandlerKind::ALL.iter().filter(|it| it.has(option) && **it != HandlerKind::Subhandler);
        let owners: Vec<_> = owners.map(|it| it.attribute().to_owned()).collect();
        Err(format!(
            "`{method}` is not an option of {}: it belongs to {}",
            kind.attribute(),
            enumerated(&owners)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closures_have_all_options_of_attributes() {
        let known: Vec<_> = Options::default().all().into_iter().map(|it| it.0).collect();
        let wanted = HandlerKind::ALL.iter().flat_map(|it| it.options());
        let lacking: Vec<_> = wanted.filter(|it| *it != "id" && !known.contains(it)).collect();
        assert!(lacking.is_empty(), "`Callback` lacks {lacking:?}");
        let is_accepted = |option: &&str| HandlerKind::ALL.iter().any(|it| it.has(option));
        assert!(known.iter().all(is_accepted));
    }
}
