//! Level-triggered handlers: `reconcile`. One function brings about what an object asks for, whatever has changed of it or its children.

use std::time::Duration;

use crate::handler::again::{Again, IntoAgain};
use crate::handler::attribute::RECONCILE;
use crate::handler::callee::Returned;
use crate::handler::cause::Cause;
use crate::handler::extract::background::IsStopped;
use crate::handler::family::background::{BackgroundHandler, Common};
use crate::handler::filter::Filters;
use crate::handler::options::{CallbackOptions, RetryOptions};
use crate::handler::owned::{former_kinds, owned_kinds};
use crate::handler::registry::Registry;
use crate::handler::registry::callback::Callback;
use crate::handler::registry::selectors::IntoSelector;
use crate::handler::seconds::Seconds;
use crate::handler::subject::Subject;
use crate::handler::target::{IntoOwners, WatchedKind, target, target_kinds};
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
    /// The kinds of objects that it refers to.
    pub watches: Vec<WatchedKind>,
    /// How long after its last success it is called though nothing has changed.
    pub resync: Option<Duration>,
}

impl IsStopped for ReconcileOptions {}

// === impl ===

/// As long as controller-runtime waits.
const RESYNC: Duration = Duration::from_secs(10 * 60 * 60);

impl ReconcileOptions {
    /// A level-triggered handler with these options.
    pub(crate) fn handler(self, selector: Selector) -> Result<BackgroundHandler, String> {
        let timing = Timing {
            resync: Some(self.resync.unwrap_or(RESYNC)),
            ..Timing::default()
        };
        let common = Common {
            retry: self.retry,
            field: self.field,
            filters: self.filters,
        };
        let kind = BackgroundKind::Reconcile;
        let handler = BackgroundHandler::called((kind, timing), selector, common)?;
        let owns = owned_kinds(self.owns, self.reads)?;
        let handler = handler.owning(owns, former_kinds(self.formerly_owns)?);
        Ok(handler.watching(target_kinds(self.watches)?))
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
            watches: given.watches,
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
            let options: ReconcileOptions = options.into();
            Ok(Box::new(options.handler(selector?)?))
        })
    }
}

impl Callback {
    /// For `reconcile` and handlers of changes: a kind of children that it makes; it is called when one of them changes. May be given several times.
    /// Default: none.
    #[must_use]
    pub fn owns(mut self, kind: impl IntoSelector) -> Self {
        self.options.owns.push(kind.into_selector());
        self
    }
    /// The same for a kind of which it reads more than it applies: whole objects are watched, and [`Children::get`](crate::Children::get) reads them from
    /// memory. Default: none.
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
    /// For `reconcile`: a kind of objects that it refers to and does not own, and a function that says of such an object which objects a change of it
    /// concerns: `|it: &Cause| it.labels().get("app").map(str::to_owned)`. May be given several times. Default: none.
    #[must_use]
    pub fn watches<R: IntoOwners>(
        mut self,
        kind: impl IntoSelector,
        owners: impl Fn(&Cause) -> R + Send + Sync + 'static,
    ) -> Self {
        self.options
            .watches
            .push(target(kind.into_selector(), owners));
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
