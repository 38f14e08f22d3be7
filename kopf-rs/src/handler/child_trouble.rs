//! What is wrong with a child, where an error of a handler is about one: conditions name it.
//!
//! Must not know children, nor conditions.

/// Why a child is not as it is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChildTrouble {
    /// The server refuses it: its content, a quota, a policy or a webhook.
    Refused,
    /// Another object has its name.
    NotOurs,
    /// Another writer wants it to be different.
    Conflict,
    /// Its kind is not served.
    KindMissing,
}

impl ChildTrouble {
    /// The reason of a condition.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Refused => "ChildRefused",
            Self::NotOurs => "ChildNotOurs",
            Self::Conflict => "ChildConflict",
            Self::KindMissing => "ChildKindMissing",
        }
    }

    /// All of them.
    pub(crate) const ALL: [Self; 4] = [
        Self::Refused,
        Self::NotOurs,
        Self::Conflict,
        Self::KindMissing,
    ];
}
