//! The state that an operator stores on objects: progress records, the last-handled essence, annotation names,
//! finalizers.
//!
//! Given `now`, it writes into a patch. This module must not read the clock or send requests, and must not depend on
//! the reason of a write.

pub(crate) mod budget;
pub(crate) mod changes;
pub(crate) mod diffbase;
mod error;
pub(crate) mod finalizer;
#[cfg(test)]
mod fuzz;
pub(crate) mod kopf;
mod last_runs;
pub(crate) mod naming;
mod own;
pub(crate) mod progress;
pub(crate) mod storage;

use std::sync::Arc;

use crate::object::body::Body;
use crate::object::essence::{Essence, Marks, Secrets};
use crate::object::lazy_json::Outline;
use crate::object::path::FieldPath;
pub(crate) use crate::state::error::{Damaged, NotKept};
use crate::state::kopf::annotations::AnnotationsDiffBaseStorage;
use crate::state::kopf::multi::SmartProgressStorage;
use crate::state::naming::Annotations;
use crate::state::storage::{DiffBaseStorage, EssenceStore, ProgressStorage, ProgressStore};

/// Configures where an operator stores its state on objects.
///
/// ```
/// use kopf_rs::{Persistence, Settings};
///
/// let mut settings = Settings::default();
/// // Continue where a Kopf operator has stopped, and keep its formats so that it can continue again:
/// settings.persistence = Some(Persistence::kopf());
/// ```
#[derive(Clone)]
pub struct Persistence {
    /// The finalizer, such as `my-operator.kopf.rs/finalizer`.
    pub(crate) finalizer: Arc<str>,
    pub(crate) progress: ProgressStore,
    pub(crate) essence: EssenceStore,
    marks: Arc<Marks>,
    /// Stores the last run of each timer, regardless of the storages for other state.
    runs: Annotations,
    /// The common prefix of all annotations; `None` if storages choose the names.
    prefix: Option<Arc<str>>,
}

/// A persistence whose writes the API server would reject.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the operator cannot keep its state on objects: {0}")]
pub struct BadPersistence(String);

impl Persistence {
    /// Uses annotations and a finalizer under `{operator}.kopf.rs`.
    #[must_use]
    pub fn named(operator: &str) -> Self {
        let prefix = naming::prefix(operator);
        let annotations = Annotations::under(&prefix);
        Self {
            finalizer: format!("{prefix}/finalizer").into(),
            runs: annotations.clone(),
            prefix: Some(prefix.as_str().into()),
            progress: ProgressStore::Annotations(annotations.clone()),
            essence: EssenceStore::Annotations(annotations),
            marks: Arc::new(Marks::new(prefix)),
        }
    }

    /// Uses Kopf's own names and formats, byte for byte, so that this operator and a Python operator can replace each
    /// other even between two attempts of a handler.
    ///
    /// As in Kopf, the values of Secrets are copied into an annotation in clear text, and the last-handled
    /// configuration of a large object is not compressed. Kopf's records cannot store the state that the last attempt
    /// of a handler saw: if the operator restarts in the middle of a cycle, a handler that has finished is not called
    /// again for a later change.
    #[must_use]
    pub fn kopf() -> Self {
        Self {
            finalizer: kopf::FINALIZER.into(),
            runs: Annotations::under(kopf::PREFIX),
            prefix: Some(kopf::PREFIX.into()),
            progress: ProgressStore::Users(Arc::new(SmartProgressStorage::default())),
            essence: EssenceStore::Users(Arc::new(AnnotationsDiffBaseStorage::default())),
            marks: Arc::new(Marks::new(kopf::PREFIX).seeing(Secrets::Plain)),
        }
    }

    /// Sets another finalizer, such as `my-op.example.com/finalizer`.
    #[must_use]
    pub fn finalizer(self, finalizer: &str) -> Self {
        Self { finalizer: finalizer.into(), ..self }
    }

    /// Stores the progress of handlers in this storage.
    #[must_use]
    pub fn progress(self, storage: impl ProgressStorage + 'static) -> Self {
        Self { progress: ProgressStore::Users(Arc::new(storage)), prefix: None, ..self }
    }

    /// Stores the last-handled configuration in this storage.
    #[must_use]
    pub fn diff_base(self, storage: impl DiffBaseStorage + 'static) -> Self {
        Self { essence: EssenceStore::Users(Arc::new(storage)), prefix: None, ..self }
    }

    /// Rejects names that the API server would not accept; the error describes the accepted names.
    pub(crate) fn check(&self) -> Result<(), BadPersistence> {
        if !naming::is_valid_finalizer(&self.finalizer) {
            return Err(BadPersistence(format!(
                "the finalizer `{}` cannot be used: expected a DNS name in lower case, a slash, and at most 63 letters, digits, `-`, `_` and \
                 `.`, such as `my-operator.example.com/finalizer`",
                self.finalizer
            )));
        }
        self.progress.check().map_err(BadPersistence)?;
        self.essence.check().map_err(BadPersistence)
    }

    /// Returns the common prefix of all annotations, if there is one.
    pub(crate) fn prefix(&self) -> Option<&str> {
        self.prefix.as_deref()
    }

    /// Returns whether users' storages are in use.
    pub(crate) fn is_users(&self) -> bool {
        self.prefix.is_none()
    }

    /// Returns the essence of `body`, including the `extra` fields that handlers have opted into.
    pub(crate) fn essence_of<'a>(
        &self,
        body: &Body,
        extra: impl IntoIterator<Item = &'a FieldPath>,
    ) -> Essence {
        Essence::of(body, extra, &self.marks, |essence| {
            self.progress.clear(essence);
            self.essence.clear(essence);
        })
    }

    /// Returns the essence of `body` without asking users' storages.
    pub(crate) fn plain_essence_of(&self, body: &Body) -> Essence {
        Essence::of(body, [], &self.marks, |_| {})
    }

    /// Returns the annotations, if all state is stored in them.
    fn plain(&self) -> Option<&Annotations> {
        match (&self.progress, &self.essence) {
            (ProgressStore::Annotations(annotations), EssenceStore::Annotations(_)) => Some(annotations),
            _ => None,
        }
    }

    /// Returns whether the object's text shows that it is unchanged since it was last handled, and carries no
    /// progress.
    pub(crate) fn is_handled(&self, outline: &Outline<'_>) -> bool {
        let Some(plain) = self.plain() else {
            return false;
        };
        !outline.annotations().any(|it| plain.is_record(it))
            && outline.has_essence(&plain.last_handled(), &self.marks)
    }
}

impl std::fmt::Debug for Persistence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Persistence({:?})", self.finalizer)
    }
}
