//! The places where state is stored: our annotations, or storages written by users, and the guard around these.
//!
//! A storage is pure: it reads from the body and writes into a patch. If it fails or panics, the operator reports an
//! error and uses its memory meanwhile. This module does not know which values are stored when.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde_json::Value;

use crate::handler::outcome::panic_text;
use crate::object::body::Body;
use crate::object::essence::Essence;
use crate::object::patch::Patch;
use crate::state::diffbase::{Kept, KnownEssence, decode, encode};
pub use crate::state::error::StorageError;
use crate::state::error::{Damaged, NotKept};
use crate::state::naming::Annotations;
use crate::state::progress::{Record, annotated, may_be_of};

/// Keeps the progress of handlers on objects: Kopf's `ProgressStorage`. Implement it to keep records where you want them.
///
/// A storage sends no requests: it puts records into the patch, which the operator sends, and finds them in the body later. As long as the
/// operator runs, it also has the records in memory; a storage that loses records costs attempts only after a restart.
///
/// ```
/// use kopf_rs::prelude::*;
/// use kopf_rs::storage::{ProgressRecord, ProgressStorage, StorageError};
/// use kopf_rs::{Body, Persistence};
///
/// /// Records under `status.progress`.
/// struct InStatus;
///
/// impl ProgressStorage for InStatus {
///     fn fetch(&self, id: &str, body: &Body) -> Result<Option<ProgressRecord>, StorageError> {
///         match &body.status()["progress"][id] {
///             Value::Null => Ok(None),
///             record => ProgressRecord::from_value(record).map(Some),
///         }
///     }
///     fn store(&self, id: &str, record: &ProgressRecord, _: &Body, patch: &mut Patch) -> Result<(), StorageError> {
///         patch["status"]["progress"][id] = record.to_value();
///         Ok(())
///     }
///     fn purge(&self, id: &str, body: &Body, patch: &mut Patch) -> Result<(), StorageError> {
///         if !body.status()["progress"][id].is_null() {
///             patch["status"]["progress"][id] = Value::Null;
///         }
///         Ok(())
///     }
/// }
///
/// let persistence = Persistence::named("my-operator").progress(InStatus);
/// ```
pub trait ProgressStorage: Send + Sync {
    /// Returns the record of the handler `id`, if the object has one.
    ///
    /// # Errors
    /// If a record exists and cannot be read. The error is logged, and the handler starts from its first attempt.
    fn fetch(&self, id: &str, body: &Body) -> Result<Option<ProgressRecord>, StorageError>;
    /// Writes the record of the handler `id` into `patch`, replacing an existing one.
    ///
    /// # Errors
    /// If the value cannot be stored. The error is logged, and the value stays in memory.
    fn store(
        &self,
        id: &str,
        record: &ProgressRecord,
        body: &Body,
        patch: &mut Patch,
    ) -> Result<(), StorageError>;
    /// Removes the record of the handler `id` from the object and from `patch`, if there is one.
    ///
    /// # Errors
    /// If the record cannot be removed. The error is logged.
    fn purge(&self, id: &str, body: &Body, patch: &mut Patch) -> Result<(), StorageError>;
    /// Removes the values of this storage from the essence of an object, so that they do not count as changes. Not needed for values in the
    /// status, unless a handler has a `field` there.
    fn clear(&self, essence: &mut Value) {
        let _ = essence;
    }
    /// Checks at the start of the operator whether the storage can work. By default it can.
    ///
    /// # Errors
    /// If the server would refuse every write. The text describes the problem, and the operator does not start.
    fn check(&self) -> Result<(), StorageError> {
        Ok(())
    }
}

/// Keeps the last-handled state on objects: Kopf's `DiffBaseStorage`. Implement it to keep that state where you want it.
pub trait DiffBaseStorage: Send + Sync {
    /// Returns the last-handled essence; `None` makes the object a new one.
    ///
    /// # Errors
    /// If a state exists and cannot be read. The error is logged, and the object is handled as a new one.
    fn fetch(&self, body: &Body) -> Result<Option<Value>, StorageError>;
    /// Writes the essence into `patch`, replacing an existing one.
    ///
    /// # Errors
    /// If the value cannot be stored. The error is logged, and the value stays in memory.
    fn store(&self, essence: &Value, body: &Body, patch: &mut Patch) -> Result<(), StorageError>;
    /// Removes the values of this storage from the essence of an object, so that they do not count as changes.
    fn clear(&self, essence: &mut Value) {
        let _ = essence;
    }
    /// Checks at the start of the operator whether the storage can work. By default it can.
    ///
    /// # Errors
    /// If the server would refuse every write. The text describes the problem, and the operator does not start.
    fn check(&self) -> Result<(), StorageError> {
        Ok(())
    }
}

/// The progress of a handler as storages keep it.
pub type ProgressRecord = Record;

/// Stores progress records: each in an annotation, or in a user's storage, whose panics are caught.
#[derive(Clone)]
pub(crate) enum ProgressStore {
    Annotations(Annotations),
    Users(Arc<dyn ProgressStorage>),
}

/// Stores the last-handled essence: in an annotation, or in a user's storage, whose panics are caught.
#[derive(Clone)]
pub(crate) enum EssenceStore {
    Annotations(Annotations),
    Users(Arc<dyn DiffBaseStorage>),
}

impl ProgressStore {
    /// Returns the record of handler `id`, if the object has one.
    pub(crate) fn fetch(&self, id: &str, body: &Body) -> Result<Option<Record>, Damaged> {
        let annotations = match self {
            Self::Annotations(annotations) => annotations,
            Self::Users(storage) => {
                let found = guarded(|| storage.fetch(id, body))
                    .map_err(|why| Damaged { place: format!("the stored progress of '{id}'"), why })?;
                // The cycle's target is not stored, so a record's target could not be compared and would only indicate that the object has
                // changed.
                return Ok(found.map(|record| Record { target: None, ..record }));
            }
        };
        let annotation = annotations.of_handler(id, body);
        let found = body.annotation_map().get(&annotation);
        let found = found.map(|value| (annotation, value.as_str().unwrap_or_default()));
        let Some((annotation, text)) = found.or_else(|| former(annotations, id, body)) else {
            return Ok(None);
        };
        let record = Record::from_json(text);
        record.map(Some).map_err(|why| Damaged { place: format!("annotation {annotation}"), why })
    }
    /// Writes the record of handler `id` into `patch`.
    pub(crate) fn store(
        &self,
        id: &str,
        record: &Record,
        body: &Body,
        patch: &mut Patch,
    ) -> Result<(), NotKept> {
        match self {
            Self::Annotations(annotations) => {
                let annotation = annotations.of_handler(id, body);
                annotations.put(&annotation, annotated(record, id), body, patch);
            }
            Self::Users(storage) => {
                let mut own = Patch::new();
                guarded(|| storage.store(id, record, body, &mut own))
                    .map_err(|why| NotKept { what: format!("the progress of '{id}'"), why })?;
                patch.absorb(own);
            }
        }
        Ok(())
    }
    /// Removes the record of handler `id` from the object or from `patch`.
    pub(crate) fn purge(&self, id: &str, body: &Body, patch: &mut Patch) -> Result<(), NotKept> {
        let annotations = match self {
            Self::Annotations(annotations) => annotations,
            Self::Users(storage) => {
                return guarded(|| storage.purge(id, body, patch))
                    .map_err(|why| NotKept { what: format!("the removal of the progress of '{id}'"), why });
            }
        };
        Annotations::remove(&annotations.of_handler(id, body), body, patch);
        if let Some((former, _)) = former(annotations, id, body) {
            let at = ["metadata", "annotations", former.as_str()];
            // A value in the patch is the record of the handler that owns the name.
            if patch.get(&at).is_none() {
                patch.put(&at, Value::Null);
            }
        }
        Ok(())
    }
    /// Returns true if records are restored completely, including their targets. Otherwise memory must hold the records of a cycle.
    pub(crate) fn keeps_targets(&self) -> bool {
        matches!(self, Self::Annotations(_))
    }
    /// Returns the target of the current cycle, if the object has it.
    pub(crate) fn fetch_target(&self, body: &Body) -> Result<Option<KnownEssence>, Damaged> {
        match self {
            Self::Annotations(annotations) => essence_in(&annotations.of_target(body), body),
            Self::Users(_) => Ok(None),
        }
    }
    /// Writes the target of the current cycle into `patch`, if the store has a place for it.
    pub(crate) fn store_target(&self, target: &KnownEssence, body: &Body, patch: &mut Patch) {
        if let Self::Annotations(annotations) = self {
            annotations.put(&annotations.of_target(body), encode(target).0, body, patch);
        }
    }
    /// Removes the target from the object or from `patch`.
    pub(crate) fn purge_target(&self, body: &Body, patch: &mut Patch) {
        if let Self::Annotations(annotations) = self {
            Annotations::remove(&annotations.of_target(body), body, patch);
        }
    }
    /// Removes the values of this store from an essence, which never contains our annotations.
    pub(crate) fn clear(&self, essence: &mut Value) {
        if let Self::Users(storage) = self {
            cleared(essence, |essence| storage.clear(essence));
        }
    }
    /// Fails with the expected form if a server would refuse the values of this store.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Self::Annotations(_) => Ok(()),
            Self::Users(storage) => guarded(|| storage.check()),
        }
    }
}

impl EssenceStore {
    /// Returns the essence that the object carries.
    pub(crate) fn fetch(&self, body: &Body) -> Result<Option<KnownEssence>, Damaged> {
        let storage = match self {
            Self::Annotations(annotations) => return essence_in(&annotations.of_essence(body), body),
            Self::Users(storage) => storage,
        };
        let damaged = |why| Damaged { place: "the last-handled configuration".to_owned(), why };
        match guarded(|| storage.fetch(body)).map_err(damaged)? {
            Some(essence) if !essence.is_object() => Err(damaged("expected a JSON object".into())),
            essence => Ok(essence.map(|it| KnownEssence::Whole(Essence::from(it)))),
        }
    }
    /// Writes `last` into `patch`, in the best form that fits.
    pub(crate) fn store(&self, last: &KnownEssence, body: &Body, patch: &mut Patch) -> Result<Kept, NotKept> {
        let storage = match self {
            Self::Annotations(annotations) => {
                let (text, kept) = encode(last);
                annotations.put(&annotations.of_essence(body), text, body, patch);
                return Ok(kept);
            }
            Self::Users(storage) => storage,
        };
        let not_kept = |why| NotKept { what: "the last-handled configuration".to_owned(), why };
        let KnownEssence::Whole(essence) = last else {
            return Err(not_kept("only its digest is known".to_owned()));
        };
        let mut own = Patch::new();
        guarded(|| storage.store(essence.value(), body, &mut own)).map_err(not_kept)?;
        patch.absorb(own);
        Ok(Kept::Whole)
    }
    /// Returns true if the store can hold a digest in place of an essence.
    pub(crate) fn takes_digests(&self) -> bool {
        matches!(self, Self::Annotations(_))
    }
    /// Removes the values of this store from an essence, which never contains our annotations.
    pub(crate) fn clear(&self, essence: &mut Value) {
        if let Self::Users(storage) = self {
            cleared(essence, |essence| storage.clear(essence));
        }
    }
    /// Fails with the expected form if a server would refuse the values of this store.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Self::Annotations(_) => Ok(()),
            Self::Users(storage) => guarded(|| storage.check()),
        }
    }
}

/// Returns the object's annotation from an earlier version and its text, unless it belongs to another handler.
fn former<'a>(annotations: &Annotations, id: &str, body: &'a Body) -> Option<(String, &'a str)> {
    let annotation = annotations.former_of_handler(id, body)?;
    let text = body.annotation_map().get(&annotation)?.as_str()?;
    may_be_of(id, text).then_some((annotation, text))
}

/// Returns the essence in an annotation, if the object has it.
fn essence_in(annotation: &str, body: &Body) -> Result<Option<KnownEssence>, Damaged> {
    let Some(value) = body.annotation_map().get(annotation) else {
        return Ok(None);
    };
    let known = decode(value.as_str().unwrap_or_default().trim());
    known.map(Some).map_err(|why| Damaged { place: format!("annotation {annotation}"), why })
}

/// Returns the result of user code, or the reason why there is none.
fn guarded<T>(user: impl FnOnce() -> Result<T, StorageError>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(user)) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(payload) => {
            let text = panic_text(payload.as_ref()).unwrap_or_default();
            Err(format!("the storage panicked: {text}"))
        }
    }
}

/// Clears the essence, but discards the result if the user's code panics.
fn cleared(essence: &mut Value, user: impl FnOnce(&mut Value)) {
    let mut copy = essence.clone();
    if catch_unwind(AssertUnwindSafe(|| user(&mut copy))).is_ok() && copy.is_object() {
        *essence = copy;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Bad;

    impl ProgressStorage for Bad {
        fn fetch(&self, _: &str, _: &Body) -> Result<Option<ProgressRecord>, StorageError> {
            Err("no connection".into())
        }
        fn store(
            &self,
            id: &str,
            _: &ProgressRecord,
            _: &Body,
            patch: &mut Patch,
        ) -> Result<(), StorageError> {
            patch["half"] = json!("done");
            panic!("no room for {id}")
        }
        fn purge(&self, _: &str, _: &Body, _: &mut Patch) -> Result<(), StorageError> {
            serde_json::from_str::<()>("{")?;
            Ok(())
        }
        fn clear(&self, essence: &mut Value) {
            essence["spec"] = json!(null);
            panic!("in the middle")
        }
    }

    impl DiffBaseStorage for Bad {
        fn fetch(&self, _: &Body) -> Result<Option<Value>, StorageError> {
            Ok(Some(json!([])))
        }
        fn store(&self, _: &Value, _: &Body, _: &mut Patch) -> Result<(), StorageError> {
            Err(std::fmt::Error.into())
        }
        fn clear(&self, essence: &mut Value) {
            *essence = json!(7);
        }
    }

    #[test]
    fn failures_and_panics_are_reported_and_change_nothing() {
        let progress = ProgressStore::Users(Arc::new(Bad));
        let (body, mut patch) = (Body::new(json!({})), Patch::new());
        let fetched = progress.fetch("f", &body).unwrap_err();
        assert_eq!(fetched.to_string(), "the stored progress of 'f' cannot be read (no connection)");
        let record = Record::from_json(r#"{"started":"2026-01-01T00:00:00Z"}"#).unwrap();
        let stored = progress.store("f", &record, &body, &mut patch).unwrap_err();
        assert_eq!(
            stored.to_string(),
            "the progress of 'f' could not be stored (the storage panicked: no room for f)"
        );
        assert!(progress.purge("f", &body, &mut patch).is_err());
        assert!(patch.is_empty());
        let mut essence = json!({"spec": 1});
        progress.clear(&mut essence);
        assert_eq!(essence, json!({"spec": 1}));

        let diffbase = EssenceStore::Users(Arc::new(Bad));
        assert!(diffbase.fetch(&body).is_err());
        let last = KnownEssence::Whole(Essence::from(json!({})));
        assert!(diffbase.store(&last, &body, &mut patch).is_err());
        diffbase.clear(&mut essence);
        assert_eq!(essence, json!({"spec": 1}));
    }
}
