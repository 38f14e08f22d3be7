//! Converts objects between the version of a request and the stored form.
//!
//! For all kinds but Events and autoscalers, only the type changes. Independent of the store.

use super::{Kind, Shape, autoscaler};
use crate::object::Body;
use crate::schema;

/// Fields of `events.k8s.io/v1`, and their names in core `v1`.
const EVENT_FIELDS: [(&str, &str); 6] = [
    ("note", "message"),
    ("regarding", "involvedObject"),
    ("reportingController", "reportingComponent"),
    ("deprecatedCount", "count"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
];

/// Converts a body from the version of the request to the stored form.
pub(crate) fn to_stored(kind: &Kind, mut body: Body) -> Body {
    match kind.shape {
        Shape::Stored => {}
        Shape::NewEvent => {
            for (new, core) in EVENT_FIELDS.into_iter().chain([SOURCE]) {
                rename(&mut body, new, core);
            }
        }
        Shape::FirstAutoscaler => autoscaler::to_second(&mut body),
    }
    body.insert("kind".to_owned(), kind.kind.as_str().into());
    body
}

/// Converts a custom object to the stored version; fields that the stored version lacks are lost.
pub(crate) fn to_storage(kind: &Kind, mut body: Body) -> Body {
    if let Some(schema) = kind.stored_schema.as_ref().filter(|_| !kind.is_native()) {
        schema::store(schema, &mut body);
    }
    body
}

/// Converts a stored custom object to the version of the request; fields that this version lacks are lost.
pub(crate) fn of_version(kind: &Kind, mut body: Body) -> Body {
    if let (Some(schema), Some(_)) = (&kind.schema, &kind.stored_schema)
        && !kind.is_native()
    {
        schema::convert(schema, &mut body);
    }
    body
}

/// Converts a stored body to the version of the request.
pub(crate) fn from_stored(kind: &Kind, body: Body) -> Body {
    let mut body = of_version(kind, body);
    match kind.shape {
        Shape::Stored => {}
        Shape::NewEvent => {
            for (new, core) in EVENT_FIELDS.into_iter().chain([SOURCE]) {
                rename(&mut body, core, new);
            }
            // The newer version omits empty fields that the older one includes.
            body.retain(|key, value| !(key.starts_with("reporting") && value.as_str() == Some("")));
        }
        Shape::FirstAutoscaler => autoscaler::to_first(&mut body),
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
