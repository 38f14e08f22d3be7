//! A value and its schema, gone through side by side.
//!
//! Promise: each place that the schema knows is visited once, what is around it first. Must not know what visitors look for.

use serde_json::Value;

/// Visit a value and all that is in it; the visitor is told the schema, the value and the field of each place.
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
