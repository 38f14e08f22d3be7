//! A handler as plain data, and one call of it.
//!
//! An attribute expands to the calls that register a closure by hand:
//!
//! ```text
//! registry.on_update(selector, handler("id", ..).retries(3))     -> Callback { handler, given, .. }
//! Callback::register(kind, selector)                             -> Handler { id, kind, selector, retry, .. }
//! ```
//!
//! `options` lists all options and makes handlers of them, and [`HandlerKind`] lists which kind accepts which. The fields
//! of [`Handler`] are the options as the engine uses them; its methods derive from the kind when the handler is called and
//! how its outcome is treated. Code outside of `handler` asks for the kind only to distinguish daemons, timers, reconcilers and
//! logins, and for the words of metrics.

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
use crate::handler::owned::OwnedKind;
use crate::handler::subject::{Activity, Reason, Subject};
use crate::handler::target::TargetKind;
use crate::handler::timing::Timing;
use crate::handler::webhook::{AdmissionKind, Webhook};
use crate::object::body::Body;
use crate::object::path::FieldPath;
use crate::object::requests::Requests;
use crate::object::resource::Resource;
use crate::object::selector::Selector;

/// A handler. The engine resolves each declaration once, at start. Displays as in log lines: `Handler 'id'`,
/// `Activity 'id'`.
#[derive(Clone)]
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
    pub(crate) timing: Timing,
    /// The kinds of its children, each once; a change of a child triggers a call.
    pub(crate) owns: Vec<OwnedKind>,
    /// The kinds of children that former versions of it made.
    pub(crate) formerly_owns: Vec<Selector>,
    /// The kinds of objects that it refers to but does not own.
    pub(crate) watches: Vec<TargetKind>,
    /// The requests that its function sends itself.
    pub(crate) requires: Vec<Requests>,
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

/// The rules of its kind: when it is called, and how its outcome is treated.
impl Handler {
    /// Returns whether it handles changes of objects. Then the progress of its attempts is stored on the object, which
    /// requires the permission to patch it.
    pub(crate) fn is_for_changes(&self) -> bool {
        use HandlerKind::{Finalize, OnCreate, OnDelete, OnField, OnResume, OnUpdate};
        let all = [OnCreate, OnUpdate, OnDelete, Finalize, OnResume, OnField];
        all.contains(&self.kind)
    }

    /// Returns whether it runs in the background, beside the handling of changes.
    pub(crate) fn is_background(&self) -> bool {
        matches!(self.kind, HandlerKind::Daemon | HandlerKind::Timer | HandlerKind::Reconcile)
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
        self.filters.has_functions() || self.timing.has_functions()
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
pub(super) fn id(name: &str, field: Option<&FieldPath>) -> String {
    match field {
        Some(field) => format!("{name}/{field}"),
        None => name.to_owned(),
    }
}
