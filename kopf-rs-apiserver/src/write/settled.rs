//! How a custom object reads once it is stored, and how it is written.
//!
//! Promise: what is written in another shape than it reads is remembered so. Must not know requests.

use std::sync::Arc;

use super::{draft, same};
use crate::convert::{self, Storable};
use crate::kind::{Kind, api_version, shape};
use crate::managed::Kept;
use crate::object::{Body, Stored, metadata_mut};
use crate::schema;
use crate::status::Refusal;
use crate::store::{Store, key};

/// A custom object as it is read again, without what its schema does not know, and as it is written.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) body: Body,
    /// Where it is written in another shape: by apply, which writes what its schema does not know.
    written: Option<Body>,
    /// Where a webhook converts it: as it is stored, and as it comes back.
    converted: Option<Storable>,
}

// === impl Settled ===

impl Settled {
    pub(crate) fn of(kind: &Kind, mut body: Body) -> Self {
        let mut written = None;
        if let Some(schema) = &kind.schema {
            // Whole numbers lose their points.
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

    /// Have it converted, if that is a webhook's work.
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

    /// What its request sees of it where it is not stored.
    pub(super) fn into_shown(self, kind: &Kind) -> Body {
        match self.converted {
            Some(converted) => converted.into_shown(),
            None => shape::to_storage(kind, self.body),
        }
    }

    /// Whether it is not written as it was, even if it reads the same.
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

    /// Store it; what comes back is what its request sees.
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
