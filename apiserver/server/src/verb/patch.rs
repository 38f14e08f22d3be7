//! `patch`: changes an object by a JSON patch, a merge patch or a strategic merge patch; server-side apply is in `apply`.
//!
//! Guarantees that a patch applies to the newest state and that a resource version in it is a precondition.
//! Must not depend on the patch algorithms.

use serde_json::Value;

use super::apply::APPLY;
use super::create::{place, shaped};
use super::{Answer, Part, Target, apply, scale, update};
use crate::call::go;
use crate::kind::shape;
use crate::object::{Body, MANAGED, Stored, text};
use crate::patch::strategic::{self, Misguided};
use crate::patch::{self, PatchError};
use crate::rules;
use crate::status::{Cause, Refusal};
use crate::store::Store;
use crate::typed::{self, Struct};
use crate::write;

const JSON: &str = "application/json-patch+json";
/// The fields of a JSON patch operation.
const OPERATION: [&str; 4] = ["op", "path", "from", "value"];
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

pub(crate) fn patch(store: &mut Store, target: &Target<'_>) -> Result<Answer, Refusal> {
    let accepted = accepted(target);
    if !accepted.contains(&target.call.media_type()) {
        return Err(Refusal::unsupported_media(&accepted));
    }
    if target.call.media_type() == APPLY {
        return apply::apply(store, target);
    }
    let dry_run = target.call.dry_run()?;
    if target.call.params("force").next().is_some() {
        let why = "may not be specified for non-apply patch";
        return Err(target.call.bad_options(&[Cause::forbidden("force", why)]));
    }
    let old = target.stored(store)?;
    let Change { twice, value } = change(target)?;
    let (body, warnings) = match (strategy(target), value) {
        (Some(of), Value::Object(change)) if target.part == Part::Scale => {
            let (body, warnings) = strategic(target, &old, of, change, &twice)?;
            let done = scale::patched(store, target, &old, body, dry_run);
            let mut answer = done.map_err(|refusal| refusal.warned_first(&warnings))?;
            answer.warnings.splice(0..0, warnings);
            return Ok(answer);
        }
        (Some(of), Value::Object(change)) => strategic(target, &old, of, change, &twice)?,
        (Some(_), other) => return Err(Refusal::bad_request(no_map(&other))),
        (None, value) => {
            let patched = patched(target, &old, names_managers(target), value)?;
            let Value::Object(body) = patched else {
                return Err(Refusal::bad_request("Invalid JSON Patch"));
            };
            if target.part == Part::Scale {
                return scale::patched(store, target, &old, body, dry_run);
            }
            decode(target, &old, body)?
        }
    };
    let written = patch_decoded(store, target, &old, body, dry_run);
    let mut answer = written.map_err(|refusal| refusal.warned_first(&warnings))?;
    answer.warnings.splice(0..0, warnings);
    Ok(answer)
}

fn patch_decoded(
    store: &mut Store,
    target: &Target<'_>,
    old: &Stored,
    mut body: Body,
    dry_run: bool,
) -> Result<Answer, Refusal> {
    update::check_name(&body, target.name())?;
    place(&target.kind, target.namespace(), &mut body)?;
    write::check_revision(&target.kind, old, &body)?;
    update::replace_telling(store, target, old, body, dry_run)
}

fn accepted(target: &Target<'_>) -> Vec<&'static str> {
    if target.kind.traits.builtin {
        vec![JSON, MERGE, STRATEGIC, APPLY]
    } else {
        vec![JSON, MERGE, APPLY]
    }
}

/// Checks the patched object and brings it into its stored shape.
fn decode(
    target: &Target<'_>,
    old: &Stored,
    mut body: Body,
) -> Result<(Body, Vec<String>), Refusal> {
    let kind = &target.kind;
    // Go takes a missing type of a built-in object from the path.
    for (field, word) in [
        ("apiVersion", kind.api_version()),
        ("kind", kind.kind.clone()),
    ] {
        if kind.traits.builtin && text(&body, field).is_empty() && !body.contains_key(field) {
            body.insert(field.to_owned(), word.into());
        }
    }
    let judgement = target.call.unknown_fields()?;
    // The document in an error message includes the managed fields.
    let document = || {
        let again = change(target).and_then(|change| patched(target, old, true, change.value));
        again.unwrap_or_default()
    };
    let (version, word) = (text(&body, "apiVersion"), text(&body, "kind"));
    if word.is_empty() {
        let why = format!("Object 'Kind' is missing in '{}'", document());
        return Err(Refusal::undecodable_patch(&document(), &why));
    }
    let expected = kind.api_version();
    let mut causes = Vec::new();
    for (field, found, wanted) in [
        ("apiVersion", version, expected.as_str()),
        ("kind", word, &kind.kind),
    ] {
        if found != wanted {
            causes.push(Cause::invalid(
                field,
                &found.into(),
                &format!("must be {wanted}"),
            ));
        }
    }
    if !causes.is_empty() {
        let mut subject = kind.subject(target.name());
        subject.word = word;
        subject.group = version.split_once('/').map_or("", |(group, _)| group);
        return Err(Refusal::invalid(subject, &causes));
    }
    let undecodable = |why: String| Refusal::undecodable_patch(&document(), &why);
    let (body, unknown) = shaped(kind, body).map_err(undecodable)?;
    let also = target.call.complaints(unknown, &[], kind.traits.builtin);
    let complaints = [complaints(target), also].concat();
    let warnings = judgement.judge(complaints).map_err(undecodable)?;
    Ok((body, warnings))
}

/// Returns the complaints about a patch itself: duplicate fields, and unknown fields in operations.
fn complaints(target: &Target<'_>) -> Vec<String> {
    let Ok((patch, twice)) = go::parse_noting(&target.call.body) else {
        return Vec::new();
    };
    if target.call.media_type() != JSON {
        let told = |path: &String| format!("duplicate field {path:?}");
        return twice.iter().map(told).collect();
    }
    let mut told: Vec<String> = twice
        .iter()
        .map(|path| format!("json patch duplicate field {path:?}"))
        .collect();
    for (at, operation) in patch.as_array().into_iter().flatten().enumerate() {
        let fields = operation.as_object().into_iter().flatten();
        let unknown = fields.filter(|(name, _)| !OPERATION.contains(&name.as_str()));
        told.extend(unknown.map(|(name, _)| format!("json patch unknown field \"[{at}].{name}\"")));
    }
    told
}

/// Returns whether a patch mentions managed fields; only then does the patched document need them.
fn names_managers(target: &Target<'_>) -> bool {
    let mut windows = target.call.body.windows(MANAGED.len());
    windows.any(|part| part == MANAGED.as_bytes())
}

/// A parsed patch, and its duplicate fields.
struct Change {
    value: Value,
    twice: Vec<String>,
}

fn change(target: &Target<'_>) -> Result<Change, Refusal> {
    match go::parse_noting(&target.call.body) {
        Ok((value, twice)) => Ok(Change { value, twice }),
        Err(why) => Err(Refusal::bad_request(format!("error decoding patch: {why}"))),
    }
}

fn repeated(twice: &[String]) -> impl Iterator<Item = String> {
    twice.iter().map(|path| format!("duplicate field {path:?}"))
}

fn no_map(found: &Value) -> String {
    let found = rules::go_type(found);
    format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}")
}

/// Returns the type that governs a strategic merge patch.
fn strategy(target: &Target<'_>) -> Option<&'static Struct> {
    let typed = target.kind.typed();
    let of = match target.part {
        Part::Scale => typed.and_then(|_| scale::struct_of()),
        _ => typed,
    };
    of.filter(|_| target.call.media_type() == STRATEGIC)
}

fn document(target: &Target<'_>, old: &Stored, whole: bool) -> Body {
    let body = if whole { old.whole_body() } else { old.body() };
    shape::from_stored(&target.kind, body)
}

/// Applies a strategic merge patch; returns the object in its stored shape and the warnings.
fn strategic(
    target: &Target<'_>,
    old: &Stored,
    of: &'static Struct,
    mut change: Body,
    twice: &[String],
) -> Result<(Body, Vec<String>), Refusal> {
    let document = match target.part {
        Part::Scale => match scale::to_patch(&target.kind, old)? {
            Value::Object(scale) => scale,
            _ => Body::new(),
        },
        _ => document(target, old, names_managers(target)),
    };
    let merged = strategic::merge(of, document, &mut change);
    let mut body = merged.map_err(|why| match why {
        Misguided::Malformed(why) => Refusal::bad_request(why),
        Misguided::Nested => Refusal::unprocessable(),
        Misguided::Impossible(why) => Refusal::internal(why),
    })?;
    let refused = |why: &str| Refusal::undecodable_text(strategic::entries(&change), why);
    let unknown = typed::restore(of, &mut body).map_err(|why| refused(&why))?;
    let unknown = unknown.iter().map(|path| format!("unknown field {path:?}"));
    let judgement = target.call.unknown_fields()?;
    let warnings = judgement
        .judge(repeated(twice).chain(unknown).collect())
        .map_err(|why| refused(&why))?;
    if target.part == Part::Scale {
        let (body, _) = scale::shaped(body).map_err(|why| refused(&why))?;
        return Ok((body, warnings));
    }
    // Go applies such a patch to a struct that does not contain the type.
    body.insert("apiVersion".to_owned(), target.kind.api_version().into());
    body.insert("kind".to_owned(), target.kind.kind.as_str().into());
    let (body, _) = shaped(&target.kind, body).map_err(|why| refused(&why))?;
    Ok((body, warnings))
}

/// Applies a merge patch or a JSON patch; the document includes the managed fields if `whole` is set.
fn patched(
    target: &Target<'_>,
    old: &Stored,
    whole: bool,
    change: Value,
) -> Result<Value, Refusal> {
    let bad = |why: &str| Refusal::bad_request(format!("error decoding patch: {why}"));
    let mut document = match target.part {
        Part::Scale => scale::to_patch(&target.kind, old)?,
        _ => Value::Object(document(target, old, whole)),
    };
    if target.call.media_type() == JSON {
        return patch::apply(&document, &change).map_err(|error| match error {
            PatchError::Malformed(message) => bad(&message),
            PatchError::Inapplicable(_) => Refusal::unprocessable(),
            PatchError::TooLarge(message) => Refusal::too_large(message),
        });
    }
    match change {
        Value::Object(_) => {
            patch::merge(&mut document, change);
            Ok(document)
        }
        Value::Null => Err(Refusal::bad_request("Invalid JSON Patch")),
        other if target.call.media_type() == STRATEGIC => Err(Refusal::bad_request(no_map(&other))),
        other => Err(bad(&no_map(&other))),
    }
}
