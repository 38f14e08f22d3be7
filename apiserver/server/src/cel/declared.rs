//! The size limits that a schema declares for its values.
//!
//! Where the schema declares no limit, the maximal request size is the limit, as in the real server. Independent of expressions.

use std::collections::BTreeMap;

use serde_json::Value;

use super::kind::escaped;

/// The maximal size of a request, in bytes.
const REQUEST: i64 = 3 * 1024 * 1024;

/// The declared sizes of a value as expressions see it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Declared {
    /// The most characters, items or entries.
    pub(super) most: u64,
    /// The fewest bytes of the value as JSON.
    least_bytes: i64,
    pub(super) fields: BTreeMap<String, Self>,
    /// The declaration of the items of a list, or of the values of a map.
    pub(super) part: Option<Box<Self>>,
    pub(super) is_map: bool,
}

// === impl Declared ===

impl Declared {
    /// Returns the declaration for values of a schema, or `None` if expressions cannot access them.
    pub(crate) fn of(schema: &Value, whole: bool) -> Option<Self> {
        let number = |name: &str| schema.get(name).and_then(Value::as_i64).map(|n| n.max(0));
        let text = |name: &str| schema.get(name).and_then(Value::as_str);
        if is(schema, "x-kubernetes-int-or-string") {
            let longest = number("maxLength").map_or(REQUEST - 2, |most| most.saturating_mul(4));
            return Some(Self::plain(longest, 1));
        }
        Some(match text("type")? {
            "array" => {
                let part = Self::below(schema.get("items")?)?;
                let most = number("maxItems");
                let most = most.unwrap_or_else(|| (REQUEST - 2) / (part.least_bytes + 1));
                Self::of_parts(part, most, false)
            }
            "object" => match schema.get("additionalProperties").filter(|e| e.is_object()) {
                Some(extra) => {
                    let part = Self::below(extra)?;
                    let most = number("maxProperties");
                    let most = most.unwrap_or_else(|| (REQUEST - 2) / (part.least_bytes + 6));
                    Self::of_parts(part, most, true)
                }
                _ => Self::object(schema, whole),
            },
            "string" => match text("format") {
                Some("byte") => Self::plain(number("maxLength").unwrap_or(REQUEST - 2), 2),
                Some("duration") => Self::plain(32, 3),
                Some("date") => Self::plain(12, 12),
                Some("date-time") => Self::plain(32, 21),
                _ => Self::plain(longest(schema), 2),
            },
            "boolean" => Self::plain(0, 4),
            "number" | "integer" => Self::plain(0, 1),
            _ => return None,
        })
    }

    /// Returns how often a value of this type fits into a request.
    pub(crate) fn times(&self) -> u64 {
        positive(REQUEST / (self.least_bytes + 1))
    }

    fn below(schema: &Value) -> Option<Self> {
        Self::of(schema, is(schema, "x-kubernetes-embedded-resource"))
    }

    fn plain(most: i64, least_bytes: i64) -> Self {
        Self {
            most: positive(most),
            least_bytes,
            ..Self::default()
        }
    }

    fn of_parts(part: Self, most: i64, is_map: bool) -> Self {
        Self {
            part: Some(Box::new(part)),
            is_map,
            ..Self::plain(most, 2)
        }
    }

    fn object(schema: &Value, whole: bool) -> Self {
        let required = schema.get("required").and_then(Value::as_array);
        let required = required.map_or(&[][..], Vec::as_slice);
        let mut all: BTreeMap<&str, Self> = BTreeMap::new();
        let mut preset: Vec<&str> = Vec::new();
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, part) in properties.into_iter().flatten() {
            if part.get("default").is_some() {
                preset.push(name);
            }
            if let Some(found) = Self::below(part) {
                all.insert(name, found);
            }
        }
        if whole {
            let names = ["name", "generateName"].map(str::to_owned);
            let names = names.map(|name| (name, Self::plain(REQUEST - 2, 2)));
            let mut metadata = Self::plain(0, 2);
            metadata.fields = BTreeMap::from(names);
            all.insert("metadata", metadata);
            for name in ["kind", "apiVersion"] {
                all.insert(name, Self::plain(REQUEST - 2, 2));
            }
            preset.retain(|name| !matches!(*name, "metadata" | "kind" | "apiVersion"));
        }
        let mut object = Self::plain(0, 2);
        for (name, found) in all {
            if required.iter().any(|field| field == name) && !preset.contains(&name) {
                let length = i64::try_from(name.len()).unwrap_or_default();
                object.least_bytes += length + found.least_bytes + 4;
            }
            if let Some(escaped) = escaped(name) {
                object.fields.insert(escaped, found);
            }
        }
        object
    }
}

fn is(schema: &Value, flag: &str) -> bool {
    schema.get(flag) == Some(&Value::Bool(true))
}

fn positive(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

/// Returns the most bytes that a string may have.
fn longest(schema: &Value) -> i64 {
    if let Some(most) = schema.get("maxLength").and_then(Value::as_i64) {
        // A character takes up to four bytes.
        return most.max(0).saturating_mul(4);
    }
    let all = schema.get("enum").and_then(Value::as_array);
    match all.filter(|all| !all.is_empty()) {
        Some(all) => {
            let lengths = all.iter().filter_map(Value::as_str).map(str::len);
            i64::try_from(lengths.max().unwrap_or_default()).unwrap_or(i64::MAX)
        }
        None => REQUEST - 2,
    }
}
