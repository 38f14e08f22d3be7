//! Admission handlers, as the configurations of their webhooks describe them: for which objects, operations and subresource each is, and what
//! becomes of a request that it cannot answer.
//!
//! Must not know requests, nor how configurations are written.

use std::time::Duration;

use crate::handler::filter::Filters;
use crate::handler::operation::Operation;
use crate::object::path::FieldPath;
use crate::object::selector::Selector;

/// What an admission handler may do to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AdmissionKind {
    /// `#[on_validate]`
    Validate,
    /// `#[on_mutate]`
    Mutate,
}

/// An admission handler, as the configuration of its webhook and the selection for a review need it.
pub(crate) struct AdmissionHandler {
    pub(crate) kind: AdmissionKind,
    pub(crate) selector: Selector,
    pub(crate) field: Option<FieldPath>,
    pub(crate) filters: Filters,
    /// As declared: empty for all that its kind allows, which [`operations()`](Self::operations) says.
    pub(crate) operations: Vec<Operation>,
    /// `None`: the main resource. `*`: that, and all its subresources.
    pub(crate) subresource: Option<String>,
    /// Whether it stays configured when the operator ends.
    pub(crate) persistent: bool,
    /// Whether it changes anything else than the object, if it is no dry run.
    pub(crate) side_effects: bool,
    /// Whether requests go through that it fails to answer.
    pub(crate) ignore_failures: Option<bool>,
    /// How long the API server waits for it.
    pub(crate) timeout: Option<Duration>,
    /// `#[on_validate]`: whether it is for updates of objects that are being deleted, too.
    pub(crate) deleted: bool,
}

/// The API server's own default is 10 seconds, Kopf's is 30. Webhooks that change objects are called one after the other, and share the time
/// of the user's request.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// The API server waits for whole seconds, and no longer.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(30);

// === impl ===

impl AdmissionKind {
    /// The attribute of such handlers.
    pub(crate) fn attribute_name(self) -> &'static str {
        match self {
            Self::Validate => "on_validate",
            Self::Mutate => "on_mutate",
        }
    }
}

impl AdmissionHandler {
    /// The operations that it is for. Nothing can be changed of what is being deleted: handlers that change objects are for deletions only if
    /// they say so.
    pub(crate) fn operations(&self) -> &[Operation] {
        use Operation::{Connect, Create, Delete, Update};
        match self.kind {
            _ if !self.operations.is_empty() => &self.operations,
            AdmissionKind::Validate => &[Create, Update, Delete, Connect],
            AdmissionKind::Mutate => &[Create, Update, Connect],
        }
    }

    /// Whether it is for this subresource, or for the main one.
    pub(crate) fn is_for_subresource(&self, subresource: Option<&str>) -> bool {
        let declared = self.subresource.as_deref();
        declared == Some("*") || declared == subresource
    }

    /// Whether it is for updates of objects that are being deleted. What validates is not, unless it says so: it would keep finalizers from
    /// being removed. What changes objects may have to change them to the end.
    pub(crate) fn is_for_dying(&self) -> bool {
        self.deleted || self.kind == AdmissionKind::Mutate
    }

    /// What does not go together, and what the API server would refuse.
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
