//! `update`: an object replaced, or its status, or its scale.
//!
//! Promise: a stale resourceVersion is refused before anything else is looked at. Must not know the rules of metadata.

use serde_json::{Value, json};

use super::create::{Birth, create_body, decode, place};
use super::{Answer, Part, Target};
use crate::call::Wanted;
use crate::kind::Kind;
use crate::object::{Body, Stored, at_path, meta_text, metadata, metadata_mut, set_path};
use crate::rules;
use crate::status::{Cause, Refusal};
use crate::store::Store;
use crate::write;

pub(crate) fn update(store: &mut Store, target: &Target<'_>) -> Result<Answer, Refusal> {
    let dry_run = target.call.dry_run()?;
    if target.part == Part::Scale {
        let wanted = Wanted {
            kind: "Scale",
            ..target.wanted("autoscaling/v1")
        };
        let scale = target.call.object(wanted)?.body;
        let old = target.stored(store)?;
        return rescale(store, target, &old, &scale, dry_run);
    }
    let api_version = target.kind.api_version();
    let document = target.call.object(target.wanted(&api_version))?;
    let (mut body, warnings) = decode(store, target, document)?;
    check_name(&body, target.name())?;
    place(&target.kind, target.namespace(), &mut body)?;
    let Some(old) = store.get(target.kind.collection, &target.key()) else {
        if !target.kind.traits.create_on_update || target.part != Part::Main {
            return Err(Refusal::not_found(target.kind.subject(target.name())));
        }
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
        return Ok(answer);
    };
    check_uid(target, &old, &body)?;
    write::check_revision(&target.kind, &old, &body)?;
    let mut answer = replace(store, target, &old, body, dry_run)?;
    answer.warnings.extend(warnings);
    Ok(answer)
}

/// Replace an object whose preconditions hold.
pub(crate) fn replace(
    store: &mut Store,
    target: &Target<'_>,
    old: &Stored,
    body: Body,
    dry_run: bool,
) -> Result<Answer, Refusal> {
    let author = target.author(store)?;
    let change = write::Change {
        kind: &target.kind,
        part: target.part,
        author: &author,
        managed: None,
        dry_run,
    };
    store_change(store, target, change, old, body)
}

/// Store a change and answer with what came of it.
pub(crate) fn store_change(
    store: &mut Store,
    target: &Target<'_>,
    change: write::Change<'_>,
    old: &Stored,
    body: Body,
) -> Result<Answer, Refusal> {
    let warnings = rules::warnings(&body);
    let written = write::replace(store, change, old, body)?;
    let mut answer = Answer::object(200, store, target, &written.stored);
    answer.changed = written.changed;
    answer.warnings = warnings;
    Ok(answer)
}

pub(crate) fn check_name(body: &Body, name: &str) -> Result<(), Refusal> {
    match meta_text(body, "name") {
        "" => Err(Refusal::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        ))),
        found if found == name => Ok(()),
        found => Err(Refusal::bad_request(format!(
            "the name of the object ({found}) does not match the name on the URL ({name})"
        ))),
    }
}

fn check_uid(target: &Target<'_>, old: &Stored, body: &Body) -> Result<(), Refusal> {
    let given = meta_text(body, "uid");
    if given.is_empty() || given == old.slim.uid {
        return Ok(());
    }
    let resource = &target.kind.subject("");
    let place = if target.kind.traits.builtin {
        resource.word.to_owned()
    } else {
        format!("{}/{}", resource.group, resource.word)
    };
    Err(Refusal::conflict(
        target.kind.subject(&old.slim.name),
        &format!(
            "StorageError: invalid object, Code: 4, Key: /registry/{place}/{}, ResourceVersion: 0, \
             AdditionalErrorMsg: Precondition failed: UID in precondition: {given}, UID in object meta: {}",
            target.key(),
            old.slim.uid
        ),
    ))
}

/// The `Scale` of an object.
pub(crate) fn scale_of(kind: &Kind, stored: &Stored) -> Value {
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
    if let Some(replicas) = number(&scale.spec) {
        answer["spec"]["replicas"] = replicas.into();
    }
    let selector = scale.selector.as_deref();
    if let Some(Value::String(text)) = selector.and_then(|path| at_path(&body, path)) {
        answer["status"]["selector"] = text.as_str().into();
    } else if kind.traits.builtin {
        answer["status"]["selector"] = pod_selector(&body).into();
    }
    answer
}

/// The label selector of a workload, as text.
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

/// Write the wanted replicas of a `Scale` into its object.
pub(crate) fn rescale(
    store: &mut Store,
    target: &Target<'_>,
    old: &Stored,
    scale: &Body,
    dry_run: bool,
) -> Result<Answer, Refusal> {
    let Some(paths) = &target.kind.scale else {
        return Err(Refusal::no_resource());
    };
    let given = meta_text(scale, "resourceVersion");
    if !given.is_empty() && given != old.slim.revision.to_string() {
        return Err(Refusal::stale(target.kind.subject(target.name())));
    }
    let mut body = old.body();
    let asked = at_path(scale, ".spec.replicas").and_then(Value::as_i64);
    if let Some(asked) = asked.filter(|asked| *asked < 0 && !target.kind.traits.builtin) {
        let cause = Cause::invalid(
            paths.spec.as_str(),
            &asked.into(),
            "should be a non-negative integer",
        );
        let subject = target.kind.subject_by_kind(target.name());
        return Err(Refusal::invalid(subject, &[cause]));
    }
    let replicas = at_path(scale, ".spec.replicas")
        .cloned()
        .unwrap_or_else(|| 0.into());
    set_path(&mut body, &paths.spec, replicas);
    metadata_mut(&mut body).remove("resourceVersion");
    replace(store, target, old, body, dry_run)
}
