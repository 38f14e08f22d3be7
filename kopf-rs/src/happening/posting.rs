//! Happenings while Kubernetes Events are posted.
//!
//! Must not know any wording.

/// Something that has happened to Events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Posting {
    /// The server does not take one.
    Refused { error: String },
    /// Where it would go, nothing is taken any more: its namespace ends, or what is counted was deleted.
    Vain { error: String },
    /// The right to post them is missing. The rule that would give it.
    Forbidden { error: String, rule: String },
    /// So many were left out for that reason.
    LeftOut { events: u64, why: WhyLeftOut },
}

/// Why Events were left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhyLeftOut {
    /// More come than the server takes.
    QueueFull,
    /// There are too many about one object.
    TooMany,
    /// The operator ends.
    Stop,
}
