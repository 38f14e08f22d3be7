//! Another operator of the same name that was noticed.
//!
//! Must not know any wording.

use std::sync::Arc;
use std::time::Duration;

use crate::object::reference::Reference;
use crate::object::resource::Resource;

/// Another operator keeps its state under this one's name.
#[derive(Clone, Debug)]
pub(crate) struct DuplicateOperator {
    pub(crate) severity: Severity,
    /// The annotation that it has written.
    pub(crate) found: String,
    /// Where both keep their state.
    pub(crate) prefix: String,
    pub(crate) resource: Resource,
    pub(crate) object: Arc<Reference>,
    /// The handlers of this operator.
    pub(crate) handlers: Vec<Arc<str>>,
}

/// How sure it is, and how bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    /// There may be another instance.
    Possible,
    /// There is another instance, for so long now.
    Lasting(Duration),
    /// There is another operator, or another version.
    Certain,
}
