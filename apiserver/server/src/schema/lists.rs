//! Uniqueness of items in sets and keyed lists.
//!
//! Reports every duplicate at its second occurrence. Independent of other checks of items.

use serde_json::{Map, Value, json};

use super::walk::walk;
use crate::status::{Cause, shown};

/// Returns errors for duplicate items and for missing keys.
pub(super) fn check(schema: &Value, found: &Value, field: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    walk(schema, found, field, &mut |schema, found, field| {
        let Value::Array(items) = found else {
            return;
        };
        match schema["x-kubernetes-list-type"].as_str() {
            Some("set") => twice(&items.iter().collect::<Vec<_>>(), field, &mut causes),
            Some("map") => by_key(schema, items, field, &mut causes),
            _ => {}
        }
    });
    causes
}

fn twice(items: &[&Value], field: &str, causes: &mut Vec<Cause>) {
    for (at, item) in items.iter().enumerate() {
        if items[..at].iter().filter(|other| *other == item).count() == 1 {
            let message = format!("Duplicate value: {}", shown(item));
            causes.push(Cause::new(
                "FieldValueDuplicate",
                format!("{field}[{at}]"),
                message,
            ));
        }
    }
}

fn by_key(schema: &Value, items: &[Value], field: &str, causes: &mut Vec<Cause>) {
    let odd = |item: &&Value| !item.is_object() && !item.is_null();
    if let Some(at) = items.iter().position(|item| odd(&item)) {
        let message = "must be an object for an array of list-type map";
        causes.push(Cause::invalid(
            format!("{field}[{at}]"),
            &items[at],
            message,
        ));
        return;
    }
    let keys = schema["x-kubernetes-list-map-keys"].as_array();
    let keys: Vec<&str> = keys
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let identity = |item: &Value| {
        let of = |key: &&str| Some(((*key).to_owned(), item.get(*key)?.clone()));
        json!(keys.iter().filter_map(of).collect::<Map<_, _>>())
    };
    let found: Vec<Value> = items.iter().map(identity).collect();
    twice(&found.iter().collect::<Vec<_>>(), field, causes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_named() {
        let schema = json!({"properties": {"s": {"x-kubernetes-list-type": "set", "items": {}}}});
        let causes = check(&schema, &json!({"s": ["a", "a", "b", "a"]}), "");
        let fields: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(fields, ["s[1]"]);
    }
}
