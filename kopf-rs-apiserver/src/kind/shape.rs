//! Between the version a request speaks and the form objects are stored in.
//!
//! Promise: for all kinds but Events only the type changes. Must not know the store.

use serde_json::{Value, json};

use super::{Kind, Shape};
use crate::object::Body;

/// Fields of `events.k8s.io/v1` and what core `v1` calls them.
const EVENT_FIELDS: [(&str, &str); 6] = [
    ("note", "message"),
    ("regarding", "involvedObject"),
    ("reportingController", "reportingComponent"),
    ("deprecatedCount", "count"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
];

/// A body as the request has it, to a body as it is stored.
pub(crate) fn to_stored(kind: &Kind, mut body: Body) -> Body {
    if kind.shape == Shape::NewEvent {
        for (new, core) in EVENT_FIELDS.into_iter().chain([SOURCE]) {
            rename(&mut body, new, core);
        }
    }
    body.insert("kind".to_owned(), kind.kind.as_str().into());
    body
}

/// A body as it is stored, to a body as the request speaks.
pub(crate) fn from_stored(kind: &Kind, mut body: Body) -> Body {
    if kind.shape == Shape::NewEvent {
        for (new, core) in EVENT_FIELDS.into_iter().chain([SOURCE]) {
            rename(&mut body, core, new);
        }
    }
    body.insert("apiVersion".to_owned(), kind.api_version().into());
    body.insert("kind".to_owned(), kind.kind.as_str().into());
    body
}

const SOURCE: (&str, &str) = ("deprecatedSource", "source");

fn rename(body: &mut Body, from: &str, to: &str) {
    if let Some(value) = body.remove(from) {
        body.insert(to.to_owned(), value);
    }
}

/// What the server itself adds to new objects of built-in kinds.
pub(crate) fn fill_new(kind: &Kind, body: &mut Body) {
    if !kind.group.is_empty() {
        return;
    }
    match kind.plural.as_str() {
        "namespaces" => {
            let meta = crate::object::metadata_mut(body);
            let name = meta.get("name").cloned().unwrap_or(Value::Null);
            crate::object::map_mut(meta, "labels")
                .insert("kubernetes.io/metadata.name".to_owned(), name);
            crate::object::map_mut(body, "spec")
                .insert("finalizers".to_owned(), json!(["kubernetes"]));
            body.insert("status".to_owned(), json!({"phase": "Active"}));
        }
        "pods" => {
            body.insert(
                "status".to_owned(),
                json!({"phase": "Pending", "qosClass": "BestEffort"}),
            );
        }
        "persistentvolumeclaims" => {
            body.insert("status".to_owned(), json!({"phase": "Pending"}));
        }
        "secrets" => {
            body.entry("type").or_insert_with(|| "Opaque".into());
            fold_string_data(body);
        }
        _ => {}
    }
}

/// `stringData` of Secrets is write-only: it ends up encoded in `data`.
pub(crate) fn fold_string_data(body: &mut Body) {
    use base64::Engine as _;
    let Some(Value::Object(plain)) = body.remove("stringData") else {
        return;
    };
    let data = crate::object::map_mut(body, "data");
    for (key, value) in plain {
        let encoded =
            base64::engine::general_purpose::STANDARD.encode(value.as_str().unwrap_or_default());
        data.insert(key, encoded.into());
    }
}
