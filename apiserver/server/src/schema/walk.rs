//! Walks a value and its schema in parallel.
//!
//! Visits each value that the schema describes once, parents first. Independent of what visitors look for.

use serde_json::Value;

/// Calls `visit` with the schema, the value and the field of the value itself and of everything within it.
pub(super) fn walk(
    schema: &Value,
    found: &Value,
    field: &str,
    visit: &mut impl FnMut(&Value, &Value, &str),
) {
    visit(schema, found, field);
    match found {
        Value::Object(map) => {
            for (name, found) in map {
                if let Some((schema, field)) = super::part(schema, name, field) {
                    walk(schema, found, &field, visit);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for (at, item) in items.iter().enumerate() {
                    walk(schema, item, &format!("{field}[{at}]"), visit);
                }
            }
        }
        _ => {}
    }
}
