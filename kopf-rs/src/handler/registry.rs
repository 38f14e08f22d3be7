//! The registry of all handlers of an operator: collected from annotated functions, or built by hand.
//!
//! It resolves declarations into handlers once, at start, and reports all problems in one error.

use std::sync::Arc;

use kopf_rs_schedule::HandlerKind;

use crate::handler::conversion::ConversionFunction;
use crate::handler::definition::Handler;
use crate::handler::index::erased::{Indices, RequiredIndex};
use crate::handler::listed::ListedKind;
use crate::handler::location::DeclaredAt;
use crate::handler::options::Callback;
use crate::handler::registry::problem::declaration;
use crate::handler::registry::selectors::IntoSelector;
use crate::handler::required::{RequiredState, Requirement};
use crate::handler::validation_rule::{DeclaredRule, ValidationRule};
use crate::object::selector::Selector;

pub(crate) mod callback;
pub(crate) mod collect;
pub(crate) mod conversions;
pub(crate) mod problem;
pub(crate) mod selectors;

pub use crate::handler::registry::problem::RegistryError;

/// Handlers in the order of their declaration.
///
/// [`Registry::collected`] returns the annotated functions. Add closures by hand:
///
/// ```
/// use kopf_rs::prelude::*;
/// use kopf_rs::{Registry, handler};
///
/// let registry = Registry::new()
///     .on_create("kopfexamples", handler("create_fn", |cause| async move {
///         let size: u32 = cause.spec::<Value>()?["size"].as_u64().unwrap_or(1) as u32;
///         cause.patch(|patch| patch.set("status.size", size));
///         info!(cause.logger(), "created with size {size}");
///         Ok(())
///     }).retries(3))
///     .on_delete(("kopf.dev", "v1", "kopfexamples"), handler("delete_fn", |cause| async move {
///         info!(cause.logger(), "{} is gone", cause.name());
///         Ok(())
///     }).optional());
/// registry.check().unwrap();
/// ```
#[derive(Clone, Debug, Default)]
pub struct Registry {
    handlers: Vec<Arc<Handler>>,
    /// The values that annotated functions require from the operator, including those of sub-handlers.
    requirements: Vec<Requirement<RequiredState>>,
    /// The indices that they require.
    index_requirements: Vec<Requirement<RequiredIndex>>,
    conversions: Vec<Arc<ConversionFunction>>,
    /// The validation rules that the API server enforces.
    rules: Vec<Arc<DeclaredRule>>,
    problems: Vec<String>,
}

impl Registry {
    /// Creates an empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns whether there are neither handlers nor conversions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.handlers.is_empty() && self.conversions.is_empty()
    }

    /// Returns the number of handlers and conversions; a function with two attributes counts twice.
    #[must_use]
    pub fn len(&self) -> usize {
        self.handlers.len() + self.conversions.len()
    }

    /// Appends the handlers of `other`.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        for handler in other.handlers {
            self.add(handler);
        }
        self.requirements.extend(other.requirements);
        self.index_requirements.extend(other.index_requirements);
        self.conversions.extend(other.conversions);
        self.rules.extend(other.rules);
        self.problems.extend(other.problems);
        self
    }

    /// Adds a validation rule, in place of a constant with [`#[validation_rule]`](macro@crate::validation_rule).
    #[must_use]
    pub fn validation_rule(mut self, selector: impl IntoSelector, rule: ValidationRule) -> Self {
        let problem = rule.problem().map(str::to_owned);
        let selector = selector.into_selector().map_err(|error| error.to_string());
        match problem.map_or(selector, Err) {
            Ok(selector) => self.rules.push(Arc::new(DeclaredRule { rule, selector })),
            Err(message) => {
                let ValidationRule { id, declared_at, .. } = rule;
                self.problems.push(format!("{declared_at}: validation rule `{id}`: {message}"));
            }
        }
        self
    }

    /// Validates all handlers. An operator calls this at its start.
    ///
    /// # Errors
    /// Returns one error with all problems, such as invalid selectors or duplicate ids.
    pub fn check(&self) -> Result<(), RegistryError> {
        let required = &self.index_requirements;
        self.complain(problem::unknown_indices(&self.handlers, required))
    }

    /// Validates a part of a larger registry, whose missing indices another part may provide.
    fn check_as_part(&self) -> Result<(), RegistryError> {
        self.complain(Vec::new())
    }

    fn complain(&self, more: Vec<String>) -> Result<(), RegistryError> {
        let mut problems = self.problems.clone();
        problems.extend(problem::clashes(&self.handlers));
        problems.extend(problem::shared_names(&self.rules));
        problems.extend(problem::mixed_indices(&self.handlers));
        problems.extend(problem::doubled_conversions(&self.conversions));
        problems.extend(more);
        if problems.is_empty() { Ok(()) } else { Err(RegistryError(problems)) }
    }

    pub(crate) fn handlers(&self) -> &[Arc<Handler>] {
        &self.handlers
    }

    pub(crate) fn rules(&self) -> &[Arc<DeclaredRule>] {
        &self.rules
    }

    pub(crate) fn requirements(&self) -> &[Requirement<RequiredState>] {
        &self.requirements
    }

    /// Returns the indices that the handlers fill, all empty.
    pub(crate) fn indices(&self) -> Indices {
        let mut indices = Indices::default();
        for handler in &self.handlers {
            if let Some(ty) = handler.index {
                indices.declare(&handler.id, ty);
            }
        }
        indices
    }

    /// Registers a handler, or the problem with its declaration.
    fn with(
        mut self,
        kind: HandlerKind,
        selector: Option<impl IntoSelector>,
        mut callback: Callback,
    ) -> Self {
        let (name, declared_at) = (Arc::clone(&callback.handler.id), callback.handler.declared_at);
        self.require(&mut callback);
        let nameless = name.is_empty().then(|| "an id cannot be empty".to_owned());
        let refused = match callback.register(kind, selector) {
            Ok(handler) => {
                self.add(Arc::new(handler));
                None
            }
            Err(message) => Some(message),
        };
        let messages = nameless.into_iter().chain(refused);
        let attribute = kind.attribute();
        self.problems.extend(messages.map(|message| declaration(attribute, &name, declared_at, &message)));
        self
    }

    /// Adds a handler, unless it keeps the objects of a kind for a lister and another one does that already.
    fn add(&mut self, handler: Arc<Handler>) {
        let is_known = |it: &Arc<Handler>| it.id == handler.id && it.selector == handler.selector;
        let is_of_lister = handler.index.is_some_and(|it| it.is_of_lister);
        if !is_of_lister || !self.handlers.iter().any(is_known) {
            self.handlers.push(handler);
        }
    }

    /// Keeps all objects of a kind in an index.
    fn keep_objects(&mut self, kind: ListedKind, declared_at: DeclaredAt) {
        let indexer = Callback::of((kind.id)(), declared_at, kind.callee()).indexing(kind.index);
        match indexer.register(HandlerKind::Index, Some((kind.selector)())) {
            Ok(handler) => self.add(Arc::new(handler)),
            Err(message) => self.problems.push(declaration("Lister", &(kind.id)(), declared_at, &message)),
        }
    }

    /// Adds what the arguments of a function require from the operator.
    fn require(&mut self, callback: &mut Callback) {
        for kind in std::mem::take(&mut callback.listed) {
            self.keep_objects(kind, callback.handler.declared_at);
        }
        let Handler { id, declared_at, .. } = &callback.handler;
        let handler = || id.to_string();
        let state = callback.required_state.drain(..);
        let state = state.map(|what| Requirement { declared_at: *declared_at, handler: handler(), what });
        self.requirements.extend(state);
        let indices = callback.required_indices.drain(..);
        let indices = indices.map(|what| Requirement { declared_at: *declared_at, handler: handler(), what });
        self.index_requirements.extend(indices);
    }
}

/// Defines the methods that register closures in place of annotated functions, first those for objects.
macro_rules! registered {
    ($($(#[$doc:meta])* $kind:ident $method:ident;)* [] $($(#[$activity_doc:meta])* $activity:ident $activity_method:ident;)*) => {
        impl Registry {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $method(self, resources: impl IntoSelector, handler: Callback) -> Self {
                    self.with(HandlerKind::$kind, Some(resources), handler)
                }
            )*
            $(
                $(#[$activity_doc])*
                #[must_use]
                pub fn $activity_method(self, handler: Callback) -> Self {
                    self.with(HandlerKind::$activity, None::<Selector>, handler)
                }
            )*
        }
    };
}

registered! {
    /// Calls `handler` for new objects.
    OnCreate on_create;
    /// Calls `handler` for changed objects.
    OnUpdate on_update;
    /// Calls `handler` for objects being deleted.
    OnDelete on_delete;
    /// Calls `handler` for objects being deleted, when all else has ended for them.
    Finalize finalize;
    /// Calls `handler` for objects found handled when the operator starts.
    OnResume on_resume;
    /// Calls `handler` for changes of its field, which it must have.
    OnField on_field;
    /// Calls `handler` for every watch event.
    OnEvent on_event;
    /// Runs `handler` for each object while the object exists.
    Daemon daemon;
    /// Calls `handler` for each object periodically.
    Timer timer;
    /// Calls `handler` for each object, and again whenever the object or one of its children changes.
    Reconcile reconcile;
    /// Stores the results of `handler` for all objects in an index with the function's id. Create it with
    /// [`indexer`](crate::indexer) or [`indexer_async`](crate::indexer_async).
    Index index;
    /// Calls `handler` to allow or deny requests about objects.
    OnValidate on_validate;
    /// Calls `handler` to change objects before they are stored.
    OnMutate on_mutate;
    []
    /// Calls `handler` once, before any object is handled.
    OnStartup on_startup;
    /// Calls `handler` once, after the last object has been handled.
    OnCleanup on_cleanup;
    /// Calls `handler` for credentials. Its result is a [`ConnectionInfo`](crate::ConnectionInfo), or an `Option` of
    /// one. See
    /// [`Operator::run_logged_in`](crate::Operator::run_logged_in).
    OnLogin on_login;
    /// Calls `handler` for each request to the liveness endpoint ([`Operator::liveness`](crate::Operator::liveness)).
    /// Its result is part of the response.
    OnProbe on_probe;
}

#[cfg(test)]
mod tests;
