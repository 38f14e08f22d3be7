//! Validation rules: CEL expressions that the API server evaluates by itself, without a webhook.
//!
//! This module does not know how rules are installed in the API server.

use std::panic::Location;

use crate::handler::location::{DeclaredAt, SourceLocation};
use crate::handler::operation::Operation;
use crate::object::selector::Selector;

/// A CEL rule that the API server enforces by itself. [`validation_rule`](macro@crate::validation_rule) describes
/// rules in full.
///
/// ```
/// use kopf_rs::{Registry, ValidationRule};
///
/// let rule = ValidationRule::new("volumes-keep-their-size", "self.spec.storage == oldSelf.spec.storage")
///     .message("volumes keep their size");
/// let registry = Registry::new().validation_rule("mysqlclusters.databases.example.com", rule);
/// registry.check().unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct ValidationRule {
    pub(crate) id: String,
    pub(crate) expression: String,
    pub(crate) message: Option<String>,
    pub(crate) message_expression: Option<String>,
    pub(crate) field: Option<String>,
    /// Empty: the expression determines the operations.
    pub(crate) operations: Vec<Operation>,
    pub(crate) warns: bool,
    pub(crate) ignores_failures: bool,
    pub(crate) is_policy: bool,
    pub(crate) declared_at: DeclaredAt,
}

/// A rule, with the resources that it applies to.
#[derive(Clone, Debug)]
pub(crate) struct DeclaredRule {
    pub(crate) rule: ValidationRule,
    pub(crate) selector: Selector,
}

impl ValidationRule {
    /// Creates a rule with this id. The expression must be true for all allowed objects; it can read `self`, the
    /// object, and `oldSelf`, the object before an update.
    #[must_use]
    #[track_caller]
    pub fn new(id: impl Into<String>, expression: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            expression: expression.into(),
            message: None,
            message_expression: None,
            field: None,
            operations: Vec::new(),
            warns: false,
            ignores_failures: false,
            is_policy: false,
            declared_at: DeclaredAt::Closure(Location::caller()),
        }
    }

    /// Sets the message for rejected objects, in one line. By default the API server shows the expression.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }

    /// Sets the message as a CEL expression, which can read the same variables as the rule. If it fails, the API
    /// server shows `message` instead.
    #[must_use]
    pub fn message_expression(mut self, expression: impl Into<String>) -> Self {
        self.message_expression = Some(expression.into());
        self
    }

    /// Sets the invalid field, such as `spec.storage`. By default the whole object.
    #[must_use]
    pub fn field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// Enforces the rule for these operations. By default for updates if the rule reads `oldSelf`, otherwise for
    /// creations and updates.
    #[must_use]
    pub fn operations(mut self, operations: impl IntoIterator<Item = Operation>) -> Self {
        self.operations.extend(operations);
        self
    }

    /// Warns the sender of the request instead of rejecting it.
    #[must_use]
    pub fn warn(mut self) -> Self {
        self.warns = true;
        self
    }

    /// Allows requests for which the evaluation of the expression fails, for instance because a field is missing. By
    /// default they are rejected.
    #[must_use]
    pub fn ignore_failures(mut self) -> Self {
        self.ignores_failures = true;
        self
    }

    /// Installs the rule as a policy even if it could be part of the CRD: use it for kinds that other projects
    /// define.
    #[must_use]
    pub fn policy(mut self) -> Self {
        self.is_policy = true;
        self
    }

    /// Sets the location of an annotated constant, for generated code.
    #[doc(hidden)]
    #[must_use]
    pub fn at(mut self, location: SourceLocation) -> Self {
        self.declared_at = DeclaredAt::Function(location);
        self
    }

    /// Returns a reason why the API server would reject the rule, as far as it can be found without parsing CEL.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        let has_lines = |text: &str| text.trim().contains(['\n', '\r']);
        if !self.id.contains(|it: char| it.is_ascii_alphanumeric()) {
            Some("the id needs a letter or a digit")
        } else if self.expression.trim().is_empty() {
            Some("the expression is empty")
        } else if self.message.as_deref().is_some_and(has_lines) {
            Some("the message has more than one line")
        } else if self.message.is_none() && has_lines(&self.expression) {
            Some("an expression of several lines needs a `message`")
        } else if self.message.as_deref().is_some_and(|it| it.trim().is_empty()) {
            Some("the message is empty: leave it out to have the expression shown")
        } else {
            None
        }
    }
}
