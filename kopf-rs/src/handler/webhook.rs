//! Admission handlers as their webhook configurations describe them: the objects, operations and subresource of each,
//! and the policy for requests that it fails to answer.
//!
//! This module depends on neither requests nor the format of the configurations.

use std::time::Duration;

use crate::handler::filter::Filters;
use crate::handler::operation::Operation;
use crate::object::path::FieldPath;
use crate::object::selector::Selector;

/// The kind of an admission handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AdmissionKind {
    /// `#[on_validate]`
    Validate,
    /// `#[on_mutate]`
    Mutate,
}

/// An admission handler, with the data for the configuration of its webhook and for selecting it in a review.
pub(crate) struct AdmissionHandler {
    pub(crate) kind: AdmissionKind,
    pub(crate) selector: Selector,
    pub(crate) field: Option<FieldPath>,
    pub(crate) filters: Filters,
    /// The declared operations. Empty means all that its kind allows; see [`operations()`](Self::operations).
    pub(crate) operations: Vec<Operation>,
    /// `None`: the main resource. `*`: the main resource and all its subresources.
    pub(crate) subresource: Option<String>,
    /// True if its webhook stays configured when the operator exits.
    pub(crate) persistent: bool,
    /// True if it has side effects beyond changing the object, unless the request is a dry run.
    pub(crate) side_effects: bool,
    /// True if the API server allows requests that the webhook fails to answer.
    pub(crate) ignore_failures: Option<bool>,
    /// The time that the API server waits for a response.
    pub(crate) timeout: Option<Duration>,
    /// `#[on_validate]`: true if it also handles updates of objects being deleted.
    pub(crate) deleted: bool,
}

/// The default timeout. The API server's own default is 10 seconds, and Kopf's is 30. Mutating webhooks run one after
/// the other within the time of the user's request, so the default is shorter here.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// The API server accepts only whole seconds, up to this limit.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(30);

// === impl ===

impl AdmissionKind {
    /// Returns the name of the attribute for this kind.
    pub(crate) fn attribute_name(self) -> &'static str {
        match self {
            Self::Validate => "on_validate",
            Self::Mutate => "on_mutate",
        }
    }
}

impl AdmissionHandler {
    /// Returns the operations it handles. A deletion cannot change the object, so mutating handlers handle deletions
    /// only if they declare it.
    pub(crate) fn operations(&self) -> &[Operation] {
        use Operation::{Connect, Create, Delete, Update};
        match self.kind {
            _ if !self.operations.is_empty() => &self.operations,
            AdmissionKind::Validate => &[Create, Update, Delete, Connect],
            AdmissionKind::Mutate => &[Create, Update, Connect],
        }
    }

    /// Returns whether it handles this subresource; `None` is the main resource.
    pub(crate) fn is_for_subresource(&self, subresource: Option<&str>) -> bool {
        let declared = self.subresource.as_deref();
        declared == Some("*") || declared == subresource
    }

    /// Returns whether it handles updates of objects being deleted. By default, validating handlers do not, since
    /// they could prevent the removal of finalizers. Mutating handlers do, since they may have to change objects
    /// until the end.
    pub(crate) fn is_for_dying(&self) -> bool {
        self.deleted || self.kind == AdmissionKind::Mutate
    }

    /// Rejects options that contradict each other, and values that the API server would reject.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.filters.check(self.field.as_ref())?;
        let timeout = self.timeout.unwrap_or(TIMEOUT);
        let seconds = timeout.as_secs_f64();
        if timeout < Duration::from_secs(1) || timeout > LONGEST_TIMEOUT {
            return Err(format!(
                "`timeout` is how long the API server waits for the answer: expected 1 to 30 seconds, found {seconds}"
            ));
        }
        if timeout.subsec_nanos() != 0 {
            return Err(format!(
                "the API server waits for whole seconds: expected a `timeout` such as 5, found {seconds}"
            ));
        }
        if self.subresource.as_deref() == Some("") {
            return Err("`subresource` is empty: leave it out for the main resource".to_owned());
        }
        Ok(())
    }
}
