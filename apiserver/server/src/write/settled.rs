//! The forms of a custom object: as it is read after a write, and as it is stored.
//!
//! Guarantees that the original is remembered if the object is stored in another form than it is read. Must not depend on requests.

use std::sync::Arc;

use super::{draft, same};
use crate::convert::{self, Storable};
use crate::kind::{Kind, api_version, shape};
use crate::managed::Kept;
use crate::object::{Body, Stored, metadata_mut};
use crate::schema;
use crate::status::Refusal;
use crate::store::{Store, key};

/// A custom object as it is read after the write, which drops fields without a schema, and as it is stored.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) body: Body,
    /// The stored form if it differs: an apply stores fields that the schema does not declare.
    written: Option<Body>,
    /// The stored and the returned form if a webhook converts the object.
    converted: Option<Storable>,
}

// === impl Settled ===

impl Settled {
    pub(crate) fn of(kind: &Kind, mut body: Body) -> Self {
        let mut written = None;
        if let Some(schema) = &kind.schema {
            // Turns whole numbers like 1.0 into integers.
            body.values_mut().for_each(schema::whole_numbers);
            let whole = body.clone();
            schema::store(schema, &mut body);
            written = Some(whole).filter(|whole| {
                kind.stored_schema.is_none() && kind.conversion.is_none() && *whole != body
            });
        }
        Self {
            body,
            written,
            converted: None,
        }
    }

    /// Converts the object to the stored version if that requires a webhook.
    pub(crate) fn convert(
        &mut self,
        store: &mut Store,
        kind: &Kind,
        kept: &Kept,
    ) -> Result<(), Refusal> {
        if kind.conversion.is_some() {
            let converted = convert::storable(store, kind, self.body.clone(), kept)?;
            self.converted = Some(converted);
        }
        Ok(())
    }

    /// Returns the object for the answer without storing it.
    pub(super) fn into_shown(self, kind: &Kind) -> Body {
        match self.converted {
            Some(converted) => converted.into_shown(),
            None => shape::to_storage(kind, self.body),
        }
    }

    /// Returns whether the stored form changes, even if the object reads the same.
    pub(super) fn is_written_anew(&self, store: &Store, kind: &Kind, old: &Stored) -> bool {
        let slim = &old.slim;
        let key = key(slim.namespace.as_deref(), &slim.name);
        if let Some(converted) = &self.converted {
            let newest = api_version(&kind.group, &kind.stored_version);
            let found = store.get(kind.collection, &key);
            return found.is_none_or(|found| {
                found.api_version() != newest || !same(&found.body(), &converted.body)
            });
        }
        match (&self.written, store.original(kind.collection, &key)) {
            (Some(new), Some(old)) => !same(&old.body(), new),
            (new, old) => new.is_some() || old.is_some(),
        }
    }

    /// Stores the object; returns it as the request sees it.
    pub(super) fn put(self, store: &mut Store, kind: &Kind, kept: Arc<Kept>) -> Arc<Stored> {
        if let Some(converted) = self.converted {
            let stored = store.put_kept(kind.collection, converted.body.clone(), kept);
            return converted.seen(kind, &stored);
        }
        let body = shape::to_storage(kind, self.body);
        let stored = store.put_kept(kind.collection, body, kept.clone());
        if let Some(mut written) = self.written {
            let slim = &stored.slim;
            let key = key(slim.namespace.as_deref(), &slim.name);
            let revision = slim.revision.to_string();
            metadata_mut(&mut written).insert("resourceVersion".to_owned(), revision.into());
            let original = draft(kind, &written, kept, slim.revision);
            store.note_original(kind.collection, key, original);
        }
        stored
    }
}
