//! Happenings of posting Kubernetes Events.
//!
//! This module contains no wording.

/// A happening of posting Events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Posting {
    /// The server rejects an Event.
    Refused { error: String },
    /// The Event has no valid destination any more: its namespace is terminating, or the Event to update was deleted.
    Vain { error: String },
    /// The permission to post Events is missing. Carries the RBAC rule that would grant it.
    Forbidden { error: String, rule: String },
    /// This many Events were dropped for this reason.
    LeftOut { events: u64, why: WhyLeftOut },
}

/// Why Events were dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhyLeftOut {
    /// The operator produces more than the server accepts.
    QueueFull,
    /// There are too many Events about one object.
    TooMany,
    /// The operator is shutting down.
    Stop,
}
