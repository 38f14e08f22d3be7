//! Conversion of custom objects by a webhook, for requests in another version than the stored one.
//!
//! Verbs process such objects in the version of the request: they are converted when they are read from the store, and again before they
//! are written. Verbs cannot wait, so a verb that needs a conversion leaves the call pending and runs again with the reply, as with
//! admission webhooks; nothing is written before all replies are there. Watches wait for the webhook instead.
//! Objects that have the wanted version already are never sent. Independent of transports.

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

/// The time limit of a webhook call.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The capacity of the cache of converted objects; a full cache is cleared.
const KEPT: usize = 20_000;

/// The schemas of the versions, by version name.
pub(crate) type Schemas = BTreeMap<String, Arc<Value>>;

/// The conversion webhook of a definition.
#[derive(Debug)]
pub(crate) struct Conversion {
    client: Client,
    /// The version of the conversion review, if the definition lists a supported one.
    review: Option<String>,
    group: String,
    kind: String,
    /// The version in which objects are stored.
    stored: String,
    /// All versions, including those that are not served.
    versions: Vec<String>,
    schemas: Schemas,
    /// The cache of objects converted for lists and watches, by uid, revision and version.
    seen: Mutex<HashMap<(String, u64, String), Arc<Stored>>>,
}

/// An object in its stored version, together with its form in the version of the request.
#[derive(Clone, Debug)]
pub(crate) struct Storable {
    pub(crate) body: Body,
    /// `None` if both are the same.
    shown: Option<Body>,
}

// === impl Conversion ===

impl Conversion {
    /// Returns the conversion of a definition, or `None` if it does not use a webhook.
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
        // A panic elsewhere leaves the map consistent: every change to it is a single insert or clear.
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

    /// Returns the review version, or an error if the object cannot be converted.
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

    /// Removes the fields that the version does not have.
    fn prune(&self, version: &str, body: &mut Body) {
        if let Some(schema) = self.schemas.get(version) {
            schema::convert(schema, body);
        }
    }

    /// Converts a stored object to a version; only within a request, which repeats if the webhook must be called first.
    fn in_round(&self, store: &mut Store, object: &Body, version: &str) -> Result<Body, Refusal> {
        let found = self.asked(store, object, version);
        let mut body = found.map_err(Refusal::internal)?.ok_or_else(unasked)?;
        self.prune(version, &mut body);
        Ok(body)
    }

    /// Returns the object as converted by the webhook; otherwise registers the call and returns `None`.
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

/// Returns the object exactly as the webhook converts it; only within a request, which repeats if the webhook must be called first.
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

/// Returns the error that ends a run of a verb with pending calls. It never reaches a client, because the verb runs again.
pub(crate) fn unasked() -> Refusal {
    Refusal::internal("a webhook is to be asked first")
}

/// Returns the object without fields that differ between runs of a verb, as the key of the call.
fn essence(object: &Body) -> String {
    let mut object = object.clone();
    let meta = metadata_mut(&mut object);
    for field in [MANAGED, "creationTimestamp", "deletionTimestamp"] {
        meta.remove(field);
    }
    Value::Object(object).to_string()
}

/// Returns a stored object as webhooks receive it: without a resource version, which the store does not keep in the object.
fn sendable(stored: &Stored) -> Body {
    let mut body = stored.whole_body();
    metadata_mut(&mut body).remove("resourceVersion");
    body
}

/// Completes a converted object with the revision and the managed fields of its original.
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

/// Returns a stored object in the version of the request.
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

/// Returns stored objects in the version of the request; uses the cache, so that each is converted once.
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
            // Continue, so that one round of calls covers all objects.
            Err(refusal) => refused = refused.or(Some(refusal)),
        }
    }
    refused.map_or(Ok(views), Err)
}

/// Returns an object that was written when another version was the stored one, without a webhook: fields that only the old version has are
/// still included.
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

/// Completes an object without a webhook that moves from an old stored version to the current one.
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

/// Returns the webhook conversion if the object is not in the wanted version.
fn foreign<'a>(kind: &'a Kind, stored: &Stored) -> Option<&'a Arc<Conversion>> {
    let conversion = kind.conversion.as_ref()?;
    (stored.api_version() != kind.api_version()).then_some(conversion)
}

/// Converts an object of a request to the stored version.
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
        // A later read would fill in the defaults of the stored version, so the stored object includes them.
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
    /// Returns the stored object as the response shows it.
    pub(crate) fn seen(&self, kind: &Kind, stored: &Arc<Stored>) -> Arc<Stored> {
        match &self.shown {
            Some(shown) => viewed(kind, shown.clone(), &stored.kept, stored.slim.revision),
            None => stored.clone(),
        }
    }

    /// Returns the object as the response shows it if nothing is stored.
    pub(crate) fn into_shown(self) -> Body {
        self.shown.unwrap_or(self.body)
    }
}

/// Returns the object in the request's version with the latest metadata; labels and annotations stay those of that version.
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

/// Converts objects for a watch, which can wait for the webhook.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    conversion: Arc<Conversion>,
    /// The call without its body.
    query: Query,
}

// === impl Waiting ===

impl Waiting {
    /// Returns `None` if the kind does not use a webhook.
    pub(crate) fn of(store: &Store, kind: &Kind) -> Option<Self> {
        let conversion = kind.conversion.clone()?;
        let query = conversion.client.query(store, TIMEOUT, Value::Null);
        Some(Self { conversion, query })
    }

    /// Returns a stored object in the version of a kind; the error says why the conversion failed.
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
