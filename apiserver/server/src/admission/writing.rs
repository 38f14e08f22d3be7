//! The link between verbs and webhooks, before an object is created, changed, deleted or stored.
//!
//! Guarantees that mutating webhooks see the request's object and validating ones the object to store.
//! Must not depend on how webhooks are called.

use std::sync::Arc;

use serde_json::{Value, json};

use super::chance::Chance;
use super::round::{self, Event};
use crate::call::Call;
use crate::kind::{Kind, Shape, shape};
use crate::managed::Kept;
use crate::object::{Body, MANAGED, Stored, at_path, metadata, metadata_mut, set_path};
use crate::status::Refusal;
use crate::store::Store;
use crate::verb::{self, Part};
use crate::write::{self, Change};

/// A write to be reviewed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writing<'a> {
    pub(crate) kind: &'a Kind,
    pub(crate) part: Part,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) name: &'a str,
    pub(crate) operation: &'static str,
    pub(crate) dry_run: bool,
}

/// An object with its managed fields.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) body: &'a Body,
    pub(crate) kept: &'a Arc<Kept>,
}

/// Lets webhooks change a new object, whose managed fields are already computed.
pub(crate) fn change_new(
    store: &mut Store,
    writing: Writing<'_>,
    body: &mut Body,
    kept: &Arc<Kept>,
) -> Result<(), Refusal> {
    let view = View { body, kept };
    let mut event = event(store, writing, Some(view), None);
    round::mutate(store, &mut event)?;
    *body = taken(writing.kind, event)?;
    Ok(())
}

/// Lets webhooks refuse the object to store.
pub(crate) fn check(
    store: &mut Store,
    writing: Writing<'_>,
    new: Option<View<'_>>,
    old: Option<View<'_>>,
) -> Result<(), Refusal> {
    let mut event = event(store, writing, new, old);
    round::validate(store, &mut event).map_err(Refusal::late)
}

/// Lets webhooks change an update.
pub(crate) fn change(
    store: &mut Store,
    change: &mut Change<'_>,
    old: &Stored,
    new: &mut Body,
) -> Result<(), Refusal> {
    let before = old.body();
    let (draft, kept) = write::drafted(store, change, old, &before, new.clone())?;
    let writing = Writing::of_change(change, old);
    let (was, is) = (
        View {
            body: &before,
            kept: &old.kept,
        },
        View {
            body: &draft,
            kept: &kept,
        },
    );
    let mut event = event(store, writing, Some(is), Some(was));
    round::mutate(store, &mut event)?;
    if change.part == Part::Scale {
        let replicas = event.request["object"]["spec"]["replicas"].take();
        if let Some(paths) = &change.kind.scale {
            set_path(new, &paths.spec, replicas);
        }
    } else {
        *new = taken(change.kind, event)?;
    }
    change.managed = Some(kept.managed.clone());
    Ok(())
}

/// Lets webhooks refuse a deletion; their changes are ignored.
pub(crate) fn delete(store: &mut Store, writing: Writing<'_>, old: &Stored) -> Result<(), Refusal> {
    let before = old.body();
    let was = View {
        body: &before,
        kept: &old.kept,
    };
    let mut event = event(store, writing, None, Some(was));
    round::mutate(store, &mut event)?;
    round::validate(store, &mut event)
}

/// Returns the uid and the name that a new object got in an earlier run of the verb.
pub(crate) fn born(store: &Store) -> Option<(String, String)> {
    store.admission.round.as_ref()?.born.clone()
}

/// Returns the random choices of the current request. They are the same each time the verb runs, so that earlier answers of
/// webhooks stay valid.
pub(crate) fn chance(store: &Store) -> Chance {
    let round = store.admission.round.as_ref();
    round.map_or_else(Chance::new, |round| round.chance)
}

/// Stores the uid and the name of a new object for the next run of the verb.
pub(crate) fn bear(store: &mut Store, uid: &str, name: &str) {
    if let Some(round) = &mut store.admission.round {
        round.born = Some((uid.to_owned(), name.to_owned()));
    }
}

// === impl Writing ===

impl<'a> Writing<'a> {
    pub(crate) fn of_change(change: &Change<'a>, old: &'a Stored) -> Self {
        Self {
            kind: change.kind,
            part: change.part,
            namespace: old.slim.namespace.as_deref(),
            name: &old.slim.name,
            operation: "UPDATE",
            dry_run: change.dry_run,
        }
    }
}

/// Returns an object as webhooks see it: in the version of the request, with its managed fields.
fn shown(writing: Writing<'_>, view: View<'_>) -> Value {
    let kind = writing.kind;
    if writing.part == Part::Scale {
        let revision = metadata(view.body).and_then(|meta| meta.get("resourceVersion"));
        let revision = revision.and_then(Value::as_str).unwrap_or_default();
        let revision = revision.parse().unwrap_or_default();
        let stored = write::draft(kind, view.body, view.kept.clone(), revision);
        return verb::scale_of(kind, &stored);
    }
    let mut body = shape::from_stored(kind, view.body.clone());
    if !view.kept.managed.entries.is_empty() {
        metadata_mut(&mut body).insert(MANAGED.to_owned(), view.kept.managed.to_json());
    }
    Value::Object(body)
}

/// Returns the object of the webhooks in its stored shape.
fn taken(kind: &Kind, mut event: Event) -> Result<Body, Refusal> {
    let Value::Object(body) = event.request["object"].take() else {
        return Err(Refusal::internal_error("the patched object is no object"));
    };
    let (mut body, _told_already) =
        verb::shaped(kind, body).map_err(|why| Refusal::internal_error(&why))?;
    metadata_mut(&mut body).remove(MANAGED);
    Ok(body)
}

fn event(
    store: &Store,
    writing: Writing<'_>,
    new: Option<View<'_>>,
    old: Option<View<'_>>,
) -> Event {
    let kind = writing.kind;
    let labels = |view: &View<'_>| {
        let labels = at_path(view.body, ".metadata.labels").and_then(Value::as_object);
        let labels = labels.into_iter().flatten();
        labels
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect()
    };
    let both = || new.iter().chain(old.iter());
    let surroundings = if kind.is_core("namespaces") {
        both().next().map(labels)
    } else {
        writing.namespace.map(|name| {
            let namespaces = store.kinds.kind("", "v1", "namespaces");
            let found = namespaces.and_then(|kind| store.get(kind.collection, name));
            found
                .map(|found| found.slim.labels.clone())
                .unwrap_or_default()
        })
    };
    Event {
        operation: writing.operation,
        group: kind.group.clone(),
        plural: kind.plural.clone(),
        subresource: subresource(writing.part).to_owned(),
        namespace: writing.namespace.unwrap_or_default().to_owned(),
        versions: versions(store, kind),
        surroundings,
        labels: both().map(labels).collect(),
        request: request(store, writing, new, old),
    }
}

/// Returns the versions in which objects of a kind can be shown, its own first.
fn versions(store: &Store, kind: &Kind) -> Vec<String> {
    let mut versions = vec![kind.version.clone()];
    if kind.shape == Shape::Stored {
        let others = store.kinds.iter().filter(|other| {
            (&other.group, &other.plural) == (&kind.group, &kind.plural)
                && other.version != kind.version
        });
        versions.extend(others.map(|other| other.version.clone()));
    }
    versions
}

fn subresource(part: Part) -> &'static str {
    match part {
        Part::Main | Part::Log | Part::Stream | Part::Proxy => "",
        Part::Status => "status",
        Part::Scale => "scale",
        Part::Finalize => "finalize",
        Part::Token => "token",
        Part::Eviction => "eviction",
        Part::Binding => "binding",
        Part::Ephemeral => "ephemeralcontainers",
        Part::Resize => "resize",
        Part::Approval => "approval",
    }
}

fn request(
    store: &Store,
    writing: Writing<'_>,
    new: Option<View<'_>>,
    old: Option<View<'_>>,
) -> Value {
    let kind = writing.kind;
    let round = store.admission.round.as_ref();
    let call = round.map(|round| round.call.clone());
    let object = |view: Option<View<'_>>| view.map_or(Value::Null, |view| shown(writing, view));
    let is = if writing.part == Part::Scale {
        json!({"group": "autoscaling", "version": "v1", "kind": "Scale"})
    } else {
        json!({"group": kind.group, "version": kind.version, "kind": kind.kind})
    };
    let resource = json!({"group": kind.group, "version": kind.version, "resource": kind.plural});
    let mut request = json!({
        "uid": "",
        "kind": is,
        "resource": resource,
        "requestKind": is,
        "requestResource": resource,
        "operation": writing.operation,
        "userInfo": call.as_ref().map_or(Value::Null, |call| call.user.to_json()),
        "object": object(new),
        "oldObject": object(old),
        "dryRun": writing.dry_run,
        "options": call.map_or(Value::Null, |call| options(&call, writing)),
    });
    let sub = subresource(writing.part);
    // An existing Namespace counts as being in itself.
    let within = match writing.namespace {
        None if kind.is_core("namespaces") && writing.operation != "CREATE" => writing.name,
        namespace => namespace.unwrap_or_default(),
    };
    for (field, value) in [
        ("subResource", sub),
        ("requestSubResource", sub),
        ("name", writing.name),
        ("namespace", within),
    ] {
        if !value.is_empty() {
            request[field] = value.into();
        }
    }
    request
}

/// Returns the options of a request as an object.
fn options(call: &Call, writing: Writing<'_>) -> Value {
    let kind = match writing.operation {
        "CREATE" => "CreateOptions",
        "UPDATE" => "UpdateOptions",
        _ => "DeleteOptions",
    };
    let mut options = json!({});
    if kind == "DeleteOptions" {
        if let Ok(Value::Object(body)) = serde_json::from_slice(&call.body) {
            options = Value::Object(body);
        } else {
            if let Ok(seconds) = call.param("gracePeriodSeconds").parse::<i64>() {
                options["gracePeriodSeconds"] = seconds.into();
            }
            let policy = call.param("propagationPolicy");
            if !policy.is_empty() {
                options["propagationPolicy"] = policy.into();
            }
        }
    } else {
        for field in ["fieldManager", "fieldValidation"] {
            let value = call.param(field);
            if !value.is_empty() {
                options[field] = value.into();
            }
        }
    }
    if writing.dry_run {
        options["dryRun"] = json!(["All"]);
    }
    options["kind"] = kind.into();
    options["apiVersion"] = "meta.k8s.io/v1".into();
    options
}
