//! User code that runs outside of handlers. This module does not know when it runs.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// User functions that run on the operator's own thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum UserCode {
    /// The filters of these handlers.
    Filters(Arc<[Arc<str>]>),
    /// The functions that fill these indices.
    Indexers(Arc<[Arc<str>]>),
    /// A lifecycle.
    Lifecycle,
    /// Storages for progress or for the last-handled state.
    Storages,
    /// Functions that these handlers have added to their patches.
    PatchFunctions(Arc<[Arc<str>]>),
}
