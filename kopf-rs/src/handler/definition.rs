//! A handler as plain data, and one call of it.
//!
//! An attribute and a closure end up in the same description:
//!
//! ```text
//! #[on_update(.., retries = 3)]     -> Decl { kind, selector, options, call }
//! handler("id", ..).retries(3)      -> Callback { name, options, callee }, with kind and selector
//! Handler::new(kind, selector, callback) -> Handler { id, kind, selector, field, filters, retry, .., callee }
//! ```
//!
//! `options` lists all options, and [`HandlerKind`] which kind accepts which. [`Handler::new`] is the only place that
//! turns options into a handler. Its fields are the options as the engine uses them; its methods derive from the kind
//! when the handler is called and how its outcome is treated. Code outside of `handler` asks for the kind only to tell
//! daemons, timers, reconcilers and logins apart, and for the words of metrics.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use kopf_rs_schedule::HandlerKind;

use crate::handler::callee::Callee;
use crate::handler::cause::{Attempt, Cause, CauseContext, Param};
use crate::handler::event_sink::OperatorSink;
use crate::handler::filter::{Filters, Former, When};
use crate::handler::index::erased::IndexType;
use crate::handler::location::DeclaredAt;
use crate::handler::named_panic::named;
use crate::handler::options::Callback;
use crate::handler::options::{ErrorsMode, Options};
use crate::handler::owned::{OwnedKind, former_kinds, owned_kinds};
use crate::handler::subject::{Activity, Reason, Subject};
use crate::handler::target::{TargetKind, target_kinds};
use crate::handler::timing::{Timing, schedule};
use crate::handler::webhook::{AdmissionKind, Webhook};
use crate::object::body::Body;
use crate::object::path::FieldPath;
use crate::object::resource::Resource;
use crate::object::selector::{Selector, SelectorError};

/// A resolved handler: the engine resolves each declaration once, at start. Displays as in log lines: `Handler 'id'`,
/// `Activity 'id'`.
pub(crate) struct Handler {
    /// Kopf's id: `name` or `name/field.path`.
    pub(crate) id: Arc<str>,
    pub(crate) kind: HandlerKind,
    /// The resources it handles; `None` for handlers without an object.
    pub(crate) selector: Option<Selector>,
    /// The field it is restricted to.
    pub(crate) field: Option<FieldPath>,
    /// The filters that select its objects and changes.
    pub(crate) filters: Filters,
    pub(crate) retry: RetryOptions,
    /// `on_delete`: adds no finalizer.
    pub(crate) optional: bool,
    /// `on_resume`: also handles objects being deleted.
    pub(crate) deleted: bool,
    /// When it is called, if it runs in the background.
    pub(crate) timing: Option<Timing>,
    /// The kinds of its children; a change of a child triggers a call.
    pub(crate) owns: Vec<OwnedKind>,
    /// The kinds of children that former versions of it made.
    pub(crate) formerly_owns: Vec<Selector>,
    /// The kinds of objects that it refers to but does not own.
    pub(crate) watches: Vec<TargetKind>,
    /// The types of the index that it fills; `None` for handlers that fill none.
    pub(crate) index: Option<IndexType>,
    /// The configuration of an admission handler's webhook.
    pub(crate) webhook: Webhook,
    /// The value of the argument `param`.
    pub(crate) param: Option<Param>,
    pub(crate) declared_at: DeclaredAt,
    pub(crate) callee: Callee,
    /// True if attempts have idempotency keys. Then the engine stores the input of the key before the first attempt.
    pub(crate) is_keyed: bool,
}

/// How the engine retries failed attempts.
#[derive(Clone, Debug, Default)]
pub(crate) struct RetryOptions {
    /// How the engine treats arbitrary errors.
    pub(crate) errors: Option<ErrorsMode>,
    /// Total timeout over all attempts. Cancels an async attempt that is still running.
    pub(crate) timeout: Option<Duration>,
    /// Maximum number of attempts.
    pub(crate) retries: Option<u32>,
    /// Fixed back-off after an arbitrary error.
    pub(crate) backoff: Option<Duration>,
}

/// One call of a handler. Dereferences to the cause of the call.
#[derive(Clone, Debug)]
pub(crate) struct HandlerCall {
    pub(crate) handler: Arc<Handler>,
    pub(crate) cause: Cause,
}

/// The default of `resync`, as in controller-runtime.
const RESYNC: Duration = Duration::from_secs(10 * 60 * 60);

/// The error of a handler that cannot have sub-handlers.
pub(crate) const NO_PARENT: &str = "sub-handlers need a parent that is called for a change: on_create, on_update, on_delete, on_resume or on_field";

// === impl ===

impl HandlerCall {
    pub(crate) fn new(
        handler: Arc<Handler>,
        mut context: CauseContext,
        attempt: Attempt,
        subject: Subject,
    ) -> Self {
        if let (true, Some(object)) = (handler.posts_lines(), subject.object()) {
            let sink = context.extensions.get::<OperatorSink>();
            let version = object.body.resource_version();
            let logger = context.logger.posting_to(sink.as_deref());
            context.logger = logger.for_call(&handler.id, version);
        }
        let cause =
            Cause { handler_id: handler.id.clone(), param: handler.param.clone(), context, attempt, subject };
        Self { handler, cause }
    }
}

impl Deref for HandlerCall {
    type Target = Cause;
    fn deref(&self) -> &Cause {
        &self.cause
    }
}

impl Handler {
    /// Builds the handler that an attribute or an explicit registry declares.
    ///
    /// # Errors
    /// Returns the first problem with its options or its selector.
    pub(crate) fn new(
        kind: HandlerKind,
        selector: Option<Result<Selector, SelectorError>>,
        callback: Callback,
    ) -> Result<Self, String> {
        let options = &callback.options;
        options.check(kind)?;
        if kind == HandlerKind::OnField && options.field.is_none() {
            return Err("needs a `field`".to_owned());
        }
        let selector = selector.transpose().map_err(|error| error.to_string())?;
        Self::resolved(kind, selector, callback)
    }

    /// Builds a sub-handler from a callback that was registered while this handler runs. It handles the same changes.
    ///
    /// # Errors
    /// Returns the first problem with its options.
    pub(crate) fn subhandler(&self, callback: Callback) -> Result<Self, String> {
        let shown = id(&callback.name, callback.options.field.as_ref());
        let id = format!("{}/{}", self.id, callback.name).into();
        let child = self.child(callback);
        Ok(Self {
            id,
            is_keyed: false,
            ..child.map_err(|misuse| format!("sub-handler '{shown}': {misuse}"))?
        })
    }

    fn child(&self, callback: Callback) -> Result<Self, String> {
        if !self.is_for_changes() {
            return Err(NO_PARENT.to_owned());
        }
        if let Some((_, foreign)) = callback.options.foreign(HandlerKind::Subhandler) {
            return Err(format!("`{foreign}` is not an option of sub-handlers"));
        }
        let child = Self::resolved(self.kind, self.selector.clone(), callback)?;
        let is_one_sided = child.filters.old.is_some() || child.filters.new.is_some();
        if is_one_sided && !self.reacts_to_differences() {
            let parent = self.kind.attribute();
            return Err(format!(
                "`old` and `new` belong to sub-handlers of on_update and on_field, but its parent is one of {parent}: use `value` or `when` \
                 here, or register it in a parent that is called for updates"
            ));
        }
        Ok(child)
    }

    fn resolved(kind: HandlerKind, selector: Option<Selector>, callback: Callback) -> Result<Self, String> {
        let options: Options = callback.options;
        match (kind == HandlerKind::Index, options.index.is_some()) {
            (true, false) => {
                return Err("the function of an index is made by `indexer` or `indexer_async`".to_owned());
            }
            (false, true) => {
                return Err("a function made by `indexer` belongs to `Registry::index`".to_owned());
            }
            _ => {}
        }
        let filters = options.filters();
        filters.check(options.field.as_ref())?;
        let in_id = options.field.as_ref().filter(|_| kind != HandlerKind::Index);
        let admission = AdmissionKind::of(kind);
        let webhook = admission.map(|it| Webhook::new(it, &options)).transpose()?;
        Ok(Self {
            id: id(&callback.name, in_id).into(),
            kind,
            selector,
            filters,
            retry: RetryOptions {
                errors: options.errors,
                // The `timeout` of admission handlers limits the API server instead.
                timeout: options.timeout.filter(|_| admission.is_none()),
                retries: options.retries,
                backoff: options.backoff,
            },
            optional: options.optional,
            deleted: options.deleted,
            timing: timing(kind, &options)?,
            owns: owned_kinds(options.owns, options.reads)?,
            formerly_owns: former_kinds(options.formerly_owns)?,
            watches: target_kinds(options.watches)?,
            index: options.index,
            webhook: webhook.unwrap_or_default(),
            field: options.field,
            param: options.param,
            declared_at: callback.declared_at,
            callee: callback.callee,
            is_keyed: options.keyed,
        })
    }
}

/// The rules of its kind: when it is called, and how its outcome is treated.
impl Handler {
    /// Returns whether it handles changes of objects. Then the progress of its attempts is stored on the object, which
    /// requires the permission to patch it.
    pub(crate) fn is_for_changes(&self) -> bool {
        use HandlerKind::{Finalize, OnCreate, OnDelete, OnField, OnResume, OnUpdate};
        let all = [OnCreate, OnUpdate, OnDelete, Finalize, OnResume, OnField];
        all.contains(&self.kind)
    }

    /// Returns whether it handles every watch event, regardless of changes.
    pub(crate) fn is_for_events(&self) -> bool {
        self.kind == HandlerKind::OnEvent
    }

    /// Returns whether it handles cycles with this reason. `initial`: the object was listed and has not been handled
    /// since.
    pub(crate) fn is_for(&self, reason: Reason, initial: bool) -> bool {
        match self.kind {
            HandlerKind::OnCreate => reason == Reason::Create,
            HandlerKind::OnUpdate => reason == Reason::Update,
            HandlerKind::OnDelete | HandlerKind::Finalize => reason == Reason::Delete,
            HandlerKind::OnResume => {
                initial && reason != Reason::Create && (reason != Reason::Delete || self.deleted)
            }
            HandlerKind::OnField => true,
            _ => false,
        }
    }

    /// Returns whether it handles only differences, one change after the other.
    pub(crate) fn reacts_to_differences(&self) -> bool {
        matches!(self.kind, HandlerKind::OnUpdate | HandlerKind::OnField)
    }

    /// Returns whether it runs when the operator starts, rather than for changes.
    pub(crate) fn is_for_resuming(&self) -> bool {
        self.kind == HandlerKind::OnResume
    }

    /// Returns whether objects in its scope need a finalizer, so that they stay until it has handled their deletion.
    pub(crate) fn needs_finalizer(&self) -> bool {
        self.comes_last() || self.kind == HandlerKind::OnDelete && !self.optional
    }

    /// Returns whether it handles deletions on a best-effort basis, without a finalizer that blocks them.
    pub(crate) fn is_optional_deletion(&self) -> bool {
        self.kind == HandlerKind::OnDelete && self.optional
    }

    /// Returns whether it runs after all other deletion handlers of the object, and after its background tasks have
    /// stopped.
    pub(crate) fn comes_last(&self) -> bool {
        self.kind == HandlerKind::Finalize
    }

    /// Returns the resources it handles; `None` for handlers without an object.
    pub(crate) fn selector(&self) -> Option<&Selector> {
        self.selector.as_ref()
    }

    /// Returns the field it is restricted to.
    pub(crate) fn field(&self) -> Option<&FieldPath> {
        self.field.as_ref()
    }

    /// Evaluates its filters. Filters may be user functions, so a panic names the filter's handler.
    pub(crate) fn filtered<T>(&self, ask: impl FnOnce(&Filters) -> T) -> T {
        let name = || format!("a filter of '{}'", self.id);
        named(name, || ask(&self.filters))
    }

    /// Returns whether its filters match the object as it is, regardless of changes. `ask` calls the user's function, if there is one.
    pub(crate) fn accepts(&self, body: &Body, ask: impl FnOnce(&When) -> bool) -> bool {
        let field = self.field();
        let value = field.and_then(|field| field.resolve(body));
        self.filtered(|filters| {
            filters.accept_object(body, field, Former::Known(value), value)
                && filters.when.as_ref().is_none_or(ask)
        })
    }

    /// Returns whether its filters contain user functions.
    pub(crate) fn has_filter_functions(&self) -> bool {
        self.filters.has_functions() || self.timing.as_ref().is_some_and(Timing::has_functions)
    }

    /// Returns whether it is a plain `fn`, which no timeout can interrupt.
    pub(crate) fn is_blocking(&self) -> bool {
        self.callee.is_blocking()
    }

    /// Returns how an arbitrary error is treated. As in Kopf, indices have another default.
    pub(crate) fn errors(&self) -> ErrorsMode {
        let default = match self.kind {
            HandlerKind::Index => ErrorsMode::Ignored,
            _ => ErrorsMode::Temporary,
        };
        self.retry.errors.unwrap_or(default)
    }

    /// Returns whether it makes children of this resource, or former versions of it did.
    pub(crate) fn has_children_of(&self, resource: &Resource) -> bool {
        self.kinds_of_children().any(|it| it.names(resource))
    }

    /// Returns the kinds of all its children, including those of former versions.
    pub(crate) fn kinds_of_children(&self) -> impl Iterator<Item = &Selector> {
        let owns = self.owns.iter().map(|it| &it.selector);
        owns.chain(&self.formerly_owns)
    }

    /// Returns whether its log lines become Kubernetes Events if the operator posts log lines.
    pub(crate) fn posts_lines(&self) -> bool {
        let is_silent = self.is_for_events() || self.index.is_some();
        !is_silent && self.admission().is_none()
    }

    /// Returns its kind if it is an admission handler.
    pub(crate) fn admission(&self) -> Option<AdmissionKind> {
        AdmissionKind::of(self.kind)
    }

    /// Returns the activity it belongs to; `None` for handlers of objects.
    pub(crate) fn activity(&self) -> Option<Activity> {
        match self.kind {
            HandlerKind::OnStartup => Some(Activity::Startup),
            HandlerKind::OnCleanup => Some(Activity::Cleanup),
            HandlerKind::OnLogin => Some(Activity::Login),
            HandlerKind::OnProbe => Some(Activity::Probe),
            _ => None,
        }
    }
}

/// Takes the timing from the options of a handler; `None` if such handlers do not run in the background.
///
/// # Errors
/// Returns an error for implausible spans, and for options that contradict each other.
fn timing(kind: HandlerKind, options: &Options) -> Result<Option<Timing>, String> {
    use HandlerKind::{Daemon, Reconcile, Timer};
    if !matches!(kind, Daemon | Timer | Reconcile) {
        return Ok(None);
    }
    let resync = options.resync.unwrap_or(RESYNC);
    let timing = Timing {
        schedule: schedule(options.schedule.as_deref(), options.zone.as_deref())?,
        initial_delay: options.initial_delay.clone(),
        interval: options.interval.clone(),
        sharp: options.sharp,
        idle: options.idle,
        resync: (kind == Reconcile).then_some(resync),
        cancellation_backoff: options.cancellation_backoff,
        cancellation_timeout: options.cancellation_timeout,
        cancellation_polling: options.cancellation_polling,
    };
    timing.check()?;
    Ok(Some(timing))
}

impl fmt::Display for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = match self.kind {
            HandlerKind::Daemon => "Daemon",
            HandlerKind::Timer => "Timer",
            HandlerKind::Reconcile => "Reconciler",
            HandlerKind::Index => "Indexer",
            _ if self.admission().is_some() => "Webhook",
            _ if self.activity().is_some() => "Activity",
            _ => "Handler",
        };
        write!(f, "{noun} '{}'", self.id)
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handler({:?}, {})", self.id, self.kind.attribute())
    }
}

/// Builds Kopf's handler id: the name, followed by the field if there is one.
fn id(name: &str, field: Option<&FieldPath>) -> String {
    match field {
        Some(field) => format!("{name}/{field}"),
        None => name.to_owned(),
    }
}
