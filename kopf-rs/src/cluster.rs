//! All speech with Kubernetes: the only module that names `kube`.
//!
//! Hides paging, re-lists, 410, bookmarks, back-off, the status subresource. Must not know causes, or why it is asked.

pub(crate) mod connect;
pub(crate) mod discover;
pub(crate) mod error;
pub(crate) mod watch;
pub(crate) mod write;

/// The Kubernetes client handlers and embedding programs use.
pub use kube::Client;

/// A connection to one cluster.
#[derive(Clone)]
pub(crate) struct Cluster {
    client: Client,
}

impl Cluster {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }
}
