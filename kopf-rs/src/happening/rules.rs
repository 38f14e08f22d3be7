//! Happenings of the policies and CRDs that enforce validation rules.
//!
//! This module contains no wording.

use std::time::Duration;

/// A happening of a policy or a CRD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RuleServing {
    /// A policy or a binding was created or updated.
    Written { policy: String, is_new: bool },
    /// A policy was deleted, since no rule has its name any more.
    Deleted { policy: String },
    /// A policy with the name of a rule exists, but was not created by this operator.
    Taken { rule: String, policy: String },
    /// A CRD lacks a rule.
    Missing { rule: String, definition: String },
    /// The policies cannot be written.
    Failed { error: String, pause: Duration },
}
