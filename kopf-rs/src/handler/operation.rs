//! The operation of an admission request.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::object::str_eq::equals_text;

/// The operation of an admission request: the argument `operation` of admission handlers. Displays and compares with
/// text in Kubernetes notation: `operation == "CREATE"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[non_exhaustive]
pub enum Operation {
    /// Creates the object.
    Create,
    /// Updates the object.
    Update,
    /// Deletes the object.
    Delete,
    /// Connects to the object, as `kubectl exec` does to a pod.
    Connect,
}

// === impl ===

impl Operation {
    /// Returns `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

equals_text!(Operation, |operation, text| operation.as_str() == text);

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
