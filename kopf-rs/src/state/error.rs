//! Errors of state on objects: it cannot be read, or a storage has not stored it.

use std::fmt;

/// State on an object that cannot be read: edited, truncated, or written by another program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place} cannot be read ({why})")]
pub(crate) struct Damaged {
    pub(crate) place: String,
    pub(crate) why: String,
}

/// State that a storage has not stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} could not be stored ({why})")]
pub(crate) struct NotKept {
    pub(crate) what: String,
    pub(crate) why: String,
}

/// The reason why a value could not be read or stored. Created from any error by `?`, or from text by `into`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageError(String);

impl<E: Into<Box<dyn std::error::Error + Send + Sync>>> From<E> for StorageError {
    fn from(error: E) -> Self {
        Self(error.into().to_string())
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
