//! A step that a program asks an operator to run before the first handler is called.
//!
//! Must not know when the operator runs it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::cluster::Client;

/// The step.
#[derive(Clone)]
pub(crate) struct Preparation {
    /// The namespaces in which it creates objects.
    pub(crate) namespaces: BTreeSet<String>,
    pub(crate) run: Arc<dyn Fn(Client) -> BoxFuture<'static, Result<(), String>> + Send + Sync>,
}

impl fmt::Debug for Preparation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespaces, .. } = self;
        f.debug_struct("Preparation").field("namespaces", namespaces).finish_non_exhaustive()
    }
}
