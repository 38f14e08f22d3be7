//! Happenings among several operators for the same objects.
//!
//! Must not know any wording.

use std::sync::Arc;

use crate::object::collection::Collection;

/// Something that has happened to a peering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Peering {
    /// The operator is paused for these peers.
    Paused { in_favour_of: Vec<String> },
    /// The operator is paused until there is a peering object of that name.
    Awaited { name: String },
    /// The operator is paused no more.
    Resumed,
    /// Kopf operators have the same priority as this one.
    Rivals { peers: Vec<String> },
    /// A sign of life was sent, to an object that is there or not.
    KeptAlive {
        name: String,
        of: Arc<Collection>,
        is_there: bool,
    },
    /// The server refuses a sign of life, with the rule that would permit it; empty where RBAC is not the reason.
    Refused {
        name: String,
        of: Arc<Collection>,
        error: String,
        rule: String,
    },
    /// The operator's record could not be taken away at its end.
    Left { name: String, error: String },
}
