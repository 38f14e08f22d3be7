//! Custom resource definitions: validation, the kinds they define, and their deletion.
//!
//! The server serves a kind as soon as its definition is written; a second write sets the conditions, as the real server's controllers do.
//! Independent of requests.

mod check;
mod names;

pub(crate) use check::{check, check_change, check_status, warnings};

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Column, Kind, Scale, Traits, api_version, registration, version_order};
use crate::cascade;
use crate::convert::{Conversion, Schemas};
use crate::managed::outline::Outline;
use crate::managed::{self, Author, Kept, Single};
use crate::object::{Body, Stored, at_path, map_mut, metadata, text};
use crate::schema;
use crate::store::Store;
use crate::typed;
use crate::verb::{Deletion, delete_key};
use crate::write;

/// Keeps a definition until all its instances are gone.
const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

fn versions(body: &Body) -> Vec<&Body> {
    let versions = at_path(body, ".spec.versions").and_then(Value::as_array);
    versions
        .into_iter()
        .flatten()
        .filter_map(Value::as_object)
        .collect()
}

/// Fills in the names that a definition leaves out.
pub(crate) fn fill_names(body: &mut Body) {
    let kind = at_path(body, ".spec.names.kind").and_then(Value::as_str);
    let kind = kind.unwrap_or_default().to_owned();
    let spec = map_mut(body, "spec");
    let names = map_mut(spec, "names");
    if text(names, "singular").is_empty() && !kind.is_empty() {
        names.insert("singular".to_owned(), kind.to_lowercase().into());
    }
    if text(names, "listKind").is_empty() && !kind.is_empty() {
        names.insert("listKind".to_owned(), format!("{kind}List").into());
    }
    spec.entry("conversion")
        .or_insert_with(|| json!({"strategy": "None"}));
    if let Some(service) = spec["conversion"].pointer_mut("/webhook/clientConfig/service")
        && let Value::Object(service) = service
    {
        service.entry("port").or_insert_with(|| 443.into());
    }
}

/// Adds the storage version to `status.storedVersions`, from the first write on.
pub(crate) fn fill_status(body: &mut Body) {
    let stored = versions(body)
        .into_iter()
        .find(|version| version.get("storage") == Some(&Value::Bool(true)))
        .map(|version| text(version, "name").to_owned());
    let status = map_mut(body, "status");
    status
        .entry("acceptedNames")
        .or_insert_with(|| json!({"kind": "", "plural": ""}));
    status.entry("conditions").or_insert(Value::Null);
    let known = status.entry("storedVersions").or_insert(Value::Null);
    let Some(stored) = stored else {
        return;
    };
    if known.is_null() {
        *known = json!([]);
    }
    if let Some(items) = known.as_array_mut()
        && !items.iter().any(|item| item.as_str() == Some(&stored))
    {
        items.push(stored.into());
    }
}

/// Runs after a definition was written: accepts its names, sets the conditions and serves its kinds. Also runs during the deletion of the
/// definition, because finalizers may still hold objects, which stay accessible in the versions of the definition.
pub(crate) fn settle(store: &mut Store, stored: &Arc<Stored>) {
    let before = stored.body();
    let mut body = before.clone();
    fill_names(&mut body);
    fill_status(&mut body);
    let conflict = names::accept(store, &mut body);
    let now = store.clock.stamp();
    let status = map_mut(&mut body, "status");
    if let Some((reason, message)) = &conflict {
        set_condition(status, ["NamesAccepted", "False", reason, message], &now);
        if !is_true(status, "Established") {
            let message = "not all names are accepted";
            let condition = ["Established", "False", "NotAccepted", message];
            set_condition(status, condition, &now);
        }
    } else {
        let condition = ["NamesAccepted", "True", "NoConflicts", "no conflicts found"];
        set_condition(status, condition, &now);
        let message = "the initial names have been accepted";
        let condition = ["Established", "True", "InitialNamesAccepted", message];
        set_condition(status, condition, &now);
    }
    let established = is_true(status, "Established");
    write_status(store, stored, &before, &body, now);
    if established {
        serve(store, &body);
        let group = at_path(&body, ".spec.group").and_then(Value::as_str);
        registration::settle(store, group.unwrap_or_default());
    }
}

fn is_true(status: &Body, condition: &str) -> bool {
    let conditions = status.get("conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|found| found["type"] == condition && found["status"] == "True")
}

/// Writes the server's own changes to the status of a definition, if there are any.
fn write_status(store: &mut Store, stored: &Stored, before: &Body, body: &Body, now: String) {
    let place = store.place_of(&stored.slim.uid).cloned();
    if let Some((id, _)) = place.filter(|_| body != before) {
        let mut author = Author::server("apiextensions.k8s.io/v1", now);
        author.subresource = "status";
        let outline = typed::of_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition");
        let outline = outline.map_or(Outline::Free, Outline::Struct);
        let versions = &mut Single(outline);
        let managed = managed::update(versions, &author, &stored.kept.managed, before, body);
        let kept = Kept::new(managed.unwrap_or_default());
        store.put_kept(id, body.clone(), kept);
    }
}

/// Serves the kinds of a definition that was loaded from disk if its names were accepted; writes nothing.
pub(crate) fn restore(store: &mut Store, body: &Body) {
    let conditions = at_path(body, ".status.conditions").and_then(Value::as_array);
    let accepted = conditions
        .into_iter()
        .flatten()
        .any(|c| c["type"] == "NamesAccepted" && c["status"] == "True");
    if accepted {
        serve(store, body);
    }
}

/// Sets a condition; the array has type, status, reason and message.
fn set_condition(status: &mut Body, [kind, value, reason, message]: [&str; 4], now: &str) {
    let slot = status.entry("conditions").or_insert(Value::Null);
    if slot.is_null() {
        *slot = json!([]);
    }
    let Some(conditions) = slot.as_array_mut() else {
        return;
    };
    let found = conditions
        .iter_mut()
        .find(|c| c["type"].as_str() == Some(kind));
    let since = found
        .as_ref()
        .filter(|c| c["status"].as_str() == Some(value))
        .and_then(|c| c["lastTransitionTime"].as_str())
        .unwrap_or(now)
        .to_owned();
    let fresh = json!({
        "type": kind, "status": value, "reason": reason, "message": message, "lastTransitionTime": since,
    });
    match found {
        Some(condition) => *condition = fresh,
        None => conditions.push(fresh),
    }
}

fn strings(body: &Body, path: &str) -> Vec<String> {
    let items = at_path(body, path).and_then(Value::as_array);
    items
        .into_iter()
        .flatten()
        .filter_map(|item| item.as_str().map(str::to_owned))
        .collect()
}

/// Serves the versions of a definition in place of those it served before.
fn serve(store: &mut Store, body: &Body) {
    let group = at_path(body, ".spec.group")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let plural = at_path(body, ".spec.names.plural")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let all = versions(body);
    let stored_version = all
        .iter()
        .find(|version| version.get("storage") == Some(&Value::Bool(true)))
        .map_or("", |version| text(version, "name"));
    let known = store
        .kinds
        .any_version(group, plural)
        .map(|kind| kind.collection);
    let id = known.unwrap_or_else(|| store.kinds.new_collection());
    let template = template(body, id, stored_version);
    let stored_type = api_version(group, stored_version);
    if known.is_some() {
        store.retype(id, stored_type, template.kind.clone());
    } else {
        let names = (stored_type, template.kind.clone());
        store.open(id, template.resource(), names);
    }
    let names = at_path(body, ".status.acceptedNames");
    store.redefine(id, json!([body.get("spec"), names]).to_string());
    store.kinds.remove(group, plural);
    let schemas = all.iter().filter_map(|version| schema_of(version));
    let schemas: Arc<Schemas> = Arc::new(schemas.collect());
    let conversion = Conversion::of(body, stored_version, &schemas);
    let prototype = Kind {
        conversion: conversion.clone(),
        schemas: schemas.clone(),
        ..template
    };
    serve_versions(store, &prototype, &all);
    if known.is_some() {
        let converted = conversion.is_some();
        store.reshape(id, |api_version, body| {
            let version = api_version.rsplit('/').next().unwrap_or_default();
            // An object that the schema cannot read stays unchanged.
            if let Some(schema) = schemas.get(version) {
                let _unreadable = schema::shape(schema, body);
            }
            if let Some(schema) = schemas
                .get(stored_version)
                .filter(|_| version != stored_version && !converted)
            {
                schema::convert(schema, body);
            }
            // With a webhook, objects are converted on read, so they keep the version in which they were written.
            !converted
        });
    }
}

/// Serves the versions with `served: true`. Without any, the kind is only registered, so that its objects stay in the store.
fn serve_versions(store: &mut Store, prototype: &Kind, all: &[&Body]) {
    let mut unserved = None;
    for version in all {
        let mut kind = versioned(prototype, version);
        let stored = kind.version == kind.stored_version;
        if version.get("served") == Some(&Value::Bool(true)) {
            kind.deprecation = deprecation(&kind, version, all);
            if !stored {
                kind.stored_schema = kind.schemas.get(&*kind.stored_version).cloned();
            }
            store.kinds.add(kind);
        } else if stored {
            unserved = Some(kind);
        }
    }
    let (group, plural) = (&prototype.group, &prototype.plural);
    let nothing_served = store.kinds.any_version(group, plural).is_none();
    if let Some(kind) = unserved.filter(|_| nothing_served) {
        store.kinds.hide(kind);
    }
}

fn schema_of(version: &Body) -> Option<(String, Arc<Value>)> {
    let schema = at_path(version, ".schema.openAPIV3Schema")?.clone();
    Some((text(version, "name").to_owned(), Arc::new(schema)))
}

/// Returns the warning for requests to a deprecated version.
fn deprecation(kind: &Kind, version: &Body, all: &[&Body]) -> Option<String> {
    let is = |version: &Body, flag: &str| version.get(flag) == Some(&Value::Bool(true));
    if !is(version, "deprecated") {
        return None;
    }
    if let Some(given) = version.get("deprecationWarning").and_then(Value::as_str) {
        return Some(given.to_owned());
    }
    let Kind {
        group, kind: word, ..
    } = kind;
    let own = version_order(&kind.version);
    let newer = all
        .iter()
        .filter(|other| is(other, "served") && !is(other, "deprecated"));
    let newer = newer.map(|other| text(other, "name"));
    let newer = newer.filter(|name| version_order(name) > own);
    let told = format!("{group}/{} {word} is deprecated", kind.version);
    Some(match newer.max_by_key(|name| version_order(name)) {
        Some(newest) => format!("{told}; use {group}/{newest} {word}"),
        None => told,
    })
}

fn template(body: &Body, collection: super::CollectionId, stored_version: &str) -> Kind {
    let string = |path: &str| {
        let found = at_path(body, path).and_then(Value::as_str);
        found.unwrap_or_default().to_owned()
    };
    Kind {
        group: string(".spec.group"),
        plural: string(".spec.names.plural"),
        singular: string(".spec.names.singular"),
        kind: string(".spec.names.kind"),
        list_kind: string(".spec.names.listKind"),
        short_names: strings(body, ".spec.names.shortNames"),
        categories: strings(body, ".spec.names.categories"),
        namespaced: string(".spec.scope") == "Namespaced",
        traits: Traits {
            generation: true,
            terminating: metadata(body).is_some_and(|meta| meta.contains_key("deletionTimestamp")),
            ..Traits::default()
        },
        collection,
        stored_version: stored_version.to_owned(),
        ..Kind::anonymous()
    }
}

fn versioned(template: &Kind, version: &Body) -> Kind {
    let mut kind = template.clone();
    text(version, "name").clone_into(&mut kind.version);
    let subresources = version.get("subresources").and_then(Value::as_object);
    kind.traits.status = subresources.is_some_and(|found| found.contains_key("status"));
    kind.scale = subresources
        .and_then(|found| found.get("scale"))
        .and_then(Value::as_object)
        .map(|scale| Scale {
            spec: text(scale, "specReplicasPath").to_owned(),
            status: text(scale, "statusReplicasPath").to_owned(),
            selector: Some(text(scale, "labelSelectorPath").to_owned())
                .filter(|path| !path.is_empty()),
        });
    let columns = version
        .get("additionalPrinterColumns")
        .and_then(Value::as_array);
    kind.columns = columns
        .into_iter()
        .flatten()
        .filter_map(Value::as_object)
        .map(column)
        .collect();
    kind.schema = at_path(version, ".schema.openAPIV3Schema")
        .cloned()
        .map(Arc::new);
    let selectable = version.get("selectableFields").and_then(Value::as_array);
    kind.selectable = selectable
        .into_iter()
        .flatten()
        .filter_map(|field| field["jsonPath"].as_str())
        .map(|path| path.trim_start_matches('.').to_owned())
        .collect();
    kind
}

fn column(column: &Body) -> Column {
    Column {
        name: text(column, "name").to_owned(),
        kind: text(column, "type").to_owned(),
        format: text(column, "format").to_owned(),
        description: match text(column, "description") {
            "" => format!(
                "Custom resource definition column (in JSONPath format): {}",
                text(column, "jsonPath")
            ),
            given => given.to_owned(),
        },
        priority: column
            .get("priority")
            .and_then(Value::as_i64)
            .unwrap_or_default(),
        path: text(column, "jsonPath").to_owned(),
    }
}

/// Starts the deletion of a definition: sets the condition and adds the finalizer.
pub(crate) fn mark(body: &mut Body, now: &str) {
    cascade::add_finalizer(body, FINALIZER);
    let message =
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    terminate(body, "InstanceDeletionPending", message, now);
}

fn terminate(body: &mut Body, reason: &str, message: &str, now: &str) {
    let status = map_mut(body, "status");
    let condition = ["Terminating", "True", reason, message];
    set_condition(status, condition, now);
}

/// Deletes the instances of a terminating definition; the definition itself is removed with the last one.
pub(crate) fn empty(store: &mut Store, definition: &Stored) {
    let before = definition.body();
    let mut body = before.clone();
    let now = store.clock.stamp();
    let message = "CustomResource deletion is in progress";
    terminate(&mut body, "InstanceDeletionInProgress", message, &now);
    write_status(store, definition, &before, &body, now);
    let found =
        definitions(store).and_then(|kind| store.get(kind.collection, &definition.slim.name));
    let Some(definition) = found else {
        return;
    };
    restore(store, &body);
    if let Some(kind) = kind_of(store, &definition) {
        let instances: Vec<String> = store
            .collection(kind.collection)
            .map(|found| found.objects.keys().cloned().collect())
            .unwrap_or_default();
        for key in instances {
            // The object may be gone already, or a finalizer may hold it: then `finish` removes the definition later.
            let _outcome = delete_key(store, &kind, &key, &Deletion::at_once());
        }
        finish(store, &kind);
    } else {
        release(store, &definition);
    }
}

/// Returns true if the definition of a kind is being deleted.
pub(crate) fn is_terminating(store: &Store, kind: &Kind) -> bool {
    if kind.traits.builtin {
        return false;
    }
    let name = format!("{}.{}", kind.plural, kind.group);
    let definitions = definitions(store).map(|kind| kind.collection);
    let definition = definitions.and_then(|id| store.get(id, &name));
    definition.is_some_and(|found| found.slim.terminating)
}

fn kind_of(store: &Store, definition: &Stored) -> Option<Arc<Kind>> {
    let (plural, group) = definition.slim.name.split_once('.')?;
    store.kinds.any_version(group, plural).cloned()
}

/// Removes a terminating definition if it has no instances left.
pub(crate) fn finish(store: &mut Store, kind: &Kind) {
    if kind.traits.builtin {
        return;
    }
    let empty = store
        .collection(kind.collection)
        .is_none_or(|found| found.objects.is_empty());
    let name = format!("{}.{}", kind.plural, kind.group);
    let definitions = definitions(store).map(|kind| kind.collection);
    let definition = definitions.and_then(|id| store.get(id, &name));
    if let Some(definition) = definition.filter(|found| empty && found.slim.terminating) {
        release(store, &definition);
    }
}

fn definitions(store: &Store) -> Option<Arc<Kind>> {
    let kind = store
        .kinds
        .kind("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    kind.cloned()
}

fn release(store: &mut Store, definition: &Stored) {
    let Some(kind) = definitions(store) else {
        return;
    };
    let mut body = definition.body();
    cascade::remove_finalizer(&mut body, FINALIZER);
    if crate::object::finalizers(&body).is_empty() {
        write::remove(store, &kind, &definition.slim.name);
    } else {
        store.put(kind.collection, body);
    }
}

/// Stops serving the kinds of a removed definition.
pub(crate) fn forget(store: &mut Store, definition: &Stored) {
    let Some((plural, group)) = definition.slim.name.split_once('.') else {
        return;
    };
    if let Some(kind) = store
        .kinds
        .any_version(group, plural)
        .cloned()
        .filter(|k| !k.traits.builtin)
    {
        store.kinds.remove(group, plural);
        store.close(kind.collection);
    }
}
