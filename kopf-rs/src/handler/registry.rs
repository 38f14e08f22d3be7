//! The registry of all handlers of an operator: collected from annotated functions, or built by hand.
//!
//! It resolves declarations into handlers once, at start, and reports all problems in one error.

use std::error::Error;
use std::sync::Arc;

use crate::handler::attribute::Attribute;
use crate::handler::callee::Callee;
use crate::handler::cause::Param;
use crate::handler::conversion::ConversionFunction;
use crate::handler::definition::{Handler, id};
use crate::handler::index::erased::{IndexRequirement, Indices};
use crate::handler::location::DeclaredAt;
use crate::handler::options::CallbackOptions;
use crate::handler::registry::callback::Callback;
use crate::handler::registry::problem::Problem;
use crate::handler::registry::selectors::IntoSelector;
use crate::handler::required::Requirement;
use crate::handler::rules::FamilyRules;
use crate::handler::validation_rule::{DeclaredRule, ValidationRule};
use crate::object::selector::{Selector, SelectorError};

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
    requirements: Vec<Requirement>,
    /// The indices that they require.
    index_requirements: Vec<IndexRequirement>,
    conversions: Vec<Arc<ConversionFunction>>,
    /// The validation rules that the API server enforces.
    rules: Vec<Arc<DeclaredRule>>,
    problems: Vec<Problem>,
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
        self.handlers.extend(other.handlers);
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
        self.declare_rule(rule.declared_at(), rule, selector.into_selector());
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

    fn complain(&self, more: Vec<Problem>) -> Result<(), RegistryError> {
        let mut problems = self.problems.clone();
        problems.extend(problem::clashes(&self.handlers));
        problems.extend(problem::shared_names(&self.rules));
        problems.extend(problem::mixed_indices(&self.handlers));
        problems.extend(problem::doubled_conversions(&self.conversions));
        problems.extend(more);
        if problems.is_empty() {
            Ok(())
        } else {
            Err(RegistryError(problems))
        }
    }

    pub(crate) fn handlers(&self) -> &[Arc<Handler>] {
        &self.handlers
    }

    pub(crate) fn rules(&self) -> &[Arc<DeclaredRule>] {
        &self.rules
    }

    pub(crate) fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Returns the indices that the handlers fill, all empty.
    pub(crate) fn indices(&self) -> Indices {
        let mut indices = Indices::default();
        for handler in &self.handlers {
            if let Some(ty) = handler.index() {
                indices.declare(&handler.id, ty);
            }
        }
        indices
    }

    /// Registers a closure in place of a function with that attribute. `family` builds the family's rules from the
    /// options.
    pub(super) fn with(
        mut self,
        attribute: Attribute,
        callback: Callback,
        family: impl FnOnce(CallbackOptions) -> Result<Box<dyn FamilyRules>, Box<dyn Error>>,
    ) -> Self {
        let mut options = callback.options;
        let misuse = attribute.misuse(&options);
        let base = HandlerBase {
            name: callback.name,
            declared_at: callback.declared_at,
            param: options.param.take(),
            callee: callback.callee,
            is_keyed: options.keyed,
        };
        let family = match misuse {
            Some(misuse) => Err(misuse),
            None => family(options).map_err(|error| error.to_string()),
        };
        self.push(attribute, base, family);
        self
    }

    fn declare_rule(
        &mut self,
        declared_at: DeclaredAt,
        rule: ValidationRule,
        selector: Result<Selector, SelectorError>,
    ) {
        let problem = rule.problem().map(str::to_owned);
        let selector = selector.map_err(|error| error.to_string());
        match (problem, selector) {
            (None, Ok(selector)) => self.rules.push(Arc::new(DeclaredRule {
                rule,
                selector,
                declared_at,
            })),
            (Some(message), _) | (None, Err(message)) => self.problems.push(Problem::Rule {
                id: rule.id,
                declared_at,
                message,
            }),
        }
    }

    fn push(
        &mut self,
        attribute: Attribute,
        base: HandlerBase,
        family: Result<Box<dyn FamilyRules>, String>,
    ) {
        let mut complain = |message| {
            self.problems.push(Problem::Declaration {
                attribute: attribute.name,
                name: base.name.clone(),
                declared_at: base.declared_at,
                message,
            });
        };
        if base.name.is_empty() {
            complain("an id cannot be empty".to_owned());
        }
        match family {
            Ok(family) => self.handlers.push(Arc::new(base.handler(family))),
            Err(message) => complain(message),
        }
    }
}

/// The parts of a handler that do not depend on its family.
struct HandlerBase {
    name: String,
    declared_at: DeclaredAt,
    param: Option<Param>,
    callee: Callee,
    is_keyed: bool,
}

impl HandlerBase {
    fn handler(self, family: Box<dyn FamilyRules>) -> Handler {
        Handler {
            id: id(
                &self.name,
                family.field().filter(|_| family.has_field_in_id()),
            )
            .into(),
            family,
            param: self.param,
            declared_at: self.declared_at,
            callee: self.callee,
            is_keyed: self.is_keyed,
        }
    }
}

#[cfg(test)]
mod tests;
