//! Validation rules: expressions in CEL that the API server evaluates by itself, so that nobody has to answer a webhook.
//!
//! Must not know where the API server is told of them.

use std::panic::Location;

use crate::handler::location::{DeclaredAt, SourceLocation};
use crate::handler::operation::Operation;
use crate::object::selector::{Selector, SelectorError};

/// What a `#[validation_rule]` leaves behind. Constant: everything dynamic hides behind a function pointer.
#[derive(Clone, Copy)]
pub struct RuleDecl {
    /// Where the constant is.
    pub location: SourceLocation,
    /// Which resources it is for.
    pub selector: fn() -> Result<Selector, SelectorError>,
    /// The rule.
    pub rule: fn() -> ValidationRule,
}

/// A rule in CEL that the API server enforces by itself. [`validation_rule`](macro@crate::validation_rule) has all about rules.
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
    /// Empty: as the expression says.
    pub(crate) operations: Vec<Operation>,
    pub(crate) warns: bool,
    pub(crate) ignores_failures: bool,
    pub(crate) is_policy: bool,
    declared_at: &'static Location<'static>,
}

/// A rule, and the resources it is for.
#[derive(Clone, Debug)]
pub(crate) struct DeclaredRule {
    pub(crate) rule: ValidationRule,
    pub(crate) selector: Selector,
    pub(crate) declared_at: DeclaredAt,
}

impl ValidationRule {
    /// A rule of that id, with an expression that is true for all objects that are allowed: of `self`, the object, and `oldSelf`, what it was
    /// before an update.
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
            declared_at: Location::caller(),
        }
    }

    /// What is wrong with an object that is refused, in one line. By default the API server shows the expression.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }

    /// The same as an expression in CEL, which may read all that the rule reads. Where it fails, `message` is told.
    #[must_use]
    pub fn message_expression(mut self, expression: impl Into<String>) -> Self {
        self.message_expression = Some(expression.into());
        self
    }

    /// The field that is wrong, such as `spec.storage`. By default the whole object.
    #[must_use]
    pub fn field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// Enforce it for these operations. By default for updates, where the rule reads what was before, else for creations and updates.
    #[must_use]
    pub fn operations(mut self, operations: impl IntoIterator<Item = Operation>) -> Self {
        self.operations.extend(operations);
        self
    }

    /// Warn the sender of the request, and let it pass.
    #[must_use]
    pub fn warn(mut self) -> Self {
        self.warns = true;
        self
    }

    /// Let requests pass for which the expression fails, since a field is missing for instance. By default they are refused.
    #[must_use]
    pub fn ignore_failures(mut self) -> Self {
        self.ignores_failures = true;
        self
    }

    /// Make it a policy, also where it could be a part of the definition: of kinds that somebody else defines.
    #[must_use]
    pub fn policy(mut self) -> Self {
        self.is_policy = true;
        self
    }

    /// Where it is built.
    pub(crate) fn declared_at(&self) -> DeclaredAt {
        DeclaredAt::Closure(self.declared_at)
    }

    /// What the API server would refuse of it, as far as it shows without parsing CEL.
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
        } else if self
            .message
            .as_deref()
            .is_some_and(|it| it.trim().is_empty())
        {
            Some("the message is empty: leave it out to have the expression shown")
        } else {
            None
        }
    }
}
