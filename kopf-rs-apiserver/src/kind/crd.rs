//! Custom resource definitions: what is wrong with them, which kinds they make, and how they end.
//!
//! Promise: a kind is served from the moment its definition is written; conditions follow in a second write, as the real
//! server's controllers do it. Must not know requests.

mod check;

pub(crate) use check::check;

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Column, Kind, Scale, Shape, Traits, api_version};
use crate::cascade;
use crate::managed::outline::Outline;
use crate::managed::{self, Author, Kept};
use crate::object::{Body, Stored, at_path, map_mut, text};
use crate::store::Store;
use crate::typed;
use crate::verb::{Deletion, delete_key};
use crate::write;

/// Holds a definition until its instances are gone.
const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

fn versions(body: &Body) -> Vec<&Body> {
    let versions = at_path(body, ".spec.versions").and_then(Value::as_array);
    versions
        .into_iter()
        .flatten()
        .filter_map(Value::as_object)
        .collect()
}

/// The names the server fills in when they are left out.
pub(crate) fn fill_names(body: &mut Body) {
    let Some(kind) = at_path(body, ".spec.names.kind").and_then(Value::as_str) else {
        return;
    };
    let kind = kind.to_owned();
    let spec = map_mut(body, "spec");
    let names = map_mut(spec, "names");
    names
        .entry("singular")
        .or_insert_with(|| kind.to_lowercase().into());
    names
        .entry("listKind")
        .or_insert_with(|| format!("{kind}List").into());
    spec.entry("conversion")
        .or_insert_with(|| json!({"strategy": "None"}));
}

/// The stored version is among the stored versions from the first write on.
pub(crate) fn fill_status(body: &mut Body) {
    let stored = versions(body)
        .into_iter()
        .find(|version| version.get("storage") == Some(&Value::Bool(true)))
        .map(|version| text(version, "name").to_owned())
        .unwrap_or_default();
    let status = map_mut(body, "status");
    status
        .entry("acceptedNames")
        .or_insert_with(|| json!({"kind": "", "plural": ""}));
    status.entry("conditions").or_insert(Value::Null);
    let known = status.entry("storedVersions").or_insert(Value::Null);
    if known.is_null() {
        *known = json!([]);
    }
    if let Some(items) = known.as_array_mut()
        && !items.iter().any(|item| item.as_str() == Some(&stored))
    {
        items.push(stored.into());
    }
}

/// After a definition was written: accept its names, say so, serve its kinds.
pub(crate) fn settle(store: &mut Store, stored: &Arc<Stored>) {
    if stored.slim.terminating {
        return;
    }
    let before = stored.body();
    let mut body = before.clone();
    fill_names(&mut body);
    fill_status(&mut body);
    let conflict = conflict(store, &body);
    let now = store.clock.stamp();
    let names = at_path(&body, ".spec.names").cloned().unwrap_or_default();
    let status = map_mut(&mut body, "status");
    if let Some(name) = &conflict {
        let message = format!("{name:?} is already in use");
        set_condition(
            status,
            ["NamesAccepted", "False", "Conflict", &message],
            &now,
        );
        set_condition(
            status,
            [
                "Established",
                "False",
                "NotAccepted",
                "not all names are accepted",
            ],
            &now,
        );
    } else {
        status.insert("acceptedNames".to_owned(), names);
        set_condition(
            status,
            ["NamesAccepted", "True", "NoConflicts", "no conflicts found"],
            &now,
        );
        set_condition(
            status,
            [
                "Established",
                "True",
                "InitialNamesAccepted",
                "the initial names have been accepted",
            ],
            &now,
        );
    }
    if body != before
        && let Some((id, _)) = store.place_of(&stored.slim.uid).cloned()
    {
        let mut author = Author::server("apiextensions.k8s.io/v1", now);
        author.subresource = "status";
        let outline = typed::of_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition");
        let outline = outline.map_or(Outline::Free, Outline::Struct);
        let managed = managed::update(outline, &author, &stored.kept.managed, &before, &body);
        store.put_kept(id, body.clone(), Kept::new(managed));
    }
    if conflict.is_none() {
        serve(store, &body);
    }
}

/// Set a condition given as type, status, reason and message.
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
    if found
        .as_ref()
        .is_some_and(|c| c["status"].as_str() == Some(value))
    {
        return;
    }
    let fresh = json!({
        "type": kind, "status": value, "reason": reason, "message": message, "lastTransitionTime": now,
    });
    match found {
        Some(condition) => *condition = fresh,
        None => conditions.push(fresh),
    }
}

/// A name that another kind of the group has.
fn conflict(store: &Store, body: &Body) -> Option<String> {
    let string = |path: &str| {
        at_path(body, path)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (group, plural) = (string(".spec.group"), string(".spec.names.plural"));
    let mut wanted = vec![
        string(".spec.names.singular").to_owned(),
        string(".spec.names.kind").to_owned(),
        string(".spec.names.listKind").to_owned(),
    ];
    wanted.extend(strings(body, ".spec.names.shortNames"));
    let mut taken = Vec::new();
    for kind in store
        .kinds
        .iter()
        .filter(|k| k.group == group && k.plural != plural)
    {
        taken.extend([&kind.singular, &kind.kind, &kind.list_kind]);
        taken.extend(&kind.short_names);
    }
    wanted.into_iter().find(|name| taken.contains(&name))
}

fn strings(body: &Body, path: &str) -> Vec<String> {
    let items = at_path(body, path).and_then(Value::as_array);
    items
        .into_iter()
        .flatten()
        .filter_map(|item| item.as_str().map(str::to_owned))
        .collect()
}

/// Serve the versions of a definition in place of what it served before.
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
        store.open(id, stored_type, template.kind.clone());
    }
    store.kinds.remove(group, plural);
    for version in all {
        if version.get("served") == Some(&Value::Bool(true)) {
            store.kinds.add(versioned(&template, version));
        }
    }
}

fn template(body: &Body, collection: super::CollectionId, stored_version: &str) -> Kind {
    let string = |path: &str| {
        let found = at_path(body, path).and_then(Value::as_str);
        found.unwrap_or_default().to_owned()
    };
    Kind {
        group: string(".spec.group"),
        version: String::new(),
        plural: string(".spec.names.plural"),
        singular: string(".spec.names.singular"),
        kind: string(".spec.names.kind"),
        list_kind: string(".spec.names.listKind"),
        short_names: strings(body, ".spec.names.shortNames"),
        categories: strings(body, ".spec.names.categories"),
        namespaced: string(".spec.scope") == "Namespaced",
        traits: Traits {
            generation: true,
            ..Traits::default()
        },
        scale: None,
        columns: Vec::new(),
        schema: None,
        selectable: Vec::new(),
        shape: Shape::Stored,
        collection,
        stored_version: stored_version.to_owned(),
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

/// A definition that was asked to go: says so and holds on to itself.
pub(crate) fn mark(body: &mut Body, now: &str) {
    cascade::add_finalizer(body, FINALIZER);
    let status = map_mut(body, "status");
    set_condition(
        status,
        [
            "Terminating",
            "True",
            "InstanceDeletionInProgress",
            "CustomResource deletion is in progress",
        ],
        now,
    );
}

/// Delete the instances of a definition that is to go; it follows when none is left.
pub(crate) fn empty(store: &mut Store, definition: &Stored) {
    if let Some(kind) = kind_of(store, definition) {
        let instances: Vec<String> = store
            .collection(kind.collection)
            .map(|found| found.objects.keys().cloned().collect())
            .unwrap_or_default();
        for key in instances {
            // Gone already, or held by a finalizer: `finish` sees to it later.
            let _outcome = delete_key(store, &kind, &key, &Deletion::at_once());
        }
        finish(store, &kind);
    } else {
        release(store, definition);
    }
}

fn kind_of(store: &Store, definition: &Stored) -> Option<Arc<Kind>> {
    let (plural, group) = definition.slim.name.split_once('.')?;
    store.kinds.any_version(group, plural).cloned()
}

/// Let a definition go that only waited for its instances, if none is left.
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

/// A definition is gone: its kinds are no longer served.
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
