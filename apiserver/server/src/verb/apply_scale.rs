//! Server-side apply to the `scale` subresource.
//!
//! Guarantees that the manager of an object's replica count also manages that of its scale, and the reverse, and that custom kinds
//! are refused as on the real server. Must not depend on how objects are merged.

use super::apply::{Read, Typed, check_shape, config_of, refused, repeated};
use super::{Answer, Target, scale};
use crate::managed::Author;
use crate::managed::apply::{Application, Applied};
use crate::managed::outline::Outline;
use crate::managed::scale::{of_scale, to_object};
use crate::managed::versions::Single;
use crate::object::{Body, Stored};
use crate::status::Refusal;
use crate::store::Store;
use crate::typed;
use crate::write;

const VERSION: &str = "autoscaling/v1";
/// The error for custom kinds: the part of the real server that serves them does not have the type `Scale`.
const UNKNOWN: &str =
    "to proper version: request to convert CR to an invalid group/version: autoscaling/v1";

pub(super) fn apply(
    store: &mut Store,
    target: &Target<'_>,
    dry_run: bool,
) -> Result<Answer, Refusal> {
    let typed = typed::of_kind(VERSION, "Scale");
    let scale = Typed {
        outline: typed.map_or(Outline::Free, Outline::Struct),
        api_version: VERSION,
        kind: "Scale",
    };
    let config = without_type(config_of(target, scale)?);
    let old = target.stored(store)?;
    check_shape(scale, &config, Read::Config)?;
    let author = Author {
        api_version: VERSION.to_owned(),
        ..target.author(store)?
    };
    let replicas = write::number_scaled(&target.kind);
    let managed = of_scale(&old.kept.managed, &replicas);
    let custom = !target.kind.traits.builtin;
    if custom && managed.entries.is_empty() {
        let why = "failed to create manager for existing fields: failed to convert live object (/; autoscaling/v1, Kind=Scale)";
        return Err(Refusal::internal(format!("{why} {UNKNOWN}")));
    }
    let live = of_object(target, &old);
    let empty = typed.map(typed::zero_object).unwrap_or_default();
    let application = Application {
        author: &author,
        live: &live,
        exists: true,
        empty: &empty,
        managed: &managed,
        config: &config,
    };
    let versions = &mut Single(scale.outline);
    let applied = application.apply(versions, target.call.switch("force"));
    let Applied { body, managed } = applied.map_err(refused)?;
    let repeated = repeated(target)?;
    if custom {
        let name = target.name();
        let why = format!("failed to convert new object (/{name}; autoscaling/v1, Kind=Scale)");
        return Err(Refusal::internal(format!("{why} {UNKNOWN}")));
    }
    let after = to_object(
        &old.kept.managed,
        &managed,
        &replicas,
        &target.kind.api_version(),
    );
    let mut answer = scale::applied(store, target, &old, (body, after), dry_run)?;
    answer.warnings.extend(repeated);
    Ok(answer)
}

/// Returns the scale of an object, without `apiVersion` and `kind`.
fn of_object(target: &Target<'_>, old: &Stored) -> Body {
    match scale::of(&target.kind, old) {
        serde_json::Value::Object(live) => without_type(live),
        _ => Body::new(),
    }
}

fn without_type(mut body: Body) -> Body {
    body.retain(|field, _| !matches!(field.as_str(), "apiVersion" | "kind"));
    body
}
