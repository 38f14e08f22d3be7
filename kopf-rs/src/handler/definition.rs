//! A resolved handler, and one call of it.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::handler::callee::Callee;
use crate::handler::cause::{Attempt, Cause, CauseContext, Param};
use crate::handler::event_sink::OperatorSink;
use crate::handler::filter::{Filters, Former};
use crate::handler::index::erased::IndexType;
use crate::handler::location::DeclaredAt;
use crate::handler::named_panic::named;
use crate::handler::options::ErrorsMode;
use crate::handler::owned::OwnedKind;
use crate::handler::rules::FamilyRules;
use crate::handler::subject::{Activity, Reason, Subject};
use crate::handler::target::TargetKind;
use crate::handler::timing::{BackgroundKind, Timing};
use crate::handler::webhook::AdmissionHandler;
use crate::object::path::FieldPath;
use crate::object::resource::Resource;
use crate::object::selector::Selector;

/// A resolved handler: the engine resolves each declaration once, at start. Displays as in log lines: `Handler 'id'`,
/// `Activity 'id'`.
pub(crate) struct Handler {
    /// Kopf's id: `name` or `name/field.path`.
    pub(crate) id: Arc<str>,
    /// The family's rules: when the handler is called, and how its outcome is treated.
    pub(crate) family: Box<dyn FamilyRules>,
    /// The value of the argument `param`.
    pub(crate) param: Option<Param>,
    pub(crate) declared_at: DeclaredAt,
    pub(crate) callee: Callee,
    /// True if attempts have idempotency keys. Then the engine stores the input of the key before the first attempt.
    pub(crate) is_keyed: bool,
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
        let cause = Cause {
            handler_id: handler.id.clone(),
            param: handler.param.clone(),
            context,
            attempt,
            subject,
        };
        Self { handler, cause }
    }
}

impl Deref for HandlerCall {
    type Target = Cause;
    fn deref(&self) -> &Cause {
        &self.cause
    }
}

/// The purpose of a handler, as its family defines it. Code outside of `handler` never asks which attribute declared a
/// handler.
impl Handler {
    /// Returns whether it handles changes of objects.
    pub(crate) fn is_for_changes(&self) -> bool {
        self.family.is_for_changes()
    }

    /// Returns whether it handles every watch event, regardless of changes.
    pub(crate) fn is_for_events(&self) -> bool {
        self.family.is_for_events()
    }

    /// Returns whether the progress of its attempts is stored on the object.
    pub(crate) fn persists_progress(&self) -> bool {
        self.family.persists_progress()
    }

    /// Returns whether it handles cycles with this reason. `initial`: the object was listed and has not been handled
    /// since.
    pub(crate) fn is_for(&self, reason: Reason, initial: bool) -> bool {
        self.family.is_for(reason, initial)
    }

    /// Returns whether it handles only differences, one change after the other.
    pub(crate) fn reacts_to_differences(&self) -> bool {
        self.family.reacts_to_differences()
    }

    /// Returns whether it runs when the operator starts, rather than for changes.
    pub(crate) fn is_for_resuming(&self) -> bool {
        self.family.is_for_resuming()
    }

    /// Returns whether objects in its scope need a finalizer, so that they stay until it has handled their deletion.
    pub(crate) fn needs_finalizer(&self) -> bool {
        self.family.needs_finalizer()
    }

    /// Returns whether it handles deletions on a best-effort basis, without a finalizer that blocks them.
    pub(crate) fn is_optional_deletion(&self) -> bool {
        self.family.is_optional_deletion()
    }

    /// Returns whether it runs after all other deletion handlers of the object, and after its background tasks have
    /// stopped.
    pub(crate) fn comes_last(&self) -> bool {
        self.family.comes_last()
    }

    /// Returns the resources it handles; `None` for handlers without an object.
    pub(crate) fn selector(&self) -> Option<&Selector> {
        self.family.selector()
    }

    /// Returns the field it is restricted to.
    pub(crate) fn field(&self) -> Option<&FieldPath> {
        self.family.field()
    }

    /// Returns the filters that select its objects.
    pub(crate) fn filters(&self) -> &Filters {
        self.family.filters()
    }

    /// Evaluates its filters. Filters may be user functions, so a panic names the filter's handler.
    pub(crate) fn filtered<T>(&self, ask: impl FnOnce(&Filters) -> T) -> T {
        let name = || format!("a filter of '{}'", self.id);
        named(name, || ask(self.filters()))
    }

    /// Returns whether its field, or the object, has changed from and to the values that it accepts.
    pub(crate) fn accepts_change(&self, old: Former<'_>, new: Option<&Value>) -> bool {
        self.family.accepts_change(old, new)
    }

    /// Returns whether its filters contain user functions.
    pub(crate) fn has_filter_functions(&self) -> bool {
        self.family.has_filter_functions()
    }

    /// Returns the total timeout over all attempts.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.family.retry().timeout
    }

    /// Returns whether it is a plain `fn`, which no timeout can interrupt.
    pub(crate) fn is_blocking(&self) -> bool {
        self.callee.is_blocking()
    }

    /// Returns the maximum number of attempts.
    pub(crate) fn retries(&self) -> Option<u32> {
        self.family.retry().retries
    }

    /// Returns the fixed back-off after an arbitrary error.
    pub(crate) fn backoff(&self) -> Option<Duration> {
        self.family.retry().backoff
    }

    /// Returns how an arbitrary error is treated.
    pub(crate) fn errors(&self) -> ErrorsMode {
        let errors = self.family.retry().errors;
        errors.unwrap_or(ErrorsMode::Temporary)
    }

    /// Returns its kind and timing if it runs in the background.
    pub(crate) fn background(&self) -> Option<(BackgroundKind, &Timing)> {
        self.family.background()
    }

    /// Returns the kinds of objects that it refers to but does not own.
    pub(crate) fn watches(&self) -> &[TargetKind] {
        self.family.watches()
    }

    /// Returns the kinds of its children; a change of a child triggers a call.
    pub(crate) fn owns(&self) -> &[OwnedKind] {
        self.family.owns()
    }

    /// Returns the kinds of children that former versions of it made.
    pub(crate) fn formerly_owns(&self) -> &[Selector] {
        self.family.formerly_owns()
    }

    /// Returns whether it makes children of this resource, or former versions of it did.
    pub(crate) fn has_children_of(&self, resource: &Resource) -> bool {
        self.kinds_of_children().any(|it| it.names(resource))
    }

    /// Returns the kinds of all its children, including those of former versions.
    pub(crate) fn kinds_of_children(&self) -> impl Iterator<Item = &Selector> {
        let owns = self.owns().iter().map(|it| &it.selector);
        owns.chain(self.formerly_owns())
    }

    /// Returns the types of the index that it fills; `None` for handlers that fill none.
    pub(crate) fn index(&self) -> Option<IndexType> {
        self.family.index()
    }

    /// Returns whether its log lines become Kubernetes Events if the operator posts log lines.
    pub(crate) fn posts_lines(&self) -> bool {
        self.family.posts_lines()
    }

    /// Returns whether other handlers may have the same id.
    pub(crate) fn may_share_id(&self) -> bool {
        self.family.may_share_id()
    }

    /// Returns its admission rules; `None` if it is not an admission handler.
    pub(crate) fn admission(&self) -> Option<&AdmissionHandler> {
        self.family.admission()
    }

    /// Returns the activity it belongs to; `None` for handlers of objects.
    pub(crate) fn activity(&self) -> Option<Activity> {
        self.family.activity()
    }

    /// Returns the scope of its id. Handlers in the same scope need different ids if their resources overlap.
    pub(crate) fn id_scope(&self) -> &'static str {
        self.family.id_scope()
    }
}

impl fmt::Display for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} '{}'", self.family.noun(), self.id)
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attribute = self.family.attribute().name;
        write!(f, "Handler({:?}, {attribute})", self.id)
    }
}

/// Builds Kopf's handler id: the name, followed by the field if there is one.
pub(crate) fn id(name: &str, field: Option<&FieldPath>) -> String {
    match field {
        Some(field) => format!("{name}/{field}"),
        None => name.to_owned(),
    }
}
