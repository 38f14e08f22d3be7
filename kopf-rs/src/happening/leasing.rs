//! Happenings of an operator whose instances share a Lease.
//!
//! This module contains no wording.

use std::time::Duration;

/// A happening of the Lease with this name (`namespace/name`), or of this instance's view of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Leasing {
    /// This instance is the leader.
    Holds { lease: String },
    /// This instance has created the Lease and will lead after a wait, so that the holder of a former Lease can
    /// notice.
    Begins { lease: String, wait: Duration },
    /// This instance stands by for the current leader.
    StandsBy { lease: String, holder: String },
    /// The Lease could not be renewed for this long, so this instance is not the leader until it gets a response.
    Lapsed { lease: String, after: Duration },
    /// Another instance has taken the Lease.
    Lost { lease: String, holder: String },
    /// The Lease was deleted; this instance recreates it after a wait.
    Deleted { lease: String, wait: Duration },
    /// The Lease belongs to another operator.
    OfOther { lease: String, operator: String },
    /// The Lease has a `strategy`, so an external controller selects its holder, and handlers stay paused.
    Given { lease: String },
    /// The Lease cannot be read or written. Carries the RBAC rule that would permit it, or an empty text for other
    /// causes.
    Refused {
        lease: String,
        error: String,
        rule: String,
    },
    /// The term has ended during a call of a handler (`Handler 'id'`), whose outcome is dropped.
    CutOff { handler: String },
    /// This instance has released the Lease.
    Released { lease: String },
    /// This instance could not release the Lease.
    Kept { lease: String, after: Duration },
}
