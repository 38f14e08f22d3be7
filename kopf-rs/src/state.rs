//! What lives on the object: progress records, the last-handled essence, annotation names, finalizers.
//!
//! Given `now`, writes into a patch. Must not know time nor send anything, nor when or why it is asked.

pub(crate) mod budget;
pub(crate) mod diffbase;
pub(crate) mod finalizer;
pub(crate) mod naming;
pub(crate) mod progress;

use std::sync::Arc;

use crate::object::body::Body;
use crate::object::essence::{Essence, Marks};
use crate::object::path::FieldPath;
use crate::state::diffbase::{AnnotatedEssence, EssenceStore};
use crate::state::naming::Annotations;
use crate::state::progress::{AnnotatedProgress, ProgressStore};

/// Where an operator keeps its state on objects. Cloning shares.
#[derive(Clone)]
pub struct Persistence {
    /// The finalizer, such as `my-operator.kopf.rs/finalizer`.
    pub(crate) finalizer: Arc<str>,
    pub(crate) progress: Arc<dyn ProgressStore>,
    pub(crate) essence: Arc<dyn EssenceStore>,
    marks: Arc<Marks>,
}

/// State on an object that cannot be read: edited, truncated, or written by another program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("annotation {annotation} cannot be read ({why})")]
pub(crate) struct Damaged {
    pub(crate) annotation: String,
    pub(crate) why: String,
}

impl Persistence {
    /// Annotations and a finalizer under `{operator}.kopf.rs`.
    #[must_use]
    pub fn named(operator: &str) -> Self {
        let prefix = naming::prefix(operator);
        let annotations = Annotations::under(&prefix);
        Self {
            finalizer: format!("{prefix}/finalizer").into(),
            progress: Arc::new(AnnotatedProgress::new(annotations.clone())),
            essence: Arc::new(AnnotatedEssence::new(annotations)),
            marks: Arc::new(Marks::new(prefix)),
        }
    }

    /// What counts of `body`, with the `extra` fields handlers have opted into.
    pub(crate) fn essence_of<'a>(
        &self,
        body: &Body,
        extra: impl IntoIterator<Item = &'a FieldPath>,
    ) -> Essence {
        Essence::of(body, extra, &self.marks)
    }
}

impl std::fmt::Debug for Persistence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Persistence({:?})", self.finalizer)
    }
}
