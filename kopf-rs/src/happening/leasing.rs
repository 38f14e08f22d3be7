//! Happenings of an operator whose instances share a Lease.
//!
//! Must not know any wording.

use std::time::Duration;

/// Something that has happened to the Lease of that name (`namespace/name`), or to what this instance knows of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Leasing {
    /// This instance is at work.
    Holds { lease: String },
    /// It is about to be: it has made the Lease, and whoever held a former one is given so long to notice.
    Begins { lease: String, wait: Duration },
    /// It stands by for this one.
    StandsBy { lease: String, holder: String },
    /// It has had no answer for so long, and is not at work until it has one.
    Lapsed { lease: String, after: Duration },
    /// Somebody else has it by now.
    Lost { lease: String, holder: String },
    /// Somebody has deleted it; it is made anew after so long.
    Deleted { lease: String, wait: Duration },
    /// It belongs to another operator.
    OfOther { lease: String, operator: String },
    /// Somebody else decides who has it.
    Given { lease: String },
    /// It cannot be read or written, with the rule that would permit it; empty where RBAC is not the reason.
    Refused {
        lease: String,
        error: String,
        rule: String,
    },
    /// The term is over while a handler (`Handler 'id'`) is called, whose outcome is dropped.
    CutOff { handler: String },
    /// It is given back.
    Released { lease: String },
    /// It could not be given back.
    Kept { lease: String, after: Duration },
}
