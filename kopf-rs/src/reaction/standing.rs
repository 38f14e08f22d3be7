//! The permission to call a handler. Must not know the reasons.

/// The permission to call a handler for the current object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Callable,
    /// Its attempts have keys, and the object lacks the record from which they are derived.
    AwaitsRecord,
    Suspended,
    /// It was suspended, and the object has changed since: its timeout restarts.
    Released,
}
