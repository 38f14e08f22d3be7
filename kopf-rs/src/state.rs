//! What lives on the object: progress records, the last-handled essence, annotation names, finalizers.
//!
//! Given `now`, writes into a patch. Must not know time nor send anything.

pub(crate) mod diffbase;
pub(crate) mod finalizer;
pub(crate) mod naming;
pub(crate) mod progress;

use std::sync::Arc;

use crate::state::diffbase::EssenceStore;
use crate::state::progress::ProgressStore;

/// Where an operator keeps its state on objects.
#[derive(Clone)]
pub struct Persistence {
    /// The finalizer, such as `my-operator.kopf.rs/finalizer`.
    pub(crate) finalizer: String,
    pub(crate) progress: Arc<dyn ProgressStore>,
    pub(crate) essence: Arc<dyn EssenceStore>,
}

impl Persistence {
    /// Annotations and a finalizer under `{operator}.kopf.rs`.
    #[must_use]
    pub fn named(operator: &str) -> Self {
        let _ = operator;
        todo!("core")
    }
}

impl std::fmt::Debug for Persistence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Persistence({:?})", self.finalizer)
    }
}
