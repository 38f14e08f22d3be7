//! `create`: a new object under a given or a generated name.
//!
//! Promise: metadata the server owns is the server's. Must not know what kinds mean beyond their traits.

use serde_json::Value;
use uuid::Uuid;

use super::{Answer, Target};
use crate::kind::{Kind, shape};
use crate::object::{Body, meta_text, metadata_mut};
use crate::rules;
use crate::status::Refusal;
use crate::store::{Store, key};
use crate::write;

/// The letters generated names end in.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

pub(crate) fn create(store: &mut Store, target: &Target<'_>) -> Result<Answer, Refusal> {
    let dry_run = target.call.dry_run()?;
    let body = target.call.object()?;
    if target.kind.traits.review {
        return Ok(review(&target.kind, body));
    }
    let body = decode(&target.kind, body)?;
    let warnings = rules::warnings(&body);
    let stored = create_body(store, &target.kind, target.namespace(), body, dry_run)?;
    let mut answer = Answer::object(201, store, target, &stored);
    answer.changed = !dry_run;
    answer.warnings = warnings;
    Ok(answer)
}

/// Check the type of a body and bring it into its stored shape.
pub(crate) fn decode(kind: &Kind, mut body: Body) -> Result<Body, Refusal> {
    let expected = kind.api_version();
    for (field, wanted) in [("apiVersion", expected.as_str()), ("kind", &kind.kind)] {
        match body.get(field).and_then(Value::as_str) {
            None | Some("") if kind.traits.builtin => {
                body.insert(field.to_owned(), wanted.into());
            }
            None | Some("") => {
                let word = if field == "kind" {
                    "Kind"
                } else {
                    "apiVersion"
                };
                let text = Value::Object(body.clone());
                return Err(Refusal::bad_request(format!(
                    "the object provided is unrecognized (must be of type {}): Object '{word}' is missing in '{text}'",
                    kind.kind
                )));
            }
            Some(_) => {}
        }
    }
    let found = (
        body.get("apiVersion")
            .and_then(Value::as_str)
            .unwrap_or_default(),
        body.get("kind").and_then(Value::as_str).unwrap_or_default(),
    );
    if found.0 != expected {
        return Err(Refusal::bad_request(format!(
            "the API version in the data ({}) does not match the expected API version ({expected})",
            found.0
        )));
    }
    if found.1 != kind.kind {
        return Err(Refusal::bad_request(format!(
            "{} in version {:?} cannot be handled as a {}: no kind {:?} is registered for version {:?}",
            found.1, kind.version, kind.kind, found.1, found.0
        )));
    }
    rules::check_types(&body)?;
    let mut body = shape::to_stored(kind, body);
    rules::tidy(&mut body);
    Ok(body)
}

/// Create an object from a decoded body.
pub(crate) fn create_body(
    store: &mut Store,
    kind: &Kind,
    namespace: Option<&str>,
    mut body: Body,
    dry_run: bool,
) -> Result<std::sync::Arc<crate::object::Stored>, Refusal> {
    place(kind, namespace, &mut body)?;
    check_namespace(store, kind, namespace, meta_text(&body, "name"))?;
    let meta = metadata_mut(&mut body);
    if !crate::object::text(meta, "resourceVersion").is_empty() {
        return Err(Refusal::bad_request(
            "resourceVersion should not be set on objects to be created",
        ));
    }
    name(store, kind, namespace, meta);
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "uid"] {
        meta.remove(field);
    }
    meta.insert("uid".to_owned(), Uuid::new_v4().to_string().into());
    meta.insert("creationTimestamp".to_owned(), store.clock.stamp().into());
    if kind.traits.generation {
        meta.insert("generation".to_owned(), 1.into());
    }
    if kind.traits.status {
        body.remove("status");
    }
    shape::fill_new(kind, &mut body);
    let name = meta_text(&body, "name").to_owned();
    let causes = [
        rules::check(kind, &body),
        crate::kind::crd::check(kind, &body),
    ]
    .concat();
    if !causes.is_empty() {
        return Err(Refusal::invalid(kind.subject_by_kind(&name), &causes));
    }
    if store.get(kind.collection, &key(namespace, &name)).is_some() {
        return Err(Refusal::already_exists(kind.subject(&name)));
    }
    Ok(write::create(store, kind, body, dry_run))
}

/// Put the namespace of the path into the body, or refuse another one.
pub(crate) fn place(kind: &Kind, namespace: Option<&str>, body: &mut Body) -> Result<(), Refusal> {
    let given = meta_text(body, "namespace");
    match namespace {
        Some(namespace) if given.is_empty() || given == namespace => {
            metadata_mut(body).insert("namespace".to_owned(), namespace.into());
            Ok(())
        }
        None if given.is_empty() => Ok(()),
        None if !kind.namespaced => {
            metadata_mut(body).remove("namespace");
            Ok(())
        }
        _ => Err(Refusal::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )),
    }
}

fn check_namespace(
    store: &Store,
    kind: &Kind,
    namespace: Option<&str>,
    name: &str,
) -> Result<(), Refusal> {
    let (Some(namespace), Some(namespaces)) = (namespace, store.kinds.kind("", "v1", "namespaces"))
    else {
        return Ok(());
    };
    match store.get(namespaces.collection, namespace) {
        None => Err(Refusal::not_found(namespaces.subject(namespace))),
        Some(found) if found.slim.terminating => Err(Refusal::namespace_terminating(
            kind.subject(name),
            namespace,
        )),
        Some(_) => Ok(()),
    }
}

/// Make up a free name if only its beginning is given.
fn name(store: &Store, kind: &Kind, namespace: Option<&str>, meta: &mut Body) {
    let stem = crate::object::text(meta, "generateName");
    if stem.is_empty() || !crate::object::text(meta, "name").is_empty() {
        return;
    }
    let stem: String = stem.chars().take(58).collect();
    let name = loop {
        let name = format!("{stem}{}", suffix());
        if store.get(kind.collection, &key(namespace, &name)).is_none() {
            break name;
        }
    };
    meta.insert("name".to_owned(), name.into());
}

fn suffix() -> String {
    let random = Uuid::new_v4();
    random.as_bytes()[..5]
        .iter()
        .map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()]))
        .collect()
}

/// Reviews are answered, not stored: everything is allowed here (see FIDELITY.md).
fn review(kind: &Kind, mut body: Body) -> Answer {
    let status = match kind.kind.as_str() {
        "TokenReview" => serde_json::json!({"user": {}, "error": "not implemented by this server"}),
        "SelfSubjectReview" => serde_json::json!({
            "userInfo": {"username": "admin", "groups": ["system:masters", "system:authenticated"]}
        }),
        "SelfSubjectRulesReview" => serde_json::json!({
            "incomplete": false,
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        }),
        _ => serde_json::json!({"allowed": true, "reason": "everything is allowed"}),
    };
    body.insert("apiVersion".to_owned(), kind.api_version().into());
    body.insert("kind".to_owned(), kind.kind.as_str().into());
    body.insert("status".to_owned(), status);
    Answer::json(201, &Value::Object(body))
}
