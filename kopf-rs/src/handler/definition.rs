//! A handler at work, and one call of it.

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

/// A handler at work: a declaration resolved once, at start. Displays as log lines name it: `Handler 'id'`, `Activity 'id'`.
pub(crate) struct Handler {
    /// Kopf's id: `name`, `name/field.path`.
    pub(crate) id: Arc<str>,
    /// What it is called for, and how it is treated.
    pub(crate) family: Box<dyn FamilyRules>,
    /// The value of the argument `param`.
    pub(crate) param: Option<Param>,
    pub(crate) declared_at: DeclaredAt,
    pub(crate) callee: Callee,
    /// Its attempts have keys: what they are made of is written before the first one.
    pub(crate) is_keyed: bool,
}

/// One call of a handler: dereferences to what the handler is told.
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

/// What a handler is for: answered by its family. Nothing outside of `handler` asks which attribute declared it.
impl Handler {
    /// Whether it is called for changes of objects.
    pub(crate) fn is_for_changes(&self) -> bool {
        self.family.is_for_changes()
    }

    /// Whether it is called for every watch event, whatever has changed.
    pub(crate) fn is_for_events(&self) -> bool {
        self.family.is_for_events()
    }

    /// Whether the progress of its attempts is kept on the object.
    pub(crate) fn persists_progress(&self) -> bool {
        self.family.persists_progress()
    }

    /// Whether a cycle with this reason is one it is for. `initial`: the object was listed and not handled since.
    pub(crate) fn is_for(&self, reason: Reason, initial: bool) -> bool {
        self.family.is_for(reason, initial)
    }

    /// Whether it is called for differences only, one change after the other.
    pub(crate) fn reacts_to_differences(&self) -> bool {
        self.family.reacts_to_differences()
    }

    /// Whether it is called when the operator starts, and not for changes.
    pub(crate) fn is_for_resuming(&self) -> bool {
        self.family.is_for_resuming()
    }

    /// Whether an object in its scope must not vanish before it has seen the deletion.
    pub(crate) fn needs_finalizer(&self) -> bool {
        self.family.needs_finalizer()
    }

    /// Whether it sees a deletion as well as it can, without holding it up.
    pub(crate) fn is_optional_deletion(&self) -> bool {
        self.family.is_optional_deletion()
    }

    /// Whether it is called after all others that are for the deletion of an object, and after all that runs in the background for it.
    pub(crate) fn comes_last(&self) -> bool {
        self.family.comes_last()
    }

    /// The resources it is for; `None` where it is for no object.
    pub(crate) fn selector(&self) -> Option<&Selector> {
        self.family.selector()
    }

    /// The field it is for.
    pub(crate) fn field(&self) -> Option<&FieldPath> {
        self.family.field()
    }

    /// Which objects it is for.
    pub(crate) fn filters(&self) -> &Filters {
        self.family.filters()
    }

    /// Ask its filters, which may be functions of users: a panic names it.
    pub(crate) fn filtered<T>(&self, ask: impl FnOnce(&Filters) -> T) -> T {
        let name = || format!("a filter of '{}'", self.id);
        named(name, || ask(self.filters()))
    }

    /// Whether its field, or the object, has changed from and to what it is for.
    pub(crate) fn accepts_change(&self, old: Former<'_>, new: Option<&Value>) -> bool {
        self.family.accepts_change(old, new)
    }

    /// Whether functions of users are among its filters.
    pub(crate) fn has_filter_functions(&self) -> bool {
        self.family.has_filter_functions()
    }

    /// Total time over all attempts.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.family.retry().timeout
    }

    /// Whether it is a plain `fn`, which no timeout can interrupt.
    pub(crate) fn is_blocking(&self) -> bool {
        self.callee.is_blocking()
    }

    /// Total number of attempts.
    pub(crate) fn retries(&self) -> Option<u32> {
        self.family.retry().retries
    }

    /// Fixed delay after an arbitrary error.
    pub(crate) fn backoff(&self) -> Option<Duration> {
        self.family.retry().backoff
    }

    /// What an arbitrary error means.
    pub(crate) fn errors(&self) -> ErrorsMode {
        let errors = self.family.retry().errors;
        errors.unwrap_or(ErrorsMode::Temporary)
    }

    /// Whether it runs in the background, and when it is called there.
    pub(crate) fn background(&self) -> Option<(BackgroundKind, &Timing)> {
        self.family.background()
    }

    /// The kinds of objects that it refers to, and does not own.
    pub(crate) fn watches(&self) -> &[TargetKind] {
        self.family.watches()
    }

    /// The kinds of the children that it makes: it is called when one of them changes.
    pub(crate) fn owns(&self) -> &[OwnedKind] {
        self.family.owns()
    }

    /// The kinds of children that it made in former versions.
    pub(crate) fn formerly_owns(&self) -> &[Selector] {
        self.family.formerly_owns()
    }

    /// Whether it makes children of this resource, or has made some in former versions.
    pub(crate) fn has_children_of(&self, resource: &Resource) -> bool {
        self.kinds_of_children().any(|it| it.names(resource))
    }

    /// The kinds of all its children, now and in former versions.
    pub(crate) fn kinds_of_children(&self) -> impl Iterator<Item = &Selector> {
        let owns = self.owns().iter().map(|it| &it.selector);
        owns.chain(self.formerly_owns())
    }

    /// The types of the index that it feeds; `None` for handlers that feed none.
    pub(crate) fn index(&self) -> Option<IndexType> {
        self.family.index()
    }

    /// Whether its log lines become Kubernetes Events where lines are posted.
    pub(crate) fn posts_lines(&self) -> bool {
        self.family.posts_lines()
    }

    /// Whether others may have its id.
    pub(crate) fn may_share_id(&self) -> bool {
        self.family.may_share_id()
    }

    /// The admission handler that it is; `None` for all others.
    pub(crate) fn admission(&self) -> Option<&AdmissionHandler> {
        self.family.admission()
    }

    /// The activity it is part of; `None` for handlers of objects.
    pub(crate) fn activity(&self) -> Option<Activity> {
        self.family.activity()
    }

    /// The ids of handlers with the same scope must differ where their resources overlap.
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

/// Kopf's id: the name, with the field appended where there is one.
pub(crate) fn id(name: &str, field: Option<&FieldPath>) -> String {
    match field {
        Some(field) => format!("{name}/{field}"),
        None => name.to_owned(),
    }
}
