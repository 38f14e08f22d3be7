//! What lives on the object: progress records, the last-handled essence, annotation names, finalizers.
//!
//! Given `now`, writes into a patch. Must not know time nor send anything, nor when or why it is asked.

pub(crate) mod budget;
pub(crate) mod changes;
pub(crate) mod diffbase;
mod error;
pub(crate) mod finalizer;
pub(crate) mod kopf;
mod last_runs;
pub(crate) mod naming;
mod own;
pub(crate) mod progress;
pub(crate) mod storage;
pub(crate) mod trace;

use std::sync::Arc;

use crate::object::body::Body;
use crate::object::essence::{Essence, Marks, Secrets};
use crate::object::outline::Outline;
use crate::object::path::FieldPath;
use crate::state::diffbase::{AnnotatedEssence, EssenceStore};
pub(crate) use crate::state::error::{Damaged, NotKept};
use crate::state::kopf::annotations::AnnotationsDiffBaseStorage;
use crate::state::kopf::multi::SmartProgressStorage;
use crate::state::naming::Annotations;
use crate::state::progress::{AnnotatedProgress, ProgressStore};
use crate::state::storage::{DiffBaseStorage, Guarded, ProgressStorage};

/// Where an operator keeps its state on objects.
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
    pub(crate) progress: Arc<dyn ProgressStore>,
    pub(crate) essence: Arc<dyn EssenceStore>,
    marks: Arc<Marks>,
    /// Where all there is to keep is in these annotations.
    plain: Option<Annotations>,
    /// Keep when timers were called last, whatever storages there are for the rest.
    runs: Annotations,
    /// What all annotations begin with; nothing where storages decide.
    prefix: Option<Arc<str>>,
}

/// A persistence whose writes the server would refuse.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the operator cannot keep its state on objects: {0}")]
pub struct BadPersistence(String);

impl Persistence {
    /// Annotations and a finalizer under `{operator}.kopf.rs`.
    #[must_use]
    pub fn named(operator: &str) -> Self {
        let prefix = naming::prefix(operator);
        let annotations = Annotations::under(&prefix);
        Self {
            finalizer: format!("{prefix}/finalizer").into(),
            plain: Some(annotations.clone()),
            runs: annotations.clone(),
            prefix: Some(prefix.as_str().into()),
            progress: Arc::new(AnnotatedProgress::new(annotations.clone())),
            essence: Arc::new(AnnotatedEssence::new(annotations)),
            marks: Arc::new(Marks::new(prefix)),
        }
    }

    /// Kopf's own names and formats, byte for byte. A Python operator can be stopped and this one started, or the other way round, between the
    /// attempts of a handler.
    ///
    /// As in Kopf, values of Secrets are copied into an annotation in clear text, and the last-handled configuration of a large object is not
    /// compressed. Kopf's records cannot hold what the last attempt of a handler has seen: if the operator is restarted in the middle of a
    /// cycle, a handler that has finished is not called again for a change that came later.
    #[must_use]
    pub fn kopf() -> Self {
        Self {
            finalizer: kopf::FINALIZER.into(),
            plain: None,
            runs: Annotations::under(kopf::PREFIX),
            prefix: Some(kopf::PREFIX.into()),
            progress: Arc::new(guarded_progress(SmartProgressStorage::default())),
            essence: Arc::new(guarded_essence(AnnotationsDiffBaseStorage::default())),
            marks: Arc::new(Marks::new(kopf::PREFIX).seeing(Secrets::Plain)),
        }
    }

    /// Another finalizer, such as `my-op.example.com/finalizer`.
    #[must_use]
    pub fn finalizer(self, finalizer: &str) -> Self {
        Self {
            finalizer: finalizer.into(),
            ..self
        }
    }

    /// Keep the progress of handlers in this storage.
    #[must_use]
    pub fn progress(self, storage: impl ProgressStorage + 'static) -> Self {
        Self {
            progress: Arc::new(guarded_progress(storage)),
            plain: None,
            prefix: None,
            ..self
        }
    }

    /// Keep the last-handled configuration in this storage.
    #[must_use]
    pub fn diff_base(self, storage: impl DiffBaseStorage + 'static) -> Self {
        Self {
            essence: Arc::new(guarded_essence(storage)),
            plain: None,
            prefix: None,
            ..self
        }
    }

    /// What no server would take of it, with what was expected.
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

    /// What the names of all annotations begin with, where that is known.
    pub(crate) fn prefix(&self) -> Option<&str> {
        self.prefix.as_deref()
    }

    /// Whether storages of users are asked.
    pub(crate) fn is_users(&self) -> bool {
        self.prefix.is_none()
    }

    /// What counts of `body`, with the `extra` fields handlers have opted into.
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

    /// What counts of `body`, without asking storages: those of users have no say in it.
    pub(crate) fn plain_essence_of(&self, body: &Body) -> Essence {
        Essence::of(body, [], &self.marks, |_| {})
    }

    /// Whether the object is as it was handled last and carries no progress, as far as its text tells.
    pub(crate) fn is_handled(&self, outline: &Outline<'_>) -> bool {
        let Some(plain) = &self.plain else {
            return false;
        };
        !outline.annotations().any(|it| plain.is_record(it))
            && outline.has_essence(&plain.last_handled(), &self.marks)
    }
}

fn guarded_progress(storage: impl ProgressStorage + 'static) -> Guarded<dyn ProgressStorage> {
    Guarded(Arc::new(storage))
}

fn guarded_essence(storage: impl DiffBaseStorage + 'static) -> Guarded<dyn DiffBaseStorage> {
    Guarded(Arc::new(storage))
}

impl std::fmt::Debug for Persistence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Persistence({:?})", self.finalizer)
    }
}
