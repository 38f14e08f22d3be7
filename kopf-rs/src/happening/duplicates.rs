//! The detection of another operator with the same name.
//!
//! This module contains no wording.

use std::sync::Arc;
use std::time::Duration;

use crate::object::reference::Reference;
use crate::object::resource::Resource;

/// Another operator stores its state under this operator's name.
#[derive(Clone, Debug)]
pub(crate) struct DuplicateOperator {
    pub(crate) severity: Severity,
    /// The annotation that the other operator wrote.
    pub(crate) found: String,
    /// The prefix under which both operators store their state.
    pub(crate) prefix: String,
    pub(crate) resource: Resource,
    pub(crate) object: Arc<Reference>,
    /// The handlers of this operator.
    pub(crate) handlers: Vec<Arc<str>>,
}

/// The certainty and severity of the finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    /// There may be a second instance.
    Possible,
    /// There has been a second instance for this long.
    Lasting(Duration),
    /// There is a different operator, or a different version of this one.
    Certain,
}
