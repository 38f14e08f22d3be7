//! Storages written by users, and the guard around them.
//!
//! A storage is pure: it reads from the body and writes into a patch. If it fails or panics, the operator reports an error and uses its
//! memory meanwhile. Must not know which values are stored when.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde_json::Value;

use crate::handler::outcome::panic_text;
use crate::object::body::Body;
use crate::object::essence::Essence;
use crate::object::patch::Patch;
use crate::state::diffbase::{EssenceStore, Kept, KnownEssence};
pub use crate::state::error::StorageError;
use crate::state::error::{Damaged, NotKept};
use crate::state::progress::{ProgressStore, Record};

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

/// Wraps a user's storage to catch its panics.
pub(super) struct Guarded<S: ?Sized>(pub(super) Arc<S>);

impl ProgressStore for Guarded<dyn ProgressStorage> {
    fn fetch(&self, id: &str, body: &Body) -> Result<Option<Record>, Damaged> {
        let found = guarded(|| self.0.fetch(id, body))
            .map_err(|why| Damaged { place: format!("the stored progress of '{id}'"), why })?;
        // The cycle's target is not stored, so a record's target could not be compared and would only indicate that the object has changed.
        Ok(found.map(|record| Record { target: None, ..record }))
    }
    fn store(&self, id: &str, record: &Record, body: &Body, patch: &mut Patch) -> Result<(), NotKept> {
        let mut own = Patch::new();
        guarded(|| self.0.store(id, record, body, &mut own))
            .map_err(|why| NotKept { what: format!("the progress of '{id}'"), why })?;
        patch.absorb(own);
        Ok(())
    }
    fn purge(&self, id: &str, body: &Body, patch: &mut Patch) -> Result<(), NotKept> {
        guarded(|| self.0.purge(id, body, patch))
            .map_err(|why| NotKept { what: format!("the removal of the progress of '{id}'"), why })
    }
    fn keeps_targets(&self) -> bool {
        false
    }
    fn clear(&self, essence: &mut Value) {
        cleared(essence, |essence| self.0.clear(essence));
    }
    fn check(&self) -> Result<(), String> {
        guarded(|| self.0.check())
    }
}

impl EssenceStore for Guarded<dyn DiffBaseStorage> {
    fn fetch(&self, body: &Body) -> Result<Option<KnownEssence>, Damaged> {
        let damaged = |why| Damaged { place: "the last-handled configuration".to_owned(), why };
        match guarded(|| self.0.fetch(body)).map_err(damaged)? {
            Some(essence) if !essence.is_object() => Err(damaged("expected a JSON object".into())),
            essence => Ok(essence.map(|it| KnownEssence::Whole(Essence::from(it)))),
        }
    }
    fn store(&self, last: &KnownEssence, body: &Body, patch: &mut Patch) -> Result<Kept, NotKept> {
        let not_kept = |why| NotKept { what: "the last-handled configuration".to_owned(), why };
        let KnownEssence::Whole(essence) = last else {
            return Err(not_kept("only its digest is known".to_owned()));
        };
        let mut own = Patch::new();
        guarded(|| self.0.store(essence.value(), body, &mut own)).map_err(not_kept)?;
        patch.absorb(own);
        Ok(Kept::Whole)
    }
    fn takes_digests(&self) -> bool {
        false
    }
    fn clear(&self, essence: &mut Value) {
        cleared(essence, |essence| self.0.clear(essence));
    }
    fn check(&self) -> Result<(), String> {
        guarded(|| self.0.check())
    }
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
    fn failures_and_panics_are_told_and_leave_nothing_half_done() {
        let progress = Guarded::<dyn ProgressStorage>(Arc::new(Bad));
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

        let diffbase = Guarded::<dyn DiffBaseStorage>(Arc::new(Bad));
        assert!(diffbase.fetch(&body).is_err());
        let last = KnownEssence::Whole(Essence::from(json!({})));
        assert!(diffbase.store(&last, &body, &mut patch).is_err());
        diffbase.clear(&mut essence);
        assert_eq!(essence, json!({"spec": 1}));
    }
}
