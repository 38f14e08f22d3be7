//! Between the version a request speaks and the form objects are stored in.
//!
//! Promise: for all kinds but Events and autoscalers only the type changes. Must not know the store.

use super::{Kind, Shape, autoscaler};
use crate::object::Body;
use crate::schema;

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

/// A custom object of a version, as it is stored: what the stored version does not know is lost.
pub(crate) fn to_storage(kind: &Kind, mut body: Body) -> Body {
    if let Some(schema) = kind.stored_schema.as_ref().filter(|_| !kind.is_native()) {
        schema::store(schema, &mut body);
    }
    body
}

/// A custom object as it is stored, with what its version of the request knows.
pub(crate) fn of_version(kind: &Kind, mut body: Body) -> Body {
    if let (Some(schema), Some(_)) = (&kind.schema, &kind.stored_schema)
        && !kind.is_native()
    {
        schema::convert(schema, &mut body);
    }
    body
}

/// A body as it is stored, to a body as the request speaks.
pub(crate) fn from_stored(kind: &Kind, body: Body) -> Body {
    let mut body = of_version(kind, body);
    match kind.shape {
        Shape::Stored => {}
        Shape::NewEvent => {
            for (new, core) in EVENT_FIELDS.into_iter().chain([SOURCE]) {
                rename(&mut body, core, new);
            }
            // The newer version leaves out what the older one shows empty.
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
