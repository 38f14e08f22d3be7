//! What happens to the policies and definitions that enforce validation rules.
//!
//! Must not know any wording.

use std::time::Duration;

/// Something that has happened there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RuleServing {
    /// A policy or a binding was written, or one that was another.
    Written { policy: String, is_new: bool },
    /// It was deleted, since no rule has its name any more.
    Deleted { policy: String },
    /// The policy of a rule is there, and was not made by this operator.
    Taken { rule: String, policy: String },
    /// A definition lacks a rule.
    Missing { rule: String, definition: String },
    /// Policies cannot be written.
    Failed { error: String, pause: Duration },
}
