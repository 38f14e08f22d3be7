//! Server-side apply as a request: what is applied is checked, merged, and stored as any other change is.
//!
//! Promise: refusals are the real server's, whose mistakes in an applied object are internal errors. Must not know how
//! objects are merged.

use serde_json::Value;

use super::create::{Birth, create_body, place, shaped};
use super::{Answer, Part, Target, update};
use crate::kind::shape;
use crate::managed::apply::{self, Application, Applied, LAST_APPLIED};
use crate::managed::merge::{Flaw, flaws};
use crate::managed::{Author, Managed};
use crate::object::{Body, MANAGED, at_path, map_mut, meta_text, metadata, metadata_mut, text};
use crate::status::{Cause, Refusal};
use crate::store::Store;
use crate::write;

/// The media type of what is applied.
pub(crate) const APPLY: &str = "application/apply-patch+yaml";

pub(crate) fn apply(store: &mut Store, target: &Target<'_>) -> Result<Answer, Refusal> {
    let kind = &target.kind;
    let dry_run = target.call.dry_run()?;
    if target.call.param("fieldManager").is_empty() {
        let why = "is required for apply patch";
        return Err(target
            .call
            .bad_options(&[Cause::required("fieldManager", why)]));
    }
    let author = target.author(store)?;
    let config = config(target)?;
    let old = store.get(kind.collection, &target.key());
    if old.is_none() && target.part != Part::Main {
        return Err(Refusal::not_found(kind.subject(target.name())));
    }
    let empty = kind.empty();
    let live = old.as_ref().map_or_else(|| empty.clone(), |old| old.body());
    let unmanaged = Managed::default();
    let application = Application {
        outline: kind.outline(),
        author: &author,
        live: &live,
        exists: old.is_some(),
        empty: &empty,
        managed: old.as_ref().map_or(&unmanaged, |old| &old.kept.managed),
        config: &config,
    };
    let applied = application
        .apply(target.call.switch("force"))
        .map_err(|conflicts| Refusal::apply_conflict(&apply::told(&conflicts), &conflicts))?;
    let Applied { body, managed } = applied;
    let body = decoded(target, &author, &config, body)?;
    let Some(old) = old else {
        let birth = Birth {
            kind,
            namespace: target.namespace(),
            author: &author,
            managed: Some(managed),
            dry_run,
        };
        let stored = create_body(store, &birth, body)?;
        let mut answer = Answer::object(201, store, target, &stored);
        answer.changed = !dry_run;
        return Ok(answer);
    };
    write::check_revision(kind, &old, &body)?;
    let change = write::Change {
        kind,
        part: target.part,
        author: &author,
        managed: Some(managed),
        dry_run,
    };
    update::store_change(store, target, change, &old, body)
}

/// What came of applying, checked as any body is.
fn decoded(
    target: &Target<'_>,
    author: &Author,
    config: &Body,
    mut body: Body,
) -> Result<Body, Refusal> {
    let kind = &target.kind;
    body.insert("apiVersion".to_owned(), kind.api_version().into());
    body.insert("kind".to_owned(), kind.kind.as_str().into());
    if author.manager == "kubectl" {
        note_last_applied(&mut body, config);
    }
    let shaped = shaped(kind, shape::from_stored(kind, body));
    // Fields that are not declared were refused before.
    let (mut body, _undeclared) = shaped.map_err(Refusal::internal)?;
    if meta_text(&body, "name").is_empty() {
        metadata_mut(&mut body).insert("name".to_owned(), target.name().into());
    }
    update::check_name(&body, target.name())?;
    place(kind, target.namespace(), &mut body)?;
    Ok(body)
}

/// What is applied, in the form objects are stored in.
fn config(target: &Target<'_>) -> Result<Body, Refusal> {
    let kind = &target.kind;
    let parsed = match serde_json::from_slice(&target.call.body) {
        Ok(json) => json,
        Err(_) => target.call.yaml()?,
    };
    let Value::Object(config) = parsed else {
        return Err(Refusal::bad_request("error decoding YAML: no object"));
    };
    let version = text(&config, "apiVersion");
    if version != kind.api_version() || text(&config, "kind") != kind.kind {
        let slash = if version.contains('/') { "" } else { "/" };
        let word = text(&config, "kind");
        return Err(Refusal::bad_request(format!(
            "invalid object type: {slash}{version}, Kind={word}"
        )));
    }
    if metadata(&config).is_some_and(|meta| meta.contains_key(MANAGED)) {
        return Err(Refusal::bad_request("metadata.managedFields must be nil"));
    }
    let config = shape::to_stored(kind, config);
    let mut parts = config.clone();
    parts.retain(|field, _| !matches!(field.as_str(), "apiVersion" | "kind"));
    let found = flaws(kind.outline(), &parts);
    if found.is_empty() {
        return Ok(parts);
    }
    Err(flawed(target, &config, &found))
}

fn flawed(target: &Target<'_>, config: &Body, found: &[Flaw]) -> Refusal {
    let lines: Vec<String> = found
        .iter()
        .map(|flaw| match flaw.place.as_str() {
            "" => flaw.why.clone(),
            place => format!("{place}: {}", flaw.why),
        })
        .collect();
    let told = match lines.as_slice() {
        [one] => one.clone(),
        many => format!("errors:\n  {}", many.join("\n  ")),
    };
    let version = target.kind.api_version();
    let slash = if version.contains('/') { "" } else { "/" };
    Refusal::internal(format!(
        "failed to create typed patch object ({}/{}; {slash}{version}, Kind={}): {told}",
        meta_text(config, "namespace"),
        meta_text(config, "name"),
        target.kind.kind
    ))
}

/// kubectl's own annotation goes along with what kubectl applies.
fn note_last_applied(body: &mut Body, config: &Body) {
    let annotations = at_path(body, ".metadata.annotations");
    if annotations.is_none_or(|all| all.get(LAST_APPLIED).is_none()) {
        return;
    }
    let mut whole = config.clone();
    for field in ["apiVersion", "kind"] {
        if let Some(value) = body.get(field) {
            whole.insert(field.to_owned(), value.clone());
        }
    }
    let text = format!("{}\n", Value::Object(whole));
    map_mut(metadata_mut(body), "annotations").insert(LAST_APPLIED.to_owned(), text.into());
}
