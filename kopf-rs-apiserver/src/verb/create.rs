//! `create`: a new object under a given or a generated name.
//!
//! Promise: metadata the server owns is the server's. Must not know what kinds mean beyond their traits.

use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;

use super::{Answer, Target};
use crate::call::Document;
use crate::kind::{Kind, Shape, crd, defaults, shape};
use crate::managed::{self, Author, Kept, Managed};
use crate::object::{Body, MANAGED, Stored, meta_text, metadata, metadata_mut, text};
use crate::rules;
use crate::schema;
use crate::status::{Cause, Refusal};
use crate::store::{Store, key};
use crate::typed;
use crate::write;

/// The letters generated names end in.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

pub(crate) fn create(store: &mut Store, target: &Target<'_>) -> Result<Answer, Refusal> {
    let dry_run = target.call.dry_run()?;
    let api_version = target.kind.api_version();
    let document = target.call.object(target.wanted(&api_version))?;
    if target.kind.traits.review {
        return Ok(review(&target.kind, document.body));
    }
    let (body, mut warnings) = decode(store, target, document)?;
    warnings.extend(rules::warnings(&body));
    let birth = Birth {
        kind: &target.kind,
        namespace: target.namespace(),
        author: &target.author(store)?,
        managed: None,
        dry_run,
    };
    let stored = create_body(store, &birth, body)?;
    let mut answer = Answer::object(201, store, target, &stored);
    answer.changed = !dry_run;
    answer.warnings = warnings;
    Ok(answer)
}

/// Check the type of a body and bring it into its stored shape, with the warnings that are due.
pub(crate) fn decode(
    store: &Store,
    target: &Target<'_>,
    document: Document,
) -> Result<(Body, Vec<String>), Refusal> {
    let Document { mut body, twice } = document;
    let kind = &target.kind;
    let judgement = target.call.unknown_fields()?;
    check_type(store, target, &mut body)?;
    let undecodable = |why: String| {
        Refusal::bad_request(format!(
            "{0} in version {1:?} cannot be handled as a {0}: {why}",
            kind.kind, kind.version
        ))
    };
    let (body, unknown) = shaped(kind, body).map_err(undecodable)?;
    let complaints = target.call.complaints(unknown, &twice);
    let warnings = judgement.judge(complaints).map_err(undecodable)?;
    Ok((body, warnings))
}

/// A body in its stored shape, and the fields that nobody knew; or why it cannot be decoded.
pub(crate) fn shaped(kind: &Kind, body: Body) -> Result<(Body, Vec<String>), String> {
    let Some(known) = kind.typed() else {
        rules::check_types(kind, &body)?;
        let mut body = shape::to_stored(kind, body);
        let mut unknown = rules::tidy(&mut body);
        if let Some(schema) = &kind.schema {
            unknown.extend(schema::shape(schema, &mut body));
        }
        return Ok((body, unknown));
    };
    let mut body = body;
    for field in ["apiVersion", "kind"] {
        body.remove(field);
    }
    // Go tells an empty list of managers from none, and means something by it.
    let wish = metadata(&body).and_then(|meta| meta.get(MANAGED));
    let forget = wish
        .filter(|wish| wish.as_array().is_some_and(Vec::is_empty))
        .cloned();
    let (body, unknown) = typed::shape(known, body).map_err(|misfit| misfit.to_string())?;
    let mut body = shape::to_stored(kind, body);
    if let Some(core) = typed::of_kind("v1", "Event").filter(|_| kind.shape == Shape::NewEvent) {
        body = typed::shape(core, body)
            .map_err(|misfit| misfit.to_string())?
            .0;
    }
    if let Some(forget) = forget {
        metadata_mut(&mut body).insert(MANAGED.to_owned(), forget);
    }
    let _told_already = rules::tidy(&mut body);
    Ok((body, unknown))
}

fn check_type(store: &Store, target: &Target<'_>, body: &mut Body) -> Result<(), Refusal> {
    let kind = &target.kind;
    let expected = kind.api_version();
    for (field, wanted) in [("apiVersion", expected.as_str()), ("kind", &kind.kind)] {
        if text(body, field).is_empty() && kind.traits.builtin {
            body.insert(field.to_owned(), wanted.into());
        }
    }
    let (version, word) = (text(body, "apiVersion"), text(body, "kind"));
    if word.is_empty() {
        let sent = String::from_utf8_lossy(&target.call.body);
        return Err(target
            .call
            .unrecognised(&kind.kind, &format!("Object 'Kind' is missing in '{sent}'")));
    }
    let known = store
        .kinds
        .iter()
        .any(|found| found.kind == word && found.api_version() == version);
    if kind.traits.builtin && !known {
        return Err(Refusal::bad_request(format!(
            "{word} in version {:?} cannot be handled as a {}: no kind {word:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\"",
            version.rsplit('/').next().unwrap_or_default(),
            kind.kind,
        )));
    }
    if version != expected {
        return Err(Refusal::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({expected})"
        )));
    }
    if word == kind.kind {
        return Ok(());
    }
    if kind.traits.builtin {
        return Err(Refusal::bad_request(format!(
            "{word} in version {:?} cannot be handled as a {}: converting ({}.{word}) to ({}.{}): unknown conversion",
            kind.version,
            kind.kind,
            kind.version,
            kind.group
                .split('.')
                .next()
                .filter(|group| !group.is_empty())
                .unwrap_or("core"),
            kind.kind
        )));
    }
    let mut subject = kind.subject(meta_text(body, "name"));
    subject.word = word;
    let cause = Cause::invalid("kind", &word.into(), &format!("must be {}", kind.kind));
    Err(Refusal::invalid(subject, &[cause]))
}

/// How an object comes to be.
#[derive(Clone, Debug)]
pub(crate) struct Birth<'a> {
    pub(crate) kind: &'a Kind,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) author: &'a Author,
    /// Who manages what, where that is known.
    pub(crate) managed: Option<Managed>,
    pub(crate) dry_run: bool,
}

/// Create an object from a decoded body.
pub(crate) fn create_body(
    store: &mut Store,
    birth: &Birth<'_>,
    mut body: Body,
) -> Result<Arc<Stored>, Refusal> {
    let Birth {
        kind,
        namespace,
        dry_run,
        ..
    } = *birth;
    place(kind, namespace, &mut body)?;
    check_namespace(store, kind, namespace, meta_text(&body, "name"))?;
    let meta = metadata_mut(&mut body);
    // The real store would notice, and a dry run does not come so far.
    if !dry_run && !text(meta, "resourceVersion").is_empty() {
        return Err(Refusal::internal(
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
        reset_status(kind, &mut body);
    }
    let kept = track(birth, &mut body);
    defaults::fill_new(kind, &mut body);
    if kind.is_crd() {
        crd::fill_status(&mut body);
    }
    let name = meta_text(&body, "name").to_owned();
    let mut causes = [rules::check(kind, &body), crd::check(kind, &body)].concat();
    if let Some(schema) = &kind.schema {
        causes.extend(schema::check(schema, &body));
        causes.extend(schema::rules::check(schema, &body, None, &causes));
    }
    if !causes.is_empty() {
        return Err(Refusal::invalid(kind.subject_by_kind(&name), &causes));
    }
    if let Some(found) = store.get(kind.collection, &key(namespace, &name)) {
        let subject = kind.subject(&name);
        return Err(Refusal::already_exists(subject, found.slim.terminating));
    }
    Ok(write::create(store, kind, body, kept, dry_run))
}

/// Complete a new object with what counts as its author's, and note that.
fn track(birth: &Birth<'_>, body: &mut Body) -> Arc<Kept> {
    let requested = metadata_mut(body).remove(MANAGED);
    defaults::fill(birth.kind, body);
    if birth.kind.is_crd() {
        crd::fill_names(body);
    }
    let managed = birth.managed.clone().unwrap_or_else(|| {
        let before = requested.as_ref().and_then(Managed::from_json);
        let (outline, empty) = (birth.kind.outline(), birth.kind.empty());
        managed::update(
            outline,
            birth.author,
            &before.unwrap_or_default(),
            &empty,
            body,
        )
    });
    Kept::new(managed)
}

/// The status of a new object is nobody's to say.
fn reset_status(kind: &Kind, body: &mut Body) {
    let empty = kind.typed().and_then(|of| typed::zero_field(of, "status"));
    match empty {
        Some(empty) => body.insert("status".to_owned(), empty),
        None => body.remove("status"),
    };
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
    let stem = text(meta, "generateName");
    if stem.is_empty() || !text(meta, "name").is_empty() {
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
