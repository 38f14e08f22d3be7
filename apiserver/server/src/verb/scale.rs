//! The `scale` subresource: the replica count of an object, in one format for all kinds.
//!
//! Guarantees that a write changes nothing but the desired replica count. Must not depend on schemas.

use serde_json::{Map, Value, json};

use super::create::place;
use super::{Answer, Target, pods, update};
use crate::call::{Document, Wanted};
use crate::kind::Kind;
use crate::managed::Managed;
use crate::object::{Body, Stored, at_path, meta_text, metadata, metadata_mut, set_path};
use crate::schema::scale::leaf;
use crate::status::{Cause, Refusal};
use crate::store::Store;
use crate::typed;
use crate::valid;
use crate::write::Change;

/// Stands in a patched scale for a missing replica count.
const NONE: i64 = -2_147_483_648;

/// Refuses access to the scale of a custom object that lacks a replica count.
pub(super) fn check(kind: &Kind, stored: &Stored) -> Result<(), Refusal> {
    let Some(paths) = kind.scale.as_ref().filter(|_| !kind.traits.builtin) else {
        return Ok(());
    };
    let body = stored.body();
    let found = readable(kind, &body)?;
    if found {
        return Ok(());
    }
    let why = format!("the spec replicas field {:?} does not exist", paths.spec);
    Err(Refusal::internal_error(&why))
}

/// Returns whether the desired replica count exists; refuses fields of the wrong type.
fn readable(kind: &Kind, body: &Body) -> Result<bool, Refusal> {
    let Some(paths) = &kind.scale else {
        return Ok(false);
    };
    let found = leaf(body, &paths.spec, "int64", Value::is_i64).map_err(Refusal::internal)?;
    leaf(body, &paths.status, "int64", Value::is_i64).map_err(Refusal::internal)?;
    if let Some(path) = &paths.selector {
        leaf(body, path, "string", Value::is_string).map_err(Refusal::internal)?;
    }
    Ok(found.is_some())
}

/// Returns the `Scale` of an object.
pub(crate) fn of(kind: &Kind, stored: &Stored) -> Value {
    let body = stored.body();
    let Some(scale) = &kind.scale else {
        return Value::Null;
    };
    let number = |path: &str| at_path(&body, path).and_then(Value::as_i64);
    let meta: Body = metadata(&body)
        .into_iter()
        .flatten()
        .filter(|(key, _)| {
            matches!(
                key.as_str(),
                "name" | "namespace" | "uid" | "resourceVersion" | "creationTimestamp"
            )
        })
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let mut answer = json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": meta,
        "spec": {},
        "status": {"replicas": number(&scale.status).unwrap_or_default()},
    });
    // Go omits a zero here.
    if let Some(replicas) = number(&scale.spec).filter(|replicas| *replicas != 0) {
        answer["spec"]["replicas"] = replicas.into();
    }
    let selector = scale.selector.as_deref();
    let selector = selector.and_then(|path| at_path(&body, path));
    if let Some(Value::String(text)) = selector {
        if !text.is_empty() {
            answer["status"]["selector"] = text.as_str().into();
        }
    } else if kind.traits.builtin {
        answer["status"]["selector"] = pod_selector(&body).into();
    }
    answer
}

/// Returns the `Scale` of an object as the base of a patch.
pub(super) fn to_patch(kind: &Kind, stored: &Stored) -> Result<Value, Refusal> {
    let mut scale = of(kind, stored);
    if !kind.traits.builtin && !readable(kind, &stored.body())? {
        scale["spec"]["replicas"] = NONE.into();
    }
    Ok(scale)
}

/// Returns the label selector of a workload, as text.
fn pod_selector(body: &Body) -> String {
    let labels = at_path(body, ".spec.selector.matchLabels")
        .or_else(|| at_path(body, ".spec.selector"))
        .and_then(Value::as_object);
    let pairs: Vec<String> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)))
        .collect();
    pairs.join(",")
}

/// Replaces the scale of an object.
pub(super) fn update(
    store: &mut Store,
    target: &Target<'_>,
    dry_run: bool,
) -> Result<Answer, Refusal> {
    let wanted = Wanted {
        kind: "Scale",
        ..target.wanted("autoscaling/v1")
    };
    let judgement = target.call.unknown_fields()?;
    // The real server's part for custom kinds does not have the type `Scale`, so its error is always the same.
    let custom = (!target.kind.traits.builtin).then_some(
        "no kind is registered for the type v1.Scale in scheme \"pkg/runtime/scheme.go:111\"",
    );
    let bad = |why: String| {
        let told = format!("Scale in version \"v1\" cannot be handled as a Scale: {why}");
        Refusal::bad_request(custom.map_or(told, str::to_owned))
    };
    let Document { body: scale, twice } = match (target.call.object(wanted), custom) {
        (Err(_), Some(_)) => return Err(bad(String::new())),
        (found, _) => found?,
    };
    if target.kind.traits.builtin {
        pods::check_type(store, ("autoscaling/v1", "Scale"), &scale)?;
    }
    let (mut scale, unknown) = shaped(scale).map_err(bad)?;
    let complaints = target.call.complaints(unknown, &twice, true);
    let warnings = judgement.judge(complaints).map_err(bad)?;
    let written = place(&target.kind, target.namespace(), &mut scale)
        .and_then(|()| update::check_name(&scale, target.name()))
        .and_then(|()| target.stored(store))
        .and_then(|old| write(store, target, &old, (&scale, None), dry_run));
    let mut answer = written.map_err(|refusal| refusal.warned_first(&warnings))?;
    answer.warnings.splice(0..0, warnings);
    Ok(answer)
}

/// Stores a patched scale.
pub(super) fn patched(
    store: &mut Store,
    target: &Target<'_>,
    old: &Stored,
    scale: Body,
    dry_run: bool,
) -> Result<Answer, Refusal> {
    let document = written(&scale);
    let bad = |why: String| Refusal::undecodable_text(document.clone(), &why);
    let judgement = target.call.unknown_fields()?;
    let (scale, unknown) = shaped(scale).map_err(bad)?;
    let complaints = target.call.complaints(unknown, &[], true);
    let warnings = judgement.judge(complaints).map_err(bad)?;
    let done = update::check_name(&scale, target.name())
        .and_then(|()| write(store, target, old, (&scale, None), dry_run));
    let mut answer = done.map_err(|refusal| refusal.warned_first(&warnings))?;
    answer.warnings.splice(0..0, warnings);
    Ok(answer)
}

/// Stores an applied scale together with its managed fields.
pub(super) fn applied(
    store: &mut Store,
    target: &Target<'_>,
    old: &Stored,
    (mut scale, managed): (Body, Managed),
    dry_run: bool,
) -> Result<Answer, Refusal> {
    if meta_text(&scale, "name").is_empty() {
        metadata_mut(&mut scale).insert("name".to_owned(), target.name().into());
    }
    update::check_name(&scale, target.name())?;
    let (scale, _declared) = shaped(scale).map_err(Refusal::internal)?;
    write(store, target, old, (&scale, Some(managed)), dry_run)
}

/// Formats a patched scale as the real server prints it: untouched fields in the order of Go's type.
fn written(scale: &Body) -> String {
    let metadata = |meta: &Body| {
        let first = [
            "name",
            "namespace",
            "uid",
            "resourceVersion",
            "creationTimestamp",
        ];
        let known = first
            .iter()
            .filter_map(|name| Some((*name, meta.get(*name)?)));
        let others = meta.iter().map(|(name, value)| (name.as_str(), value));
        let others = others.filter(|(name, _)| !first.contains(name));
        let parts = known
            .chain(others)
            .map(|(name, value)| format!("{name:?}:{value}"));
        format!("{{{}}}", parts.collect::<Vec<String>>().join(","))
    };
    let part = |(name, value): (&String, &Value)| match value {
        Value::Object(meta) if name == "metadata" => format!("{name:?}:{}", metadata(meta)),
        value => format!("{name:?}:{value}"),
    };
    format!(
        "{{{}}}",
        scale.iter().map(part).collect::<Vec<String>>().join(",")
    )
}

/// Returns the type of scales.
pub(super) fn struct_of() -> Option<&'static typed::Struct> {
    typed::of_kind("autoscaling/v1", "Scale")
}

/// Brings a scale into the shape of its type; also returns the unknown fields.
pub(super) fn shaped(mut scale: Map<String, Value>) -> Result<(Body, Vec<String>), String> {
    let Some(of) = struct_of() else {
        return Ok((scale, Vec::new()));
    };
    for name in ["apiVersion", "kind"] {
        scale.remove(name);
    }
    typed::shape(of, scale).map_err(|misfit| misfit.to_string())
}

/// Writes the desired replica count of a scale into its object.
fn write(
    store: &mut Store,
    target: &Target<'_>,
    old: &Stored,
    (scale, managed): (&Body, Option<Managed>),
    dry_run: bool,
) -> Result<Answer, Refusal> {
    let Some(paths) = &target.kind.scale else {
        return Err(Refusal::no_resource());
    };
    update::check_uid(target, &old.slim.uid, meta_text(scale, "uid"))?;
    let given = meta_text(scale, "resourceVersion");
    if !matches!(given, "" | "0") && given != old.slim.revision.to_string() {
        return Err(Refusal::stale(target.kind.subject(target.name())));
    }
    let mut body = old.body();
    if !target.kind.traits.builtin {
        readable(&target.kind, &body)?;
    }
    let replicas = at_path(scale, ".spec.replicas").and_then(Value::as_i64);
    let replicas = replicas.unwrap_or_default();
    if replicas == NONE {
        return Err(Refusal::bad_request(format!(
            "the spec replicas field {:?} cannot be empty",
            paths.spec
        )));
    }
    if replicas < 0 && target.kind.traits.builtin {
        let mut subject = target.kind.subject_by_kind(target.name());
        (subject.group, subject.word) = ("autoscaling", "Scale");
        let why = "must be greater than or equal to 0";
        let cause = Cause::invalid("spec.replicas", &replicas.into(), why);
        return Err(Refusal::invalid(subject, &[cause]));
    }
    set_path(&mut body, &paths.spec, replicas.into());
    metadata_mut(&mut body).remove("resourceVersion");
    let author = target.author(store)?;
    let change = Change {
        kind: &target.kind,
        part: target.part,
        author: &author,
        managed,
        dry_run,
    };
    let told = valid::warnings(&target.kind, Some(&old.body()), &body);
    let mut answer = update::store_change(store, target, change, old, body)?;
    answer.warnings.extend(told);
    Ok(answer)
}
