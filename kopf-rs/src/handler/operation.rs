//! What somebody is about to do to an object, as the API server tells admission handlers.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::object::words::equals_text;

/// What somebody is about to do to an object: the argument `operation` of admission handlers. Displays, and compares with text, as
/// Kubernetes writes it: `operation == "CREATE"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[non_exhaustive]
pub enum Operation {
    /// The object is to be created.
    Create,
    /// The object is to be changed.
    Update,
    /// The object is to be deleted.
    Delete,
    /// Somebody connects to the object, as `kubectl exec` does to a pod.
    Connect,
}

// === impl ===

impl Operation {
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
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
