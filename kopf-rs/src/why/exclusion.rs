//! Finds the filter that excludes an object from a handler: the criterion, the expected value and the actual one.
//!
//! User functions are named, but not called here.

use std::fmt;

use serde_json::Value;

use crate::handler::definition::Handler;
use crate::handler::filter::Criterion;
use crate::object::body::Body;
use crate::object::essence::is_secret;

/// The criterion that excludes the object from the handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exclusion {
    criterion: String,
    wanted: String,
    seen: String,
}

/// Returns the first criterion that excludes the object. If no evaluable criterion does, names a user function.
pub(crate) fn exclusion(handler: &Handler, body: &Body) -> Exclusion {
    let told = |criterion: String, wanted: &Criterion, seen: Option<&Value>| {
        Exclusion::of(criterion, wanted, seen, is_secret(body))
    };
    handler.filtered(|filters| {
        let named = [
            ("label", &filters.labels, body.label_map()),
            ("annotation", &filters.annotations, body.annotation_map()),
        ];
        for (noun, criteria, found) in named {
            for (key, criterion) in criteria {
                let seen = found.get(key);
                if !criterion.holds(seen) {
                    return told(format!("{noun} {key}"), criterion, seen);
                }
            }
        }
        if let Some(field) = handler.field() {
            let seen = field.resolve(body);
            let criterion = filters.value.as_ref().unwrap_or(&Criterion::Present);
            if !criterion.holds(seen) {
                return told(format!("field {field}"), criterion, seen);
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
    fn of(criterion: String, wanted: &Criterion, seen: Option<&Value>, is_secret: bool) -> Self {
        let wanted = match wanted {
            Criterion::Equals(value) => value.to_string(),
            Criterion::Present => "any value".to_owned(),
            Criterion::Absent => "no value".to_owned(),
            Criterion::Matches(_) => "a value that a function accepts".to_owned(),
        };
        Self {
            criterion,
            wanted,
            seen: match seen {
                None => "no value".to_owned(),
                // The annotations of a Secret may contain its values, too.
                Some(_) if is_secret => "a value, which is not shown since it is a Secret's".to_owned(),
                Some(seen) => seen.to_string(),
            },
        }
    }
}

impl fmt::Display for Exclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { criterion, wanted, seen } = self;
        write!(f, "{criterion}: wanted {wanted}, seen {seen}")
    }
}
