//! Server-side apply as a request: checks the applied configuration, merges it, and stores the result like any other change.
//!
//! Guarantees the refusals of the real server, which reports mistakes in an applied configuration as internal errors.
//! Must not depend on how objects are merged.

use serde_json::Value;

use super::create::{Birth, create_body, place, shaped};
use super::{Answer, Part, Target, update};
use crate::call::{UnknownFields, go, unmarshal_errors};
use crate::convert::{self, Sight};
use crate::kind::shape;
use crate::managed::apply::{self, Application, Applied, LAST_APPLIED, Stop};
use crate::managed::merge::{Flaw, flaws};
use crate::managed::outline::Outline;
use crate::managed::{Author, Failure, Managed};
use crate::object::{
    Body, MANAGED, Stored, at_path, map_mut, meta_text, metadata, metadata_mut, text,
};
use crate::rules;
use crate::schema;
use crate::status::{Cause, Refusal};
use crate::store::Store;
use crate::write;

/// The media type of an applied configuration.
pub(crate) const APPLY: &str = "application/apply-patch+yaml";

pub(crate) fn apply(store: &mut Store, target: &Target<'_>) -> Result<Answer, Refusal> {
    let kind = &target.kind;
    let dry_run = target.call.dry_run()?;
    check_manager(target)?;
    if target.part == Part::Scale {
        return super::apply_scale::apply(store, target, dry_run);
    }
    let author = target.author(store)?;
    let config = config(target)?;
    let old = target.found(store)?;
    if old.is_none() && target.part != Part::Main {
        return Err(Refusal::not_found(kind.subject(target.name())));
    }
    let empty = kind.empty();
    let live = old
        .as_ref()
        .map_or_else(|| empty.clone(), |old| shape::of_version(kind, old.body()));
    let unmanaged = Managed::default();
    check_shapes(target, old.as_deref(), &live, &config)?;
    let application = Application {
        author: &author,
        live: &live,
        exists: old.is_some(),
        empty: &empty,
        managed: old.as_ref().map_or(&unmanaged, |old| &old.kept.managed),
        config: &config,
    };
    let versions = &mut Sight { kind, store };
    let applied = application
        .apply(versions, target.call.switch("force"))
        .map_err(refused)?;
    let Applied { body, managed } = applied;
    let repeated = repeated(target)?;
    let stored = store_applied(
        store,
        target,
        &author,
        (&config, body),
        managed,
        old.as_deref(),
    );
    let mut answer = stored.map_err(|refusal| refusal.warned_first(&repeated))?;
    answer.warnings.splice(0..0, repeated);
    Ok(answer)
}

/// Stores the merged object.
fn store_applied(
    store: &mut Store,
    target: &Target<'_>,
    author: &Author,
    (config, body): (&Body, Body),
    managed: Managed,
    old: Option<&Stored>,
) -> Result<Answer, Refusal> {
    let kind = &target.kind;
    let dry_run = target.call.dry_run()?;
    let body = decoded(target, author, config, (body, old.is_none()))?;
    let warnings = target.worth_a_word(old, &body);
    let Some(old) = old else {
        target.check_escalation(store, None, &body)?;
        let warnings = [rules::warnings(kind, &body, &[]), warnings].concat();
        let birth = Birth {
            kind,
            namespace: target.namespace(),
            author,
            managed: Some(managed),
            upserted: true,
            dry_run,
        };
        let stored = create_body(store, &birth, body).map_err(|refusal| {
            let told = Some(&warnings).filter(|_| refusal.is_late());
            refusal.warned(told.map_or(&[], Vec::as_slice))
        })?;
        let mut answer = Answer::object(201, store, target, &stored);
        answer.changed = !dry_run;
        answer.warnings = warnings;
        return Ok(answer);
    };
    write::check_revision(kind, old, &body)?;
    let change = write::Change {
        kind,
        part: target.part,
        author,
        managed: Some(managed),
        dry_run,
    };
    let mut answer = update::store_change(store, target, change, old, body)?;
    answer.warnings.extend(warnings);
    Ok(answer)
}

/// Turns a failed merge into a refusal.
pub(super) fn refused(stop: Stop) -> Refusal {
    match stop {
        Stop::Conflicts(found) => Refusal::apply_conflict(&apply::told(&found), &found),
        Stop::Failed(Failure::Wrong(why)) => Refusal::internal(why),
        Stop::Failed(Failure::Missing | Failure::Unasked) => convert::unasked(),
    }
}

fn check_manager(target: &Target<'_>) -> Result<(), Refusal> {
    if !target.call.param("fieldManager").is_empty() {
        return Ok(());
    }
    let why = "is required for apply patch";
    let cause = Cause::required("fieldManager", why);
    Err(target.call.bad_options(&[cause]))
}

/// Returns the warnings about fields that the configuration sets twice, or a refusal if the request asks for strict validation.
pub(super) fn repeated(target: &Target<'_>) -> Result<Vec<String>, Refusal> {
    let judgement = target.call.unknown_fields()?;
    if judgement == UnknownFields::Ignore {
        return Ok(Vec::new());
    }
    // Most configurations are JSON; this check is cheaper than parsing them as YAML.
    let noted = go::parse_noting(&target.call.body);
    if noted.is_ok_and(|(_, twice)| twice.is_empty()) {
        return Ok(Vec::new());
    }
    let (_, lines) = target.call.yaml()?;
    if judgement == UnknownFields::Refuse && !lines.is_empty() {
        let told = unmarshal_errors(&lines);
        return Err(Refusal::bad_request(format!(
            "error strict decoding YAML: error converting YAML to JSON: {told}"
        )));
    }
    Ok(lines)
}

/// Checks the merged object as any other body is checked.
fn decoded(
    target: &Target<'_>,
    author: &Author,
    config: &Body,
    (mut body, new): (Body, bool),
) -> Result<Body, Refusal> {
    let kind = &target.kind;
    body.insert("apiVersion".to_owned(), kind.api_version().into());
    body.insert("kind".to_owned(), kind.kind.as_str().into());
    if author.manager == "kubectl" {
        note_last_applied(&mut body, config);
    }
    let body = shape::from_stored(kind, body);
    let mut body = if let Some(schema) = &kind.schema {
        // Custom objects are neither pruned nor freed of nulls here, so that later checks report mistakes.
        let mut body = shape::to_stored(kind, body);
        rules::check_types(kind, &body).map_err(Refusal::internal)?;
        rules::tidy(&mut body);
        schema::complete(schema, &mut body);
        body
    } else {
        // The merge has already refused undeclared fields.
        let shaped = shaped(kind, body);
        shaped.map_err(|why| inconvertible(target, config, &why))?.0
    };
    let uid = meta_text(&body, "uid");
    if new && !uid.is_empty() {
        let why = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        return Err(Refusal::conflict(kind.subject(target.name()), &why));
    }
    update::check_name(&body, target.name())?;
    place(kind, target.namespace(), &mut body)?;
    Ok(body)
}

/// Returns the refusal of a configuration for a built-in kind that Go could not decode into the kind's type.
fn inconvertible(target: &Target<'_>, config: &Body, why: &str) -> Refusal {
    let version = target.kind.api_version();
    let slash = if version.contains('/') { "" } else { "/" };
    let of = format!("{slash}{version}, Kind={}", target.kind.kind);
    let (namespace, name) = (meta_text(config, "namespace"), meta_text(config, "name"));
    let start = if why.starts_with("illegal base64") {
        "error decoding from json: "
    } else {
        ""
    };
    Refusal::internal(format!(
        "failed to convert new object ({namespace}/{name}; {of}) to proper version: unable to convert unstructured object to {of}: {start}{why}"
    ))
}

/// The schema, API version and kind that an applied configuration must have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Typed<'a> {
    pub(super) outline: Outline<'a>,
    pub(super) api_version: &'a str,
    pub(super) kind: &'a str,
}

/// Returns the applied configuration in the stored shape, without `apiVersion` and `kind`.
fn config(target: &Target<'_>) -> Result<Body, Refusal> {
    let kind = &target.kind;
    let typed = Typed {
        outline: kind.outline(),
        api_version: &kind.api_version(),
        kind: &kind.kind,
    };
    let config = config_of(target, typed)?;
    let mut config = shape::to_stored(kind, config);
    config.retain(|field, _| !matches!(field.as_str(), "apiVersion" | "kind"));
    // The real server converts through YAML, which turns 1.0 into 1.
    config.values_mut().for_each(schema::whole_numbers);
    Ok(config)
}

/// Parses the applied configuration and checks its `apiVersion` and `kind`.
pub(super) fn config_of(target: &Target<'_>, typed: Typed<'_>) -> Result<Body, Refusal> {
    let parsed = match serde_json::from_slice(&target.call.body) {
        Ok(json) => json,
        Err(_) => target.call.yaml()?.0,
    };
    let config = match parsed {
        Value::Object(config) => config,
        Value::Null => Body::new(),
        other => return Err(no_map(&other)),
    };
    let version = text(&config, "apiVersion");
    if version != typed.api_version || text(&config, "kind") != typed.kind {
        let slash = if version.contains('/') { "" } else { "/" };
        let word = text(&config, "kind");
        return Err(Refusal::bad_request(format!(
            "invalid object type: {slash}{version}, Kind={word}"
        )));
    }
    if metadata(&config).is_some_and(|meta| meta.contains_key(MANAGED)) {
        return Err(Refusal::bad_request("metadata.managedFields must be nil"));
    }
    Ok(config)
}

/// Returns the refusal of a configuration that is not a map.
fn no_map(value: &Value) -> Refusal {
    let word = match value {
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        _ => "number",
    };
    Refusal::bad_request(format!(
        "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {word} into Go value of type \
         map[string]interface {{}}"
    ))
}

/// The step of an apply that reads an object by its type; the real server names it in its error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// Determines the managers of fields that have none yet.
    Before,
    /// Reads the applied configuration.
    Config,
    /// Reads the live object.
    Live,
}

/// Refuses a configuration or a live object that does not match its schema. A stored custom object can mismatch because its
/// definition may have changed since it was written.
fn check_shapes(
    target: &Target<'_>,
    old: Option<&Stored>,
    live: &Body,
    config: &Body,
) -> Result<(), Refusal> {
    let typed = Typed {
        outline: target.kind.outline(),
        api_version: &target.kind.api_version(),
        kind: &target.kind.kind,
    };
    let old = old.filter(|_| target.kind.schema.is_some());
    if old.is_some_and(|old| old.kept.managed.entries.is_empty()) {
        check_shape(typed, live, Read::Before)?;
    }
    check_shape(typed, config, Read::Config)?;
    if old.is_some() {
        check_shape(typed, live, Read::Live)?;
    }
    Ok(())
}

/// Refuses an object that does not match its schema, with an internal error like the real server's.
pub(super) fn check_shape(typed: Typed<'_>, body: &Body, attempt: Read) -> Result<(), Refusal> {
    let found = flaws(typed.outline, body, attempt != Read::Config);
    let lines: Vec<String> = found.iter().map(Flaw::told).collect();
    let told = match lines.as_slice() {
        [] => return Ok(()),
        [one] => one.clone(),
        many => format!("errors:\n  {}", many.join("\n  ")),
    };
    let version = typed.api_version;
    let slash = if version.contains('/') { "" } else { "/" };
    let subject = format!(
        "({}/{}; {slash}{version}, Kind={})",
        meta_text(body, "namespace"),
        meta_text(body, "name"),
        typed.kind
    );
    Err(Refusal::internal(match attempt {
        Read::Before => format!(
            "failed to create manager for existing fields: failed to convert new object {subject} to smd typed: {told}"
        ),
        Read::Config => format!("failed to create typed patch object {subject}: {told}"),
        Read::Live => format!("failed to create typed live object {subject}: {told}"),
    }))
}

/// Updates kubectl's last-applied annotation, if the object has one, because client-side applies still read it.
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
