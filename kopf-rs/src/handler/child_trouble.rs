//! Classifies errors of handlers that are about a child, so that conditions can name the reason.
//!
//! This module depends on neither children nor conditions.

/// Why the state of a child differs from the wanted one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChildTrouble {
    /// The server rejects it because of its content, a quota, a policy or a webhook.
    Refused,
    /// An object that is not ours has the same name.
    NotOurs,
    /// Another field manager sets a different value.
    Conflict,
    /// The API server does not serve its kind.
    KindMissing,
}

impl ChildTrouble {
    /// Returns the reason of the condition.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Refused => "ChildRefused",
            Self::NotOurs => "ChildNotOurs",
            Self::Conflict => "ChildConflict",
            Self::KindMissing => "ChildKindMissing",
        }
    }

    /// All variants.
    pub(crate) const ALL: [Self; 4] = [Self::Refused, Self::NotOurs, Self::Conflict, Self::KindMissing];
}
