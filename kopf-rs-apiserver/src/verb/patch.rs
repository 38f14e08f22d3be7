//! `patch`: an object changed by a merge patch or a JSON patch.
//!
//! Promise: the patch applies to the newest state; a resourceVersion in it is a precondition. Must not know how patches work.

use serde_json::Value;

use super::apply::APPLY;
use super::create::{place, shaped};
use super::{Answer, Part, Target, apply, scale, update};
use crate::call::go;
use crate::kind::shape;
use crate::object::{Body, MANAGED, Stored, text};
use crate::patch::{self, PatchError, strategic};
use crate::rules;
use crate::status::{Cause, Refusal};
use crate::store::Store;
use crate::write;

const JSON: &str = "application/json-patch+json";
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
    if !target.call.param("force").is_empty() {
        let why = "may not be specified for non-apply patch";
        return Err(target.call.bad_options(&[Cause::forbidden("force", why)]));
    }
    let old = target.stored(store)?;
    let Value::Object(body) = patched(target, &old, names_managers(target))? else {
        return Err(Refusal::bad_request("Invalid JSON Patch"));
    };
    if target.part == Part::Scale {
        return scale::patched(store, target, &old, body, dry_run);
    }
    let (body, warnings) = decode(target, &old, body)?;
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
    match (target.part, target.kind.traits.builtin) {
        (Part::Scale, true) => vec![JSON, MERGE, STRATEGIC],
        (Part::Scale, false) => vec![JSON, MERGE],
        (_, true) => vec![JSON, MERGE, STRATEGIC, APPLY],
        (_, false) => vec![JSON, MERGE, APPLY],
    }
}

/// Check what came out of the patch and bring it into its stored shape.
fn decode(target: &Target<'_>, old: &Stored, body: Body) -> Result<(Body, Vec<String>), Refusal> {
    let kind = &target.kind;
    let judgement = target.call.unknown_fields()?;
    // Who reads of it sees the managers, too.
    let document = || patched(target, old, true).unwrap_or_default();
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
        return Err(Refusal::invalid(subject, &causes));
    }
    let undecodable = |why: String| Refusal::undecodable_patch(&document(), &why);
    let (body, unknown) = shaped(kind, body).map_err(undecodable)?;
    let complaints = target.call.complaints(unknown, &[], kind.traits.builtin);
    let warnings = judgement.judge(complaints).map_err(undecodable)?;
    Ok((body, warnings))
}

/// Whether a patch speaks of managers: they are looked at only by who changes them.
fn names_managers(target: &Target<'_>) -> bool {
    let mut windows = target.call.body.windows(MANAGED.len());
    windows.any(|part| part == MANAGED.as_bytes())
}

/// An object with the patch, and with its managers where they matter.
fn patched(target: &Target<'_>, old: &Stored, whole: bool) -> Result<Value, Refusal> {
    let bad = |why: &str| Refusal::bad_request(format!("error decoding patch: {why}"));
    let change = go::parse(&target.call.body).map_err(|why| bad(&why))?;
    let document = if target.part == Part::Scale {
        scale::to_patch(&target.kind, old)?
    } else {
        let body = if whole { old.whole_body() } else { old.body() };
        Value::Object(shape::from_stored(&target.kind, body))
    };
    if target.call.media_type() == JSON {
        return patch::apply(&document, &change).map_err(|error| match error {
            PatchError::Malformed(message) => bad(&message),
            PatchError::Inapplicable(_) => Refusal::unprocessable(),
            PatchError::TooLarge(message) => Refusal::too_large(message),
        });
    }
    match (change, document) {
        (Value::Object(change), Value::Object(document))
            if target.call.media_type() == STRATEGIC && target.part != Part::Scale =>
        {
            let of = target.kind.typed();
            let mut merged = strategic::merge(of, document, change).map_err(Refusal::internal)?;
            // Such a patch is applied to a Go struct, and its type is no part of that.
            merged.insert("apiVersion".to_owned(), target.kind.api_version().into());
            merged.insert("kind".to_owned(), target.kind.kind.as_str().into());
            Ok(Value::Object(merged))
        }
        (change @ Value::Object(_), mut document) => {
            patch::merge(&mut document, change);
            Ok(document)
        }
        (Value::Null, _) => Err(Refusal::bad_request("Invalid JSON Patch")),
        (other, _) => {
            let found = rules::go_type(&other);
            let why = format!(
                "json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
            );
            Err(match target.call.media_type() {
                STRATEGIC => Refusal::bad_request(why),
                _ => bad(&why),
            })
        }
    }
}
