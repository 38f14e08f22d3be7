//! Pairs a value with the one it replaces, so that validation can ignore errors of unchanged values.
//!
//! Pairs fields by name and items by their keys in keyed lists; unknown fields have no counterpart. Independent of the checks themselves.

use serde_json::Value;

/// A value, its predecessor, and the schema that pairs their parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node<'a> {
    schema: &'a Value,
    old: &'a Value,
    new: &'a Value,
    /// True within a branch such as `anyOf`, where the value on its own never counts as unchanged.
    inside: bool,
}

// === impl Node ===

impl<'a> Node<'a> {
    pub(crate) fn new(schema: &'a Value, old: &'a Value, new: &'a Value) -> Self {
        Self {
            schema,
            old,
            new,
            inside: false,
        }
    }

    /// Returns the same pair for a branch of its schema.
    pub(super) fn inside(self) -> Self {
        Self {
            inside: true,
            ..self
        }
    }

    pub(crate) fn child(self, name: &str) -> Option<Self> {
        let (old, new) = (self.old.get(name)?, self.new.get(name)?);
        let known = self
            .schema
            .get("properties")
            .and_then(|found| found.get(name));
        let extra = self
            .schema
            .get("additionalProperties")
            .filter(|extra| extra.is_object());
        Some(Self::new(known.or(extra)?, old, new))
    }

    pub(super) fn item(self, at: usize) -> Option<Self> {
        let (old, new) = (self.old.as_array()?, self.new.as_array()?.get(at)?);
        let old = counterpart(self.schema, new, old)?;
        Some(Self::new(self.schema.get("items")?, old, new))
    }

    pub(super) fn is_same(self) -> bool {
        !self.inside && self.equals()
    }

    fn equals(self) -> bool {
        match (self.old, self.new) {
            (Value::Array(old), Value::Array(new)) => {
                let by_key = self.schema["x-kubernetes-list-type"] == "map";
                let same = |at: usize| self.item(at).is_some_and(Self::equals);
                old.len() == new.len()
                    && if by_key && !new.is_empty() {
                        (0..new.len()).all(same)
                    } else {
                        old == new
                    }
            }
            (Value::Object(old), Value::Object(new)) => {
                let same = |name: &String| self.child(name).is_some_and(Self::equals);
                old.len() == new.len() && new.keys().all(same)
            }
            (old, new) => old == new,
        }
    }
}

/// Returns the old item with the same keys, if the list is keyed.
pub(super) fn counterpart<'a>(schema: &Value, item: &Value, old: &'a [Value]) -> Option<&'a Value> {
    if schema.get("x-kubernetes-list-type")? != "map" {
        return None;
    }
    let keys = schema.get("x-kubernetes-list-map-keys")?.as_array()?;
    let same = |other: &&Value| {
        keys.iter()
            .filter_map(Value::as_str)
            .all(|key| item.get(key) == other.get(key))
    };
    old.iter().find(same)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sameness_by_table() {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "string"},
            "l": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "properties": {"k": {"type": "string"}}}},
        }});
        for (old, new, expected) in [
            (json!({"a": "x"}), json!({"a": "x"}), true),
            (json!({"a": "x"}), json!({"a": "y"}), false),
            (json!({"z": "x"}), json!({"z": "x"}), false),
            (
                json!({"l": [{"k": "a"}, {"k": "b"}]}),
                json!({"l": [{"k": "b"}, {"k": "a"}]}),
                true,
            ),
        ] {
            assert_eq!(
                Node::new(&schema, &old, &new).is_same(),
                expected,
                "{old} {new}"
            );
        }
    }
}
