//! Which filter of a handler keeps an object away: the criterion, the value that it wants, and the one that it sees.
//!
//! Functions of users are named and not asked here.

use std::fmt;

use serde_json::Value;

use crate::handler::definition::Handler;
use crate::handler::filter::Criterion;
use crate::object::body::Body;

/// Why a handler is not for the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exclusion {
    criterion: String,
    wanted: String,
    seen: String,
}

/// The first criterion that keeps the object away; where none of those that can be shown does, a function does.
pub(crate) fn exclusion(handler: &Handler, body: &Body) -> Exclusion {
    handler.filtered(|filters| {
        let named = [
            ("label", &filters.labels, body.label_map()),
            ("annotation", &filters.annotations, body.annotation_map()),
        ];
        for (noun, criteria, found) in named {
            for (key, criterion) in criteria {
                let seen = found.get(key);
                if !criterion.holds(seen) {
                    return Exclusion::of(format!("{noun} {key}"), criterion, seen);
                }
            }
        }
        if let Some(field) = handler.field() {
            let seen = field.resolve(body);
            let criterion = filters.value.as_ref().unwrap_or(&Criterion::Present);
            if !criterion.holds(seen) {
                return Exclusion::of(format!("field {field}"), criterion, seen);
            }
        }
        Exclusion {
            criterion: "its function `when`".to_owned(),
            wanted: "true".to_owned(),
            seen: "false".to_owned(),
        }
    })
}

impl Exclusion {
    fn of(criterion: String, wanted: &Criterion, seen: Option<&Value>) -> Self {
        let wanted = match wanted {
            Criterion::Equals(value) => value.to_string(),
            Criterion::Present => "any value".to_owned(),
            Criterion::Absent => "no value".to_owned(),
            Criterion::Matches(_) => "a value that a function accepts".to_owned(),
        };
        Self {
            criterion,
            wanted,
            seen: seen.map_or_else(|| "no value".to_owned(), Value::to_string),
        }
    }
}

impl fmt::Display for Exclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            criterion,
            wanted,
            seen,
        } = self;
        write!(f, "{criterion}: wanted {wanted}, seen {seen}")
    }
}
