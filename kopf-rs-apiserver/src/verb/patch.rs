//! `patch`: an object changed by a merge patch or a JSON patch.
//!
//! Promise: the patch applies to the newest state; a resourceVersion in it is a precondition. Must not know how patches work.

use serde_json::Value;

use super::create::{decode, place};
use super::{Answer, Part, Target, update};
use crate::kind::shape;
use crate::object::Stored;
use crate::patch::{self, PatchError};
use crate::status::Refusal;
use crate::store::Store;
use crate::write;

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

pub(crate) fn patch(store: &mut Store, target: &Target<'_>) -> Result<Answer, Refusal> {
    let dry_run = target.call.dry_run()?;
    let accepted = accepted(target);
    if !accepted.contains(&target.call.media_type()) {
        return Err(Refusal::unsupported_media(&accepted));
    }
    let old = target.stored(store)?;
    let patched = apply(target, &old)?;
    let Value::Object(body) = patched else {
        return Err(Refusal::bad_request(
            "the patched document is not an object",
        ));
    };
    if target.part == Part::Scale {
        return update::rescale(store, target, &old, &body, dry_run);
    }
    let mut body = decode(&target.kind, body)?;
    place(&target.kind, target.namespace(), &mut body)?;
    write::check_revision(&target.kind, &old, &body)?;
    update::replace(store, target, &old, body, dry_run)
}

fn accepted(target: &Target<'_>) -> Vec<&'static str> {
    if target.kind.traits.builtin {
        vec![JSON, MERGE, STRATEGIC]
    } else {
        vec![JSON, MERGE]
    }
}

fn apply(target: &Target<'_>, old: &Stored) -> Result<Value, Refusal> {
    let change: Value = serde_json::from_slice(&target.call.body)
        .map_err(|error| Refusal::bad_request(format!("error decoding patch: {error}")))?;
    let mut document = if target.part == Part::Scale {
        update::scale_of(&target.kind, old)
    } else {
        Value::Object(shape::from_stored(&target.kind, old.body()))
    };
    if target.call.media_type() == JSON {
        return patch::apply(&document, &change).map_err(|error| match error {
            PatchError::Malformed(message) => {
                Refusal::bad_request(format!("error decoding patch: {message}"))
            }
            PatchError::Inapplicable(_) => Refusal::unprocessable(),
        });
    }
    if !change.is_object() {
        return Err(Refusal::bad_request(
            "error decoding patch: json: cannot unmarshal into Go value of type map[string]interface {}",
        ));
    }
    patch::merge(&mut document, change);
    Ok(document)
}
