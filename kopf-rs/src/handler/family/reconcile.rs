//! Level-triggered handlers: `reconcile`. One function brings the cluster to the object's desired state, regardless
//! of which change triggered it.

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
    /// How the engine retries failed attempts.
    pub retry: RetryOptions,
    /// The field that an object must have.
    pub field: Option<FieldPath>,
    /// `labels annotations when value`
    pub filters: Filters,
    /// The kinds of its children.
    pub owns: Vec<Result<Selector, SelectorError>>,
    /// The kinds of children whose full objects it reads, beyond the fields that it applies.
    pub reads: Vec<Result<Selector, SelectorError>>,
    /// The kinds of children that former versions of the operator made.
    pub formerly_owns: Vec<Result<Selector, SelectorError>>,
    /// The kinds of objects that it refers to.
    pub watches: Vec<WatchedKind>,
    /// The time after the last success at which it is called again without any change.
    pub resync: Option<Duration>,
}

impl IsStopped for ReconcileOptions {}

// === impl ===

/// The same default as controller-runtime's.
const RESYNC: Duration = Duration::from_secs(10 * 60 * 60);

impl ReconcileOptions {
    /// Builds a level-triggered handler from these options.
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
    /// Calls `handler` for each object, and again whenever the object or one of its children changes.
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
    /// For `reconcile` and handlers of changes: a kind of its children. A change of a child triggers a call. Can be
    /// given several times. Default: none.
    #[must_use]
    pub fn owns(mut self, kind: impl IntoSelector) -> Self {
        self.options.owns.push(kind.into_selector());
        self
    }
    /// Like `owns`, for children whose full objects the handler reads, beyond the fields that it applies. The
    /// informer caches whole objects, and [`Children::get`](crate::Children::get) reads them from the cache. Default:
    /// none.
    #[must_use]
    pub fn reads(mut self, kind: impl IntoSelector) -> Self {
        self.options.reads.push(kind.into_selector());
        self
    }
    /// For `reconcile`: a kind of children that former versions of it made. [`Children::set`](crate::Children::set)
    /// deletes the remaining ones. Default: none.
    #[must_use]
    pub fn formerly_owns(mut self, kind: impl IntoSelector) -> Self {
        self.options.formerly_owns.push(kind.into_selector());
        self
    }
    /// For `reconcile`: a kind of objects that it refers to but does not own, with a function that maps a changed
    /// object of this kind to the objects to reconcile: `|it: &Cause| it.labels().get("app").map(str::to_owned)`. Can
    /// be given several times. Default: none.
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
    /// For `reconcile`: the time after its last success at which it is called again without any change: seconds, or a
    /// `Duration`. Default: ten hours.
    #[must_use]
    pub fn resync(mut self, resync: impl Into<Seconds>) -> Self {
        self.options.timing.resync = Some(resync.into().duration());
        self
    }
}

impl Cause {
    /// For closures in place of functions with `#[reconcile]`: sets when to call the closure again if nothing changes
    /// before. Other handlers ignore it.
    pub fn again(&self, again: Again) {
        if let Subject::Background(subject) = &self.subject {
            subject.again.set(again);
        }
    }
}

/// Stores the requeue request that a reconcile function returned: for generated code.
///
/// # Errors
/// Returns the error of the function.
pub fn reconcile_returned(cause: &Cause, returned: impl IntoAgain) -> Returned {
    cause.again(returned.into_again()?);
    Ok(None)
}
