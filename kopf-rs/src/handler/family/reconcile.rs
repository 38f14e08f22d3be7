//! Level-triggered handlers: `reconcile`. One function brings about what an object asks for, whatever has changed of it or its children.

use std::time::Duration;

use crate::handler::again::{Again, IntoAgain};
use crate::handler::attribute::{Attribute, RECONCILE};
use crate::handler::callee::Returned;
use crate::handler::cause::Cause;
use crate::handler::extract::background::IsStopped;
use crate::handler::filter::Filters;
use crate::handler::options::{CallbackOptions, RetryOptions};
use crate::handler::owned::{OwnedKind, former_kinds, owned_kinds};
use crate::handler::registry::Registry;
use crate::handler::registry::callback::Callback;
use crate::handler::registry::selectors::IntoSelector;
use crate::handler::rules::FamilyRules;
use crate::handler::seconds::Seconds;
use crate::handler::subject::Subject;
use crate::handler::timing::{BackgroundKind, Timing};
use crate::object::path::FieldPath;
use crate::object::selector::{Selector, SelectorError};

/// The options of `reconcile`.
#[derive(Clone, Default)]
pub struct ReconcileOptions {
    /// How failed attempts are repeated.
    pub retry: RetryOptions,
    /// The field an object must have.
    pub field: Option<FieldPath>,
    /// `labels annotations when value`
    pub filters: Filters,
    /// The kinds of its children.
    pub owns: Vec<Result<Selector, SelectorError>>,
    /// Those of which it reads more than it applies.
    pub reads: Vec<Result<Selector, SelectorError>>,
    /// What its children were in former versions of the operator.
    pub formerly_owns: Vec<Result<Selector, SelectorError>>,
    /// How long after its last success it is called though nothing has changed.
    pub resync: Option<Duration>,
}

/// A level-triggered handler.
pub(crate) struct ReconcileHandler {
    selector: Selector,
    retry: RetryOptions,
    field: Option<FieldPath>,
    filters: Filters,
    owns: Vec<OwnedKind>,
    formerly_owns: Vec<Selector>,
    timing: Timing,
}

impl IsStopped for ReconcileOptions {}

// === impl ===

/// As long as controller-runtime waits.
const RESYNC: Duration = Duration::from_secs(10 * 60 * 60);

impl ReconcileHandler {
    pub(crate) fn new(selector: Selector, options: ReconcileOptions) -> Result<Self, String> {
        options.filters.check(options.field.as_ref())?;
        let timing = Timing {
            resync: Some(options.resync.unwrap_or(RESYNC)),
            ..Timing::default()
        };
        timing.check()?;
        Ok(Self {
            selector,
            retry: options.retry,
            field: options.field,
            filters: options.filters,
            owns: owned_kinds(options.owns, options.reads)?,
            formerly_owns: former_kinds(options.formerly_owns)?,
            timing,
        })
    }
}

impl FamilyRules for ReconcileHandler {
    fn attribute(&self) -> Attribute {
        RECONCILE
    }

    fn id_scope(&self) -> &'static str {
        "background"
    }

    fn noun(&self) -> &'static str {
        "Reconciler"
    }

    fn selector(&self) -> Option<&Selector> {
        Some(&self.selector)
    }

    fn field(&self) -> Option<&FieldPath> {
        self.field.as_ref()
    }

    fn filters(&self) -> &Filters {
        &self.filters
    }

    fn retry(&self) -> &RetryOptions {
        &self.retry
    }

    fn background(&self) -> Option<(BackgroundKind, &Timing)> {
        Some((BackgroundKind::Reconcile, &self.timing))
    }

    fn owns(&self) -> &[OwnedKind] {
        &self.owns
    }

    fn formerly_owns(&self) -> &[Selector] {
        &self.formerly_owns
    }
}

impl From<CallbackOptions> for ReconcileOptions {
    fn from(given: CallbackOptions) -> Self {
        Self {
            retry: given.change.retry,
            field: given.change.field,
            filters: given.change.filters,
            owns: given.owns,
            reads: given.reads,
            formerly_owns: given.formerly_owns,
            resync: given.timing.resync,
        }
    }
}

impl Registry {
    /// Call `handler` for each object, and again whenever the object or one of its children changes.
    #[must_use]
    pub fn reconcile(self, resources: impl IntoSelector, handler: Callback) -> Self {
        let selector = resources.into_selector();
        self.with(RECONCILE, handler, |options| {
            let handler = ReconcileHandler::new(selector?, options.into())?;
            Ok(Box::new(handler))
        })
    }
}

impl Callback {
    /// For `reconcile`: a kind of children that it makes; it is called when one of them changes. May be given several times. Default: none.
    #[must_use]
    pub fn owns(mut self, kind: impl IntoSelector) -> Self {
        self.options.owns.push(kind.into_selector());
        self
    }
    /// For `reconcile`: the same for a kind of which it reads more than it applies: whole objects are watched, and
    /// [`Children::get`](crate::Children::get) reads them from memory. Default: none.
    #[must_use]
    pub fn reads(mut self, kind: impl IntoSelector) -> Self {
        self.options.reads.push(kind.into_selector());
        self
    }
    /// For `reconcile`: a kind of which it made children in former versions: [`Children::set`](crate::Children::set) deletes those that are
    /// left. Default: none.
    #[must_use]
    pub fn formerly_owns(mut self, kind: impl IntoSelector) -> Self {
        self.options.formerly_owns.push(kind.into_selector());
        self
    }
    /// For `reconcile`: how long after its last success it is called though nothing has changed: seconds, or a `Duration`. Default: ten hours.
    #[must_use]
    pub fn resync(mut self, resync: impl Into<Seconds>) -> Self {
        self.options.timing.resync = Some(resync.into().duration());
        self
    }
}

impl Cause {
    /// For closures in the place of functions with `#[reconcile]`: when it is to be called again, if nothing changes before. For other handlers
    /// this means nothing.
    pub fn again(&self, again: Again) {
        if let Subject::Background(subject) = &self.subject {
            subject.again.set(again);
        }
    }
}

/// Notes what a reconcile function has returned: for generated code.
///
/// # Errors
/// Where the function has failed.
pub fn reconcile_returned(cause: &Cause, returned: impl IntoAgain) -> Returned {
    cause.again(returned.into_again()?);
    Ok(None)
}
