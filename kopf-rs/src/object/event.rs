//! The types of watch events.
//!
//! This module does not know how they are handled.

use crate::object::str_eq::equals_text;

/// The type of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventType {
    /// Seen in a listing; Kopf's `None`.
    Listed,
    /// `ADDED`
    Added,
    /// `MODIFIED`
    Modified,
    /// `DELETED`
    Deleted,
}

impl EventType {
    /// Returns `ADDED`, `MODIFIED`, `DELETED`, or `None` for a listing.
    #[must_use]
    pub fn as_str(self) -> Option<&'static str> {
        match self {
            Self::Listed => None,
            Self::Added => Some("ADDED"),
            Self::Modified => Some("MODIFIED"),
            Self::Deleted => Some("DELETED"),
        }
    }
}

equals_text!(EventType, |event, text| event.as_str() == Some(text));
