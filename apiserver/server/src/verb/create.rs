//! `create`: stores a new object under a given or a generated name.
//!
//! Guarantees that clients cannot set the metadata that the server owns. Must not depend on kinds beyond their traits.

use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;

use super::{Answer, Part, Target, pods};
use crate::access::{self, review};
use crate::admission;
use crate::admission::writing::{self, View, Writing};
use crate::call::{Document, go};
use crate::given;
use crate::kind::{Kind, Shape, crd, defaults, shape};
use crate::managed::{self, Author, Kept, Managed, Single};
use crate::object::{
    Body, DEEPEST, MANAGED, Stored, is_deeper, map_mut, meta_text, metadata, metadata_mut, text,
};
use crate::rules;
use crate::schema;
use crate::status::Refusal;
use crate::store::{Store, key};
use crate::typed;
use crate::valid;
use crate::write::{self, Settled};

/// The characters of the random suffix of generated names.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

pub(crate) fn create(store: &mut Store, target: &Target<'_>) -> Result<Answer, Refusal> {
    if target.kind.is_core("bindings") {
        return pods::bind(store, target);
    }
    let dry_run = target.call.dry_run()?;
    let review = review::of(target);
    let target = review.as_ref().unwrap_or(target);
    let api_version = target.kind.api_version();
    let document = target.call.object(target.wanted(&api_version))?;
    let (mut body, mut warnings) = decode(store, target, document)?;
    if target.kind.subresources().contains(&"approval") {
        name_asker(target, &mut body);
    }
    if review.is_some() {
        let answered = review::answer(store, target, body);
        let mut answer = answered.map_err(|refusal| refusal.warned(&warnings))?;
        answer.warnings = warnings;
        return Ok(answer);
    }
    warnings.extend(rules::unite_owners(&mut body, false));
    let also = [
        rules::warnings(&target.kind, &body, &[]),
        target.worth_a_word(None, &body),
    ]
    .concat();
    let created = create_decoded(store, target, body, dry_run);
    let stored = created.map_err(|refusal| {
        // Warnings about the object are due only if the refusal came after the object itself was validated.
        let also = Some(&also).filter(|_| refusal.is_late());
        refusal.warned(&[warnings.clone(), also.cloned().unwrap_or_default()].concat())
    })?;
    warnings.extend(also);
    let mut answer = Answer::object(201, store, target, &stored);
    answer.changed = !dry_run;
    answer.warnings = warnings;
    Ok(answer)
}

fn create_decoded(
    store: &mut Store,
    target: &Target<'_>,
    body: Body,
    dry_run: bool,
) -> Result<Arc<Stored>, Refusal> {
    target.check_escalation(store, None, &body)?;
    let birth = Birth {
        kind: &target.kind,
        namespace: target.namespace(),
        author: &target.author(store)?,
        managed: None,
        upserted: false,
        dry_run,
    };
    create_body(store, &birth, body)
}

/// Replaces the requester in a certificate signing request with the user who sends it.
fn name_asker(target: &Target<'_>, body: &mut Body) {
    let Value::Object(user) = target.call.user.to_json() else {
        return;
    };
    let spec = map_mut(body, "spec");
    for field in ["username", "uid", "groups", "extra"] {
        spec.remove(field);
    }
    spec.extend(user);
}

/// Checks the type of a body and brings it into its stored shape; also returns the warnings.
pub(crate) fn decode(
    store: &Store,
    target: &Target<'_>,
    document: Document,
) -> Result<(Body, Vec<String>), Refusal> {
    let Document { mut body, twice } = document;
    let kind = &target.kind;
    let judgement = target.call.unknown_fields()?;
    check_type(store, target, &mut body)?;
    if write::misnamed(kind, &body).is_some() {
        // A later check refuses this name, after the metadata was validated.
        return Ok((body, Vec::new()));
    }
    let undecodable = |why: String| {
        Refusal::bad_request(format!(
            "{0} in version {1:?} cannot be handled as a {0}: {why}",
            kind.kind, kind.version
        ))
    };
    let (body, unknown) = shaped(kind, body).map_err(undecodable)?;
    let complaints = target.call.complaints(unknown, &twice, kind.traits.builtin);
    let warnings = judgement.judge(complaints).map_err(undecodable)?;
    Ok((body, warnings))
}

/// Returns a body in its stored shape and its unknown fields, or the reason why it cannot be decoded.
pub(crate) fn shaped(kind: &Kind, body: Body) -> Result<(Body, Vec<String>), String> {
    if body.values().any(|value| is_deeper(value, DEEPEST)) {
        return Err(format!("it is nested deeper than {DEEPEST} levels"));
    }
    let Some(known) = kind.typed() else {
        rules::check_types(kind, &body)?;
        let mut body = shape::to_stored(kind, body);
        let mut unknown = rules::tidy(&mut body);
        if let Some(schema) = &kind.schema {
            unknown.extend(schema::shape(schema, &mut body)?);
        }
        return Ok((body, unknown));
    };
    let mut body = body;
    for field in ["apiVersion", "kind"] {
        body.remove(field);
    }
    // Go distinguishes an empty list of managers, which resets them, from an absent one.
    let wish = metadata(&body).and_then(|meta| meta.get(MANAGED));
    let forget = wish
        .filter(|wish| wish.as_array().is_some_and(Vec::is_empty))
        .cloned();
    let (body, unknown) = typed::shape(known, body).map_err(|misfit| misfit.to_string())?;
    let mut body = shape::to_stored(kind, body);
    if let Some(stored) = kind.stored_type().filter(|_| kind.shape != Shape::Stored) {
        body = typed::shape(stored, body)
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
    let known = (version == expected && word == kind.kind)
        || store
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
    let converts = target.part == Part::Token && word != kind.kind;
    if version != expected && !converts {
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
    Ok(())
}

/// How to create an object.
#[derive(Clone, Debug)]
pub(crate) struct Birth<'a> {
    pub(crate) kind: &'a Kind,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) author: &'a Author,
    /// The managed fields, if the caller has computed them already.
    pub(crate) managed: Option<Managed>,
    /// The creation comes from an update or a patch that found no object.
    pub(crate) upserted: bool,
    pub(crate) dry_run: bool,
}

// === impl Birth ===

impl<'a> Birth<'a> {
    fn writing(&self, name: &'a str) -> Writing<'a> {
        Writing {
            kind: self.kind,
            part: Part::Main,
            namespace: self.namespace,
            name,
            operation: "CREATE",
            dry_run: self.dry_run,
        }
    }
}

/// Creates an object from a decoded body.
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
    if crd::is_terminating(store, kind) {
        let why = "create not allowed while custom resource definition is terminating";
        let name = meta_text(&body, "name");
        return Err(Refusal::forbidden(kind.subject(name), why));
    }
    let due = admission::is_due(store, kind);
    let asked = if due {
        Some(ask(store, birth, &mut body)?)
    } else {
        None
    };
    let birth = asked.as_ref().unwrap_or(birth);
    endow(store, birth, &mut body)?;
    let status = take_status(kind, &mut body);
    let kept = track(birth, &mut body, status);
    given::complete(store, kind, None, &mut body, dry_run)?;
    defaults::fill_new(kind, &mut body);
    if kind.is_crd() {
        crd::fill_status(&mut body);
    }
    let name = meta_text(&body, "name").to_owned();
    check(kind, &name, &body)?;
    given::permit(store, kind, None, &body)?;
    if due {
        let view = View {
            body: &body,
            kept: &kept,
        };
        writing::check(store, birth.writing(&name), Some(view), None)?;
    }
    let mut ready = Settled::of(kind, body);
    ready.convert(store, kind, &kept)?;
    if let Some(found) = store.get(kind.collection, &key(namespace, &name)) {
        let generated = !meta_text(&ready.body, "generateName").is_empty();
        let subject = kind.subject(&name);
        let terminating = found.slim.terminating;
        return Err(Refusal::already_exists(subject, terminating, generated));
    }
    Ok(write::create(store, kind, ready, kept, dry_run))
}

/// Refuses a new object that is invalid.
fn check(kind: &Kind, name: &str, body: &Body) -> Result<(), Refusal> {
    if let Some(cause) = write::misnamed(kind, body) {
        let causes = write::other_kind(kind, cause, body, None);
        return Err(write::refused(kind, name, body, &causes));
    }
    let mut causes = [rules::check(kind, body), crd::check(kind, body)].concat();
    causes.extend(access::check::check(kind, body, None));
    causes.extend(admission::check::check(kind, body));
    causes.extend(valid::check_new(kind, body));
    if let Some(schema) = &kind.schema {
        causes.extend(schema::check(schema, body));
        let scale = kind.scale.iter();
        causes.extend(scale.flat_map(|scale| schema::scale::check(scale, body, true)));
        causes.extend(schema::rules::check(schema, body, None, &causes).causes);
    }
    if causes.is_empty() {
        return Ok(());
    }
    Err(write::refused(kind, name, body, &causes))
}

/// Sets the metadata that the server assigns: a name if there is none, the uid and the creation time.
fn endow(store: &mut Store, birth: &Birth<'_>, body: &mut Body) -> Result<(), Refusal> {
    let kind = birth.kind;
    let meta = metadata_mut(body);
    check_revision(birth, meta)?;
    let born = writing::born(store);
    if let Some((_, name)) = born.as_ref().filter(|_| text(meta, "name").is_empty()) {
        meta.insert("name".to_owned(), name.as_str().into());
    }
    name(store, kind, birth.namespace, meta);
    let uid = born.map_or_else(|| Uuid::new_v4().to_string(), |(uid, _)| uid);
    writing::bear(store, &uid, text(meta, "name"));
    // A write that may update or create is allowed to set the deletion timestamp.
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        if !birth.upserted {
            meta.remove(field);
        }
    }
    meta.insert("uid".to_owned(), uid.into());
    meta.insert("creationTimestamp".to_owned(), store.clock.stamp().into());
    if kind.traits.generation {
        meta.insert("generation".to_owned(), 1.into());
    }
    Ok(())
}

/// Refuses a resource version on a new object, except from a write that may update or create.
fn check_revision(birth: &Birth<'_>, meta: &mut Body) -> Result<(), Refusal> {
    let given = text(meta, "resourceVersion");
    let revision = match given {
        "" => Ok(0),
        given => go::parse_uint(given),
    };
    match revision {
        Err(why) if birth.upserted => return Err(Refusal::internal(why)),
        // The real server's storage makes this check, which a dry run does not reach.
        Ok(1..) if !birth.upserted && !birth.dry_run => {
            return Err(Refusal::internal(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        _ => {}
    }
    if !birth.dry_run {
        meta.remove("resourceVersion");
    }
    Ok(())
}

/// Lets webhooks change a new object; its managed fields are those from before the webhooks.
fn ask<'a>(store: &mut Store, birth: &Birth<'a>, body: &mut Body) -> Result<Birth<'a>, Refusal> {
    let status = take_status(birth.kind, body);
    let kept = track(birth, body, status);
    let name = meta_text(body, "name").to_owned();
    writing::change_new(store, birth.writing(&name), body, &kept)?;
    Ok(Birth {
        managed: Some(kept.managed.clone()),
        ..birth.clone()
    })
}

/// Resets the status of a new object; returns the requested status of a custom object.
fn take_status(kind: &Kind, body: &mut Body) -> Option<Value> {
    if !kind.traits.status {
        return None;
    }
    let asked = body.get("status").cloned();
    reset_status(kind, body);
    asked.filter(|_| kind.schema.is_some())
}

/// Sets the defaults and computes the managed fields, which include those of a requested status that is dropped.
fn track(birth: &Birth<'_>, body: &mut Body, status: Option<Value>) -> Arc<Kept> {
    let requested = metadata_mut(body).remove(MANAGED);
    defaults::fill(birth.kind, body);
    if birth.kind.is_crd() {
        crd::fill_names(body);
    }
    let managed = birth.managed.clone().unwrap_or_else(|| {
        let before = requested.as_ref().and_then(Managed::from_json);
        let (outline, empty) = (birth.kind.outline(), birth.kind.empty());
        let before = before.unwrap_or_default();
        let whole = status.map(|status| {
            let mut whole = body.clone();
            whole.insert("status".to_owned(), status);
            whole
        });
        // The spec of a certificate signing request has no managers, because it never changes.
        let fixed = birth.kind.traits.builtin && birth.kind.plural == "certificatesigningrequests";
        let bare = fixed.then(|| {
            let mut bare = body.clone();
            bare.remove("spec");
            bare
        });
        let asked = bare.as_ref().or(whole.as_ref()).unwrap_or(body);
        let versions = &mut Single(outline);
        let managed = managed::update(versions, birth.author, &before, &empty, asked);
        managed.unwrap_or_default()
    });
    Kept::new(managed)
}

/// Resets the status, because a create request cannot set it.
fn reset_status(kind: &Kind, body: &mut Body) {
    if kind.is_core("nodes") {
        // Kubelets report their own status when they create their Node.
        return;
    }
    let empty = kind.typed().and_then(|of| typed::zero_field(of, "status"));
    match empty {
        Some(empty) => body.insert("status".to_owned(), empty),
        None => body.remove("status"),
    };
}

/// Sets the namespace of the path in the body, or refuses a body with a different one.
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

/// Generates a free name if the object has only `generateName`.
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
