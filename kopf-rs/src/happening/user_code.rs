//! Which code of users runs outside of handlers. Must not know when.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Functions of users that run on the operator's own thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum UserCode {
    /// The filters of these handlers.
    Filters(Arc<[Arc<str>]>),
    /// The functions that feed these indices.
    Indexers(Arc<[Arc<str>]>),
    /// A lifecycle.
    Lifecycle,
    /// Storages for progress or for what was handled last.
    Storages,
    /// Functions that these handlers have put into their patch.
    PatchFunctions(Arc<[Arc<str>]>),
}
