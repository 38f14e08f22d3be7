//! A handler before its registration: a closure or an annotated function with its options. One row per option.
//!
//! [`HandlerKind`] lists which options each kind accepts. [`Callback::register`] is the only place that makes a
//! [`Handler`] that the engine calls.

use std::any::{Any, TypeId};
use std::fmt;
use std::sync::Arc;

use kopf_rs_schedule::{HandlerKind, enumerated};

use crate::handler::callee::{Callee, Function};
use crate::handler::cause::{Attempt, Cause};
use crate::handler::definition::{ErrorsMode, Handler, RetryOptions, id};
use crate::handler::filter::{Criterion, Filters};
use crate::handler::index::erased::{IndexType, RequiredIndex};
use crate::handler::listed::ListedKind;
use crate::handler::location::{DeclaredAt, SourceLocation};
use crate::handler::operation::Operation;
use crate::handler::owned::{OwnedKind, child_kind};
use crate::handler::registry::selectors::IntoSelector;
use crate::handler::required::RequiredState;
use crate::handler::seconds::Seconds;
use crate::handler::target::{IntoOwners, target_kind};
use crate::handler::timing::{IntoPause, Timing};
use crate::handler::webhook::{AdmissionKind, Webhook};
use crate::object::path::FieldPath;
use crate::object::requests::Requests;
use crate::object::selector::Selector;

/// A closure with an id and options, for a [`Registry`](crate::Registry).
#[derive(Clone)]
pub struct Callback {
    /// The handler so far. Until its registration, the id is the bare name, and there is neither a kind nor a selector.
    pub(crate) handler: Handler,
    /// The expression and the time zone of a timer's schedule, which are parsed together.
    pub(crate) schedule: Option<String>,
    pub(crate) zone: Option<String>,
    /// The values that must be registered with the operator before it can call the function.
    pub(crate) required_state: Vec<RequiredState>,
    /// The kinds whose objects the operator keeps for the function.
    pub(crate) listed: Vec<ListedKind>,
    /// The indices that the function asks for.
    pub(crate) required_indices: Vec<RequiredIndex>,
    /// The given options: one bit for each of `OPTIONS`.
    given: u64,
    /// The first value that names no kind of objects.
    problem: Option<String>,
}

/// The error of a handler that cannot have sub-handlers.
pub(crate) const NO_PARENT: &str = "sub-handlers need a parent that is called for a change: on_create, on_update, on_delete, on_resume or on_field";

/// Defines the method of [`Callback`] for each option.
macro_rules! options {
    ($(
        $(#[$doc:meta])*
        $option:ident: fn $method:ident $([$($generic:tt)*])? ($($argument:ident: $argument_ty:ty),*)
            |$it:ident| $set:expr;
    )*) => {
        /// The options, with the names of their methods.
        const OPTIONS: &[(&str, &str)] = &[$((stringify!($option), stringify!($method))),*];

        /// The positions in `OPTIONS`.
        #[expect(non_camel_case_types, reason = "the names are those of the options")]
        enum Position {
            $($option),*
        }

        impl Callback {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $method $(<$($generic)*>)? (mut self, $($argument: $argument_ty),*) -> Self {
                    self.given |= 1 << Position::$option as u64;
                    let $it = &mut self;
                    $set;
                    self
                }
            )*
        }
    };
}

options! {
    /// An opaque value for `cause.param()`. Default: none.
    param: fn param[T: Any + Send + Sync](param: T) |it| it.handler.param = Some(Arc::new(param));
    /// Requests to the API server that the function sends itself, such as `"get,list pods"` or `"create deployments.apps"`: verbs, then
    /// plurals with their groups. The operator's permissions (`--manifests`) include them. Can be given several times. Default: none.
    requires: fn requires(requests: impl AsRef<str>)
        |it| it.resolve(Requests::parse(requests.as_ref()), |handler, requests| handler.requires.push(requests));
    /// How to treat errors other than temporary and permanent ones. Default: [`ErrorsMode::Temporary`].
    errors: fn errors(errors: ErrorsMode) |it| it.handler.retry.errors = Some(errors);
    /// The total time for all attempts: seconds, or a `Duration`. Default: unlimited.
    timeout: fn timeout(timeout: impl Into<Seconds>)
        |it| it.handler.retry.timeout = Some(timeout.into().duration());
    /// The maximum number of attempts, including the first one. Default: unlimited.
    retries: fn retries(retries: u32) |it| it.handler.retry.retries = Some(retries);
    /// The back-off after an arbitrary error: seconds, or a `Duration`. Default: the growing back-off of the
    /// settings.
    backoff: fn backoff(backoff: impl Into<Seconds>)
        |it| it.handler.retry.backoff = Some(backoff.into().duration());
    /// The field that the handler is restricted to, such as `"spec.size"`, or an array of names. Default: the whole
    /// object.
    field: fn field(field: impl Into<FieldPath>) |it| it.handler.field = Some(field.into());
    /// The criterion on the field's value, before or after the change. Default: [`PRESENT`](crate::PRESENT).
    value: fn value(value: impl Into<Criterion>) |it| it.handler.filters.value = Some(value.into());
    /// Adds a criterion on a label. Can be called several times.
    labels: fn label(name: impl Into<String>, value: impl Into<Criterion>)
        |it| it.handler.filters.labels.push((name.into(), value.into()));
    /// Adds a criterion on an annotation. Can be called several times.
    annotations: fn annotation(name: impl Into<String>, value: impl Into<Criterion>)
        |it| it.handler.filters.annotations.push((name.into(), value.into()));
    /// A predicate over the whole cause, evaluated last. Default: none.
    when: fn when(when: impl Fn(&Cause) -> bool + Send + Sync + 'static)
        |it| it.handler.filters.when = Some(Arc::new(when));
    /// The criterion on the former value of the field. Default: any value.
    old: fn old(old: impl Into<Criterion>) |it| it.handler.filters.old = Some(old.into());
    /// The criterion on the new value of the field. Default: any value.
    new: fn new(new: impl Into<Criterion>) |it| it.handler.filters.new = Some(new.into());
    /// For `on_delete`: adds no finalizer. By default, a finalizer keeps the object until the handler is done.
    optional: fn optional() |it| it.handler.optional = true;
    /// For `on_resume`: also calls the handler for objects being deleted. By default, it is not called for them.
    deleted: fn deleted() |it| it.handler.deleted = true;
    /// For `daemon` and `timer`: the delay before the first call: seconds, a `Duration`, or a function that returns
    /// one of them, `|cause: &Cause| 5`. Default: zero.
    initial_delay: fn initial_delay[M](delay: impl IntoPause<M>)
        |it| it.handler.timing.initial_delay = Some(delay.into_pause());
    /// For `timer`: the time from the end of one call to the start of the next: seconds, a `Duration`, or a function
    /// that returns one of them, `|cause: &Cause| 5`. Default: none; the timer is called once, or once after each
    /// `idle` period.
    interval: fn interval[M](interval: impl IntoPause<M>)
        |it| it.handler.timing.interval = Some(interval.into_pause());
    /// For `timer`: measures the interval from start to start, and skips missed calls. Default: from the end of a
    /// call to the start of the next.
    sharp: fn sharp() |it| it.handler.timing.sharp = true;
    /// For `timer`: calls it only when the object has been unchanged for this long: seconds, or a `Duration`.
    /// Default: no such condition.
    idle: fn idle(idle: impl Into<Seconds>) |it| it.handler.timing.idle = Some(idle.into().duration());
    /// For `timer`: calls it at the times of a cron expression: minute, hour, day of the month, month, day of the
    /// week. Default: none; the `interval` determines the times.
    schedule: fn schedule(expression: impl Into<String>) |it| it.schedule = Some(expression.into());
    /// For `timer`: the time zone of the `schedule`, such as `Europe/Kyiv`. Default: UTC.
    zone: fn zone(zone: impl Into<String>) |it| it.zone = Some(zone.into());
    /// For `reconcile` and handlers of changes: a kind of its children. A change of a child triggers a call. Can be
    /// given several times. Default: none.
    owns: fn owns(kind: impl IntoSelector) |it| it.own(kind, false);
    /// Like `owns`, for children whose full objects the handler reads, beyond the fields that it applies. The
    /// informer caches whole objects, and [`Children::get`](crate::Children::get) reads them from the cache. Default:
    /// none.
    reads: fn reads(kind: impl IntoSelector) |it| it.own(kind, true);
    /// For `reconcile`: a kind of children that former versions of it made. [`Children::set`](crate::Children::set)
    /// deletes the remaining ones. Default: none.
    formerly_owns: fn formerly_owns(kind: impl IntoSelector)
        |it| it.resolve(child_kind(kind.into_selector()), |handler, kind| handler.formerly_owns.push(kind));
    /// For `reconcile`: a kind of objects that it refers to but does not own, with a function that maps a changed
    /// object of this kind to the objects to reconcile: `|it: &Cause| it.labels().get("app").map(str::to_owned)`. Can
    /// be given several times. Default: none.
    watches: fn watches[R: IntoOwners](
        kind: impl IntoSelector, owners: impl Fn(&Cause) -> R + Send + Sync + 'static
    ) |it| it.resolve(target_kind(kind.into_selector(), owners), |handler, kind| handler.watches.push(kind));
    /// For `reconcile`: the time after its last success at which it is called again without any change: seconds, or a
    /// `Duration`. Default: ten hours.
    resync: fn resync(resync: impl Into<Seconds>)
        |it| it.handler.timing.resync = Some(resync.into().duration());
    /// For `on_validate` and `on_mutate`: the operations to handle. Default: all; for `on_mutate` all except
    /// deletions.
    operations: fn operations(operations: impl IntoIterator<Item = Operation>)
        |it| it.handler.webhook.operations.extend(operations);
    /// For `on_validate` and `on_mutate`: the subresource to handle, such as `status`; `*` for all subresources and
    /// the resource itself. Default: the resource itself.
    subresource: fn subresource(subresource: impl Into<String>)
        |it| it.handler.webhook.subresource = Some(subresource.into());
    /// For `on_validate` and `on_mutate`: keeps the webhook configured when the operator exits, so that requests fail
    /// while no operator runs. By default, requests then pass without a check.
    persistent: fn persistent() |it| it.handler.webhook.persistent = true;
    /// For `on_validate` and `on_mutate`: declares side effects beyond changing the object, unless the request is a
    /// dry run. Default: no side effects.
    side_effects: fn side_effects() |it| it.handler.webhook.side_effects = true;
    /// For `on_validate` and `on_mutate`: sets whether the API server allows requests that the webhook fails to
    /// answer, because it is unreachable, panics or times out. Default: `false`.
    ignore_failures: fn ignore_failures(ignore: bool) |it| it.handler.webhook.ignore_failures = Some(ignore);
    /// For `daemon`: the grace period between setting the stop flag and cancelling the function: seconds, or a
    /// `Duration`. Default: zero.
    cancellation_backoff: fn cancellation_backoff(backoff: impl Into<Seconds>)
        |it| it.handler.timing.cancellation_backoff = Some(backoff.into().duration());
    /// For `daemon`: how long the deletion of the object waits for the function after cancelling it: seconds, or a
    /// `Duration`. Default: the deletion waits until the function returns.
    cancellation_timeout: fn cancellation_timeout(timeout: impl Into<Seconds>)
        |it| it.handler.timing.cancellation_timeout = Some(timeout.into().duration());
    /// For `daemon`: the interval of log lines about a function that still runs and is not cancelled: seconds, or a
    /// `Duration`. Default: [`Background::cancellation_polling`](crate::Background::cancellation_polling), 60
    /// seconds.
    cancellation_polling: fn cancellation_polling(polling: impl Into<Seconds>)
        |it| it.handler.timing.cancellation_polling = Some(polling.into().duration());
}

// === impl Callback ===

impl Callback {
    pub(crate) fn of(name: impl Into<String>, declared_at: DeclaredAt, callee: Callee) -> Self {
        let handler = Handler {
            id: name.into().into(),
            kind: HandlerKind::Subhandler,
            selector: None,
            field: None,
            filters: Filters::default(),
            retry: RetryOptions::default(),
            optional: false,
            deleted: false,
            timing: Timing::default(),
            owns: Vec::new(),
            formerly_owns: Vec::new(),
            watches: Vec::new(),
            requires: Vec::new(),
            index: None,
            webhook: Webhook::default(),
            param: None,
            declared_at,
            callee,
            is_keyed: false,
        };
        Self {
            handler,
            schedule: None,
            zone: None,
            required_state: Vec::new(),
            listed: Vec::new(),
            required_indices: Vec::new(),
            given: 0,
            problem: None,
        }
    }

    /// Makes the handler that an attribute or an explicit registry declares.
    ///
    /// # Errors
    /// Returns the first problem with its options or its selector.
    pub(crate) fn register(
        self,
        kind: HandlerKind,
        selector: Option<impl IntoSelector>,
    ) -> Result<Handler, String> {
        if let Some((option, method)) = self.foreign(kind) {
            let owners =
                HandlerKind::ALL.iter().filter(|it| it.has(option) && **it != HandlerKind::Subhandler);
            let owners: Vec<_> = owners.map(|it| it.attribute().to_owned()).collect();
            let (attribute, owners) = (kind.attribute(), enumerated(&owners));
            return Err(format!("`{method}` is not an option of {attribute}: it belongs to {owners}"));
        }
        if kind == HandlerKind::OnField && self.handler.field.is_none() {
            return Err("needs a `field`".to_owned());
        }
        let selector = selector.map(IntoSelector::into_selector).transpose();
        let mut handler = self.resolved(kind, selector.map_err(|error| error.to_string())?)?;
        let in_id = handler.field.as_ref().filter(|_| kind != HandlerKind::Index);
        handler.id = id(&handler.id, in_id).into();
        Ok(handler)
    }

    /// Makes a sub-handler that was registered while its parent runs. It handles the same changes.
    ///
    /// # Errors
    /// Returns the first problem with its options.
    pub(crate) fn register_under(self, parent: &Handler) -> Result<Handler, String> {
        let (name, field) = (Arc::clone(&self.handler.id), self.handler.field.clone());
        let shown = || id(&name, field.as_ref());
        let child = self.child(parent).map_err(|misuse| format!("sub-handler '{}': {misuse}", shown()))?;
        Ok(Handler { id: format!("{}/{name}", parent.id).into(), is_keyed: false, ..child })
    }

    fn child(self, parent: &Handler) -> Result<Handler, String> {
        if !parent.is_for_changes() {
            return Err(NO_PARENT.to_owned());
        }
        if let Some((_, foreign)) = self.foreign(HandlerKind::Subhandler) {
            return Err(format!("`{foreign}` is not an option of sub-handlers"));
        }
        let child = self.resolved(parent.kind, parent.selector.clone())?;
        let is_one_sided = child.filters.old.is_some() || child.filters.new.is_some();
        if is_one_sided && !parent.reacts_to_differences() {
            let parent = parent.kind.attribute();
            return Err(format!(
                "`old` and `new` belong to sub-handlers of on_update and on_field, but its parent is one of {parent}: use `value` or `when` \
                 here, or register it in a parent that is called for updates"
            ));
        }
        Ok(child)
    }

    fn resolved(self, kind: HandlerKind, selector: Option<Selector>) -> Result<Handler, String> {
        let mut handler = Handler { kind, selector, ..self.handler };
        match (kind == HandlerKind::Index, handler.index.is_some()) {
            (true, false) => {
                return Err("the function of an index is made by `indexer` or `indexer_async`".to_owned());
            }
            (false, true) => {
                return Err("a function made by `indexer` belongs to `Registry::index`".to_owned());
            }
            _ => {}
        }
        handler.filters.check(handler.field.as_ref())?;
        if let Some(kind) = AdmissionKind::of(kind) {
            // The `timeout` of admission handlers limits the API server instead.
            let timeout = handler.retry.timeout.take();
            handler.webhook.resolve(kind, timeout, handler.deleted)?;
        }
        handler.timing.resolve(kind, self.schedule.as_deref(), self.zone.as_deref())?;
        self.problem.map_or(Ok(handler), Err)
    }

    /// Returns the first given option that handlers of this kind do not have, with the name of its method.
    fn foreign(&self, kind: HandlerKind) -> Option<(&'static str, &'static str)> {
        let mut given = (0..).zip(OPTIONS).filter(|(bit, _)| self.given & (1 << bit) != 0);
        given.find_map(|(_, known)| (!kind.has(known.0)).then_some(*known))
    }

    /// Adds a kind of children, once; the informer caches whole objects if one option requests them.
    fn own(&mut self, kind: impl IntoSelector, is_read: bool) {
        self.resolve(child_kind(kind.into_selector()), |handler, selector| {
            match handler.owns.iter_mut().find(|known| known.selector == selector) {
                Some(known) => known.is_read |= is_read,
                None => handler.owns.push(OwnedKind { selector, is_read }),
            }
        });
    }

    /// Adds a kind of objects, or notes that it is none.
    fn resolve<T>(&mut self, kind: Result<T, String>, add: impl FnOnce(&mut Handler, T)) {
        match kind {
            Ok(kind) => add(&mut self.handler, kind),
            Err(problem) => {
                self.problem.get_or_insert(problem);
            }
        }
    }
}

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Callback({:?} at {})", self.handler.id, self.handler.declared_at)
    }
}

// === for generated code ===

/// Makes the handler of an annotated function, without options.
#[must_use]
pub fn function(name: impl Into<String>, location: SourceLocation, function: Function) -> Callback {
    Callback::of(name, DeclaredAt::Function(location), Callee::Fn(function))
}

impl Callback {
    /// Gives each attempt of a handler of changes an idempotency key, [`Cause::attempt`], which survives a crash.
    /// Costs one write before the first attempt for a change. Off by default.
    #[must_use]
    pub fn keyed(mut self) -> Self {
        self.handler.is_keyed = true;
        self
    }
    /// Adds a value that an argument of the function requires.
    #[doc(hidden)]
    #[must_use]
    pub fn requiring(mut self, state: Option<RequiredState>) -> Self {
        let is_key = |it: &RequiredState| it.type_id == TypeId::of::<Attempt>();
        self.handler.is_keyed |= state.as_ref().is_some_and(is_key);
        match state.and_then(|it| it.listed) {
            Some(listed) => self.listed.push(listed),
            None => self.required_state.extend(state.filter(|it| !is_key(it))),
        }
        self
    }

    /// Adds an index that the function asks for.
    #[doc(hidden)]
    #[must_use]
    pub fn reading(mut self, index: RequiredIndex) -> Self {
        self.required_indices.push(index);
        self
    }

    /// Sets the types of the index that the function fills.
    #[doc(hidden)]
    #[must_use]
    pub fn indexing(mut self, ty: IndexType) -> Self {
        self.handler.index = Some(ty);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::registry::callback::handler;

    #[test]
    fn closures_have_all_options_of_attributes() {
        let known: Vec<_> = OPTIONS.iter().map(|it| it.0).collect();
        let wanted = HandlerKind::ALL.iter().flat_map(|it| it.options());
        let lacking: Vec<_> = wanted.filter(|it| *it != "id" && !known.contains(it)).collect();
        assert!(lacking.is_empty(), "`Callback` lacks {lacking:?}");
        let is_accepted = |option: &&str| HandlerKind::ALL.iter().any(|it| it.has(option));
        assert!(known.iter().all(is_accepted));
    }

    #[test]
    fn read_kinds_are_owned_once() {
        let it = handler("r", |_| async { Ok(()) }).owns("services").owns("pods").reads("pods");
        let owned = it.handler.owns.iter().map(|kind| (kind.selector.to_string(), kind.is_read));
        let owned: Vec<_> = owned.collect();
        assert_eq!(owned, [("services".to_owned(), false), ("pods".to_owned(), true)]);
    }
}
