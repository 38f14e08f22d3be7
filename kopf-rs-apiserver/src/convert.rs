//! Conversion of custom objects by a webhook: whoever speaks another version than the stored one sees what it makes of them.
//!
//! Verbs have objects of such kinds in the version of the request: they are converted when they are taken from the store,
//! and when they are put there. Verbs cannot wait, so a verb that needs a conversion leaves the question behind and runs
//! again with the answer, as with admission webhooks; nothing is written before all answers are there. Watches wait.
//! Promise: an object that is in the wanted version already is nobody's concern. Must not know transports.

mod review;
mod sight;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use uuid::Uuid;

use crate::admission::client::{self, Query};
use crate::admission::place::Client;
use crate::kind::{Kind, api_version};
use crate::managed::Kept;
use crate::object::{Body, MANAGED, Stored, at_path, metadata, metadata_mut, text};
use crate::schema;
use crate::status::Refusal;
use crate::store::{Store, key};
use review::Question;
pub(crate) use sight::Sight;

/// How long a webhook may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How many converted objects are kept in mind.
const KEPT: usize = 20_000;

/// The schemas of versions, by name.
pub(crate) type Schemas = BTreeMap<String, Arc<Value>>;

/// How a definition has its objects converted.
#[derive(Debug)]
pub(crate) struct Conversion {
    client: Client,
    /// The version of the review, if it is one that is known.
    review: Option<String>,
    group: String,
    kind: String,
    /// The version objects are stored in.
    stored: String,
    /// All versions, served or not.
    versions: Vec<String>,
    schemas: Schemas,
    /// Objects as lists and watches have seen them, by uid, revision and version.
    seen: Mutex<HashMap<(String, u64, String), Arc<Stored>>>,
}

/// An object that is to be stored, and how its request sees it afterwards.
#[derive(Clone, Debug)]
pub(crate) struct Storable {
    pub(crate) body: Body,
    /// Absent where it is what is stored.
    shown: Option<Body>,
}

// === impl Conversion ===

impl Conversion {
    /// How the objects of a definition are converted, if by a webhook.
    pub(crate) fn of(definition: &Body, stored: &str, schemas: &Schemas) -> Option<Arc<Self>> {
        let conversion = at_path(definition, ".spec.conversion")?;
        if conversion["strategy"] != "Webhook" {
            return None;
        }
        let webhook = conversion.get("webhook")?;
        let word = |path: &str| {
            let found = at_path(definition, path).and_then(Value::as_str);
            found.unwrap_or_default().to_owned()
        };
        let reviews = webhook["conversionReviewVersions"].as_array();
        let mut reviews = reviews.into_iter().flatten().filter_map(Value::as_str);
        let versions = at_path(definition, ".spec.versions").and_then(Value::as_array);
        let versions = versions.into_iter().flatten().filter_map(Value::as_object);
        Some(Arc::new(Self {
            client: Client::of(&webhook["clientConfig"]),
            review: reviews
                .find(|review| matches!(*review, "v1" | "v1beta1"))
                .map(str::to_owned),
            group: word(".spec.group"),
            kind: word(".spec.names.kind"),
            stored: stored.to_owned(),
            versions: versions.map(|of| text(of, "name").to_owned()).collect(),
            schemas: schemas.clone(),
            seen: Mutex::default(),
        }))
    }

    fn seen(&self) -> MutexGuard<'_, HashMap<(String, u64, String), Arc<Stored>>> {
        // A panic elsewhere leaves the map whole: every change to it is a single insert or clear.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self, stored: &Stored, version: &str) -> Option<Arc<Stored>> {
        let slim = &stored.slim;
        let key = (slim.uid.clone(), slim.revision, version.to_owned());
        self.seen().get(&key).cloned()
    }

    fn keep(&self, version: &str, view: &Arc<Stored>) {
        let mut seen = self.seen();
        if seen.len() >= KEPT {
            seen.clear();
        }
        let slim = &view.slim;
        let key = (slim.uid.clone(), slim.revision, version.to_owned());
        seen.insert(key, view.clone());
    }

    /// Why an object cannot be converted at all, if so.
    fn check(&self, from: &str) -> Result<&str, String> {
        let known = |name: &String| api_version(&self.group, name) == from;
        if !self.versions.iter().any(known) {
            return Err(format!(
                "request to convert CR from an invalid group/version: {from}"
            ));
        }
        let review = self.review.as_deref();
        review.ok_or_else(|| "no supported conversion review versions".to_owned())
    }

    /// What a version does not know is gone.
    fn prune(&self, version: &str, body: &mut Body) {
        if let Some(schema) = self.schemas.get(version) {
            schema::convert(schema, body);
        }
    }

    /// An object of the store in a version; asked within the round of a request.
    fn in_round(&self, store: &mut Store, object: &Body, version: &str) -> Result<Body, Refusal> {
        let found = self.asked(store, object, version);
        let mut body = found.map_err(Refusal::internal)?.ok_or_else(unasked)?;
        self.prune(version, &mut body);
        Ok(body)
    }

    /// What the webhook makes of an object; nothing if it is to be asked first.
    fn asked(
        &self,
        store: &mut Store,
        object: &Body,
        version: &str,
    ) -> Result<Option<Body>, String> {
        let review = self.check(text(object, "apiVersion"))?;
        let wanted = api_version(&self.group, version);
        let key = format!("{wanted} {}", essence(object));
        let question = |uid| Question {
            review,
            uid,
            wanted: &wanted,
            object,
        };
        let round = store.admission.round.as_ref();
        if let Some(known) = round.and_then(|round| round.converted(&key)) {
            let answer = known.answer.as_ref().map_err(String::as_str);
            return question(&known.uid).read(answer).map(Some);
        }
        let uid = Uuid::new_v4().to_string();
        let query = self.client.query(store, TIMEOUT, question(&uid).to_json());
        if let Some(round) = &mut store.admission.round {
            round.convert(key, uid, query);
        }
        Ok(None)
    }
}

/// An object in a version, as its webhook makes it; asked within the round of a request.
pub(crate) fn seen(
    store: &mut Store,
    conversion: &Conversion,
    object: &Body,
    version: &str,
) -> Result<Body, Refusal> {
    let found = conversion.asked(store, object, version);
    let found = found.map_err(|why| Refusal::internal_error(&why))?;
    found.ok_or_else(unasked)
}

/// Nobody sees this: the verb runs again.
pub(crate) fn unasked() -> Refusal {
    Refusal::internal("a webhook is to be asked first")
}

/// An object without what differs when a verb runs again.
fn essence(object: &Body) -> String {
    let mut object = object.clone();
    let meta = metadata_mut(&mut object);
    for field in [MANAGED, "creationTimestamp", "deletionTimestamp"] {
        meta.remove(field);
    }
    Value::Object(object).to_string()
}

/// A stored object as webhooks are sent it: as it lies in the store, where no revision is.
fn sendable(stored: &Stored) -> Body {
    let mut body = stored.whole_body();
    metadata_mut(&mut body).remove("resourceVersion");
    body
}

/// A converted object of that revision, with the managers of the one it was.
fn viewed(kind: &Kind, mut body: Body, kept: &Arc<Kept>, revision: u64) -> Arc<Stored> {
    let meta = metadata_mut(&mut body);
    meta.remove(MANAGED);
    meta.insert("resourceVersion".to_owned(), revision.to_string().into());
    let names = (kind.api_version(), kind.kind.as_str());
    Arc::new(Stored::new(
        &body,
        kept.clone(),
        (&names.0, names.1),
        revision,
    ))
}

/// A stored object in the version of a request.
pub(crate) fn view(
    store: &mut Store,
    kind: &Kind,
    stored: &Arc<Stored>,
) -> Result<Arc<Stored>, Refusal> {
    let Some(conversion) = foreign(kind, stored) else {
        return Ok(of_old(store, kind, stored).unwrap_or_else(|| stored.clone()));
    };
    let body = conversion.in_round(store, &sendable(stored), &kind.version)?;
    Ok(viewed(kind, body, &stored.kept, stored.slim.revision))
}

/// Many of them; what was seen before is not asked for again.
pub(crate) fn views<'a>(
    store: &mut Store,
    kind: &Kind,
    all: impl Iterator<Item = &'a Arc<Stored>>,
) -> Result<Vec<Arc<Stored>>, Refusal> {
    let (mut views, mut refused) = (Vec::new(), None);
    for stored in all {
        let Some(conversion) = foreign(kind, stored) else {
            views.push(view(store, kind, stored)?);
            continue;
        };
        if let Some(known) = conversion.known(stored, &kind.version) {
            views.push(known);
            continue;
        }
        match view(store, kind, stored) {
            Ok(found) => {
                conversion.keep(&kind.version, &found);
                views.push(found);
            }
            // The others are asked for in the same go.
            Err(refusal) => refused = refused.or(Some(refusal)),
        }
    }
    refused.map_or(Ok(views), Err)
}

/// An object that nobody converts and that was written when another version was the stored one: what that version knows is
/// still there.
fn of_old(store: &Store, kind: &Kind, stored: &Stored) -> Option<Arc<Stored>> {
    if kind.is_native() || kind.traits.builtin {
        return None;
    }
    let key = key(stored.slim.namespace.as_deref(), &stored.slim.name);
    let written = store.original(kind.collection, &key)?;
    let version = written.api_version();
    if version == stored.api_version() || written.slim.revision != stored.slim.revision {
        return None;
    }
    let schema = kind.schemas.get(version.rsplit('/').next()?)?;
    let mut body = written.body();
    schema::shape(schema, &mut body).ok()?;
    let names = (kind.held_version(), kind.kind.as_str());
    let (kept, revision) = (written.kept.clone(), written.slim.revision);
    let old = Stored::new(&body, kept, (&names.0, names.1), revision);
    Some(Arc::new(old))
}

/// An object that is written again without being converted, in the version objects are stored in now.
pub(crate) fn rewritten(store: &Store, kind: &Kind, stored: &Stored, body: &mut Body) {
    let key = key(stored.slim.namespace.as_deref(), &stored.slim.name);
    let newest = api_version(&kind.group, &kind.stored_version);
    let written = store.original(kind.collection, &key);
    let old = written.is_some_and(|written| written.api_version() != newest);
    let schema = kind.schemas.get(&kind.stored_version);
    if let Some(schema) = schema.filter(|_| old && kind.conversion.is_none()) {
        schema::complete(schema, body);
    }
}

/// Who converts an object, if it is not in the wanted version.
fn foreign<'a>(kind: &'a Kind, stored: &Stored) -> Option<&'a Arc<Conversion>> {
    let conversion = kind.conversion.as_ref()?;
    (stored.api_version() != kind.api_version()).then_some(conversion)
}

/// An object of a request, as it is stored.
pub(crate) fn storable(
    store: &mut Store,
    kind: &Kind,
    body: Body,
    kept: &Kept,
) -> Result<Storable, Refusal> {
    let Some(conversion) = &kind.conversion else {
        return Ok(Storable { body, shown: None });
    };
    if kind.version == conversion.stored {
        return Ok(Storable { body, shown: None });
    }
    let mut object = body;
    let revision = metadata_mut(&mut object).remove("resourceVersion");
    let mut sent = |api_version: String, mut object: Body, version: &str| {
        object.insert("apiVersion".to_owned(), api_version.into());
        object.insert("kind".to_owned(), conversion.kind.as_str().into());
        if !kept.managed.entries.is_empty() {
            metadata_mut(&mut object).insert(MANAGED.to_owned(), kept.managed.to_json());
        }
        let mut body = conversion.in_round(store, &object, version)?;
        let meta = metadata_mut(&mut body);
        meta.remove(MANAGED);
        Ok::<Body, Refusal>(body)
    };
    let mut body = sent(kind.api_version(), object, &conversion.stored)?;
    if let Some(schema) = conversion.schemas.get(&conversion.stored) {
        // Defaults of the stored version are there when it is read again.
        schema::store(schema, &mut body);
    }
    let stored_type = api_version(&conversion.group, &conversion.stored);
    let mut shown = sent(stored_type, body.clone(), &kind.version)?;
    for body in [&mut body, &mut shown] {
        if let Some(revision) = &revision {
            metadata_mut(body).insert("resourceVersion".to_owned(), revision.clone());
        }
    }
    Ok(Storable {
        body,
        shown: Some(shown),
    })
}

// === impl Storable ===

impl Storable {
    /// What its request sees of it once it is stored.
    pub(crate) fn seen(&self, kind: &Kind, stored: &Arc<Stored>) -> Arc<Stored> {
        match &self.shown {
            Some(shown) => viewed(kind, shown.clone(), &stored.kept, stored.slim.revision),
            None => stored.clone(),
        }
    }

    /// What its request sees of it where it is not stored.
    pub(crate) fn into_shown(self) -> Body {
        self.shown.unwrap_or(self.body)
    }
}

/// An object as a request saw it, with the metadata it has got since; labels and annotations are those of its version.
pub(crate) fn renewed(kind: &Kind, view: &Stored, now: &Arc<Stored>) -> Arc<Stored> {
    if foreign(kind, now).is_none() {
        return now.clone();
    }
    let (mut body, fresh) = (view.body(), now.body());
    let own = metadata(&body).cloned().unwrap_or_default();
    let mut meta = metadata(&fresh).cloned().unwrap_or_default();
    for field in ["labels", "annotations"] {
        match own.get(field) {
            Some(value) => meta.insert(field.to_owned(), value.clone()),
            None => meta.remove(field),
        };
    }
    body.insert("metadata".to_owned(), Value::Object(meta));
    viewed(kind, body, &now.kept, now.slim.revision)
}

/// The way of a watch to its webhook.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    conversion: Arc<Conversion>,
    /// All but the body.
    query: Query,
}

// === impl Waiting ===

impl Waiting {
    /// Of a kind whose objects are converted.
    pub(crate) fn of(store: &Store, kind: &Kind) -> Option<Self> {
        let conversion = kind.conversion.clone()?;
        let query = conversion.client.query(store, TIMEOUT, Value::Null);
        Some(Self { conversion, query })
    }

    /// A stored object in the version of a kind; the error says why there is none.
    pub(crate) async fn view(
        &self,
        kind: &Kind,
        stored: &Arc<Stored>,
    ) -> Result<Arc<Stored>, String> {
        let conversion = &self.conversion;
        if foreign(kind, stored).is_none() {
            return Ok(stored.clone());
        }
        if let Some(known) = conversion.known(stored, &kind.version) {
            return Ok(known);
        }
        let (object, wanted) = (sendable(stored), kind.api_version());
        let uid = Uuid::new_v4().to_string();
        let question = Question {
            review: conversion.check(text(&object, "apiVersion"))?,
            uid: &uid,
            wanted: &wanted,
            object: &object,
        };
        let query = Query {
            body: question.to_json(),
            ..self.query.clone()
        };
        let answer = client::ask(&query).await;
        let mut body = question.read(answer.as_ref().map_err(String::as_str))?;
        conversion.prune(&kind.version, &mut body);
        let view = viewed(kind, body, &stored.kept, stored.slim.revision);
        conversion.keep(&kind.version, &view);
        Ok(view)
    }
}
