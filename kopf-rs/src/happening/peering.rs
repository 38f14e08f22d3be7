//! Happenings among several operators of the same objects.
//!
//! This module contains no wording.

use std::sync::Arc;

use crate::object::collection::Collection;

/// A happening of a peering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Peering {
    /// The operator is paused in favour of these peers.
    Paused { in_favour_of: Vec<String> },
    /// The operator is paused until the peering object with this name exists.
    Awaited { name: String },
    /// The operator is no longer paused.
    Resumed,
    /// Kopf operators with the same priority are running.
    Rivals { peers: Vec<String> },
    /// The operator has sent a keep-alive to the peering object, which may not exist.
    KeptAlive {
        name: String,
        of: Arc<Collection>,
        is_there: bool,
    },
    /// The server rejects a keep-alive. Carries the RBAC rule that would permit it, or an empty text for other
    /// causes.
    Refused {
        name: String,
        of: Arc<Collection>,
        error: String,
        rule: String,
    },
    /// The operator could not remove its record at shutdown.
    Left { name: String, error: String },
}
