//! Field sets: the parts of an object that a manager owns, in the format `fieldsV1`.
//!
//! Guarantees that a written set reads back as an equal set. Must not depend on objects.
//!
//! Parts have the names of `fieldsV1`: `f:` and a field, `k:` and the keys of a list item, `v:` and the value of an item.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value};

/// A field set: the parts of a place, with the sets below them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Set {
    pub(crate) parts: BTreeMap<String, Part>,
}

/// A part: whether it is itself in the set, and the set below it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Part {
    pub(crate) member: bool,
    pub(crate) below: Set,
}

// === impl Part ===

impl Part {
    pub(crate) fn leaf() -> Self {
        Self {
            member: true,
            below: Set::default(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }

    fn some(self) -> Option<Self> {
        (!self.is_empty()).then_some(self)
    }
}

// === impl Set ===

impl Set {
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Inserts a part unless it is empty.
    pub(crate) fn insert(&mut self, name: String, part: Part) {
        if !part.is_empty() {
            self.parts.insert(name, part);
        }
    }

    /// Returns the set of these places, each given as a path of field names.
    pub(crate) fn of_fields(places: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for place in places {
            let mut at = &mut set;
            let Some((last, way)) = place.split_last() else {
                continue;
            };
            for name in way {
                at = &mut at.parts.entry(format!("f:{name}")).or_default().below;
            }
            at.parts.entry(format!("f:{last}")).or_default().member = true;
        }
        set
    }

    pub(crate) fn union(&self, other: &Self) -> Self {
        let mut set = self.clone();
        set.add(other);
        set
    }

    /// Adds all members of another set.
    pub(crate) fn add(&mut self, other: &Self) {
        for (name, part) in &other.parts {
            let slot = self.parts.entry(name.clone()).or_default();
            slot.member |= part.member;
            slot.below.add(&part.below);
        }
    }

    /// Returns the members that are not in the other set.
    pub(crate) fn without(&self, other: &Self) -> Self {
        self.keep(other, &|mine, others| Part {
            member: mine.member && !others.member,
            below: mine.below.without(&others.below),
        })
    }

    /// Returns the members that are neither in the other set nor below one of its members.
    pub(crate) fn without_below(&self, other: &Self) -> Self {
        self.keep(other, &|mine, others| {
            if others.member {
                return Part::default();
            }
            Part {
                member: mine.member,
                below: mine.below.without_below(&others.below),
            }
        })
    }

    fn keep(&self, other: &Self, rest: &dyn Fn(&Part, &Part) -> Part) -> Self {
        let parts = self.parts.iter().filter_map(|(name, mine)| {
            let part = match other.parts.get(name) {
                Some(others) => rest(mine, others).some()?,
                None => mine.clone(),
            };
            Some((name.clone(), part))
        });
        Self {
            parts: parts.collect(),
        }
    }

    /// Returns the members that are in both sets.
    pub(crate) fn shared(&self, other: &Self) -> Self {
        let parts = self.parts.iter().filter_map(|(name, mine)| {
            let others = other.parts.get(name)?;
            let part = Part {
                member: mine.member && others.member,
                below: mine.below.shared(&others.below),
            };
            Some((name.clone(), part.some()?))
        });
        Self {
            parts: parts.collect(),
        }
    }

    /// Returns the paths in the set, in the real server's notation.
    pub(crate) fn shown(&self) -> Vec<String> {
        let mut places = Vec::new();
        self.show("", &mut places);
        places
    }

    /// Lists the members at this level before those below.
    fn show(&self, way: &str, places: &mut Vec<String>) {
        let place = |name: &str| format!("{way}{}", shown(name));
        let members = self.parts.iter().filter(|(_, part)| part.member);
        places.extend(members.map(|(name, _)| place(name)));
        for (name, part) in &self.parts {
            part.below.show(&place(name), places);
        }
    }

    /// Converts the set to `fieldsV1`.
    pub(crate) fn to_json(&self) -> Value {
        let part = |part: &Part| {
            let mut map = match part.below.to_json() {
                Value::Object(map) => map,
                _ => Map::new(),
            };
            if part.member && !map.is_empty() {
                map.insert(".".to_owned(), Value::Object(Map::new()));
            }
            Value::Object(map)
        };
        let parts = self.parts.iter();
        parts
            .map(|(name, found)| (name.clone(), part(found)))
            .collect()
    }

    /// Parses `fieldsV1`; returns `None` if it is invalid.
    pub(crate) fn from_json(json: &Value) -> Option<Self> {
        let mut set = Self::default();
        for (name, below) in json.as_object()? {
            if name == "." {
                continue;
            }
            let kind = name.split_at_checked(2)?.0;
            if !matches!(kind, "f:" | "k:" | "v:" | "i:") {
                return None;
            }
            let map = below.as_object()?;
            let part = Part {
                member: map.is_empty() || map.contains_key("."),
                below: Self::from_json(below)?,
            };
            set.parts.insert(name.clone(), part);
        }
        Some(set)
    }
}

/// Returns one part of a path in the real server's notation.
pub(super) fn shown(name: &str) -> String {
    let (kind, rest) = name.split_at(2);
    match kind {
        "f:" => format!(".{rest}"),
        "v:" => format!("[={rest}]"),
        "k:" => {
            let keys: Map<String, Value> = serde_json::from_str(rest).unwrap_or_default();
            let mut text = String::from("[");
            for (at, (key, value)) in keys.iter().enumerate() {
                let comma = if at > 0 { "," } else { "" };
                // Writing to a `String` cannot fail.
                let _infallible = write!(text, "{comma}{key}={value}");
            }
            text + "]"
        }
        _ => format!("[{rest}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(json: &Value) -> Set {
        Set::from_json(json).unwrap()
    }

    #[test]
    fn sets_are_written_as_they_are_read() {
        let json = json!({
            "f:metadata": {"f:labels": {".": {}, "f:a": {}}, "f:finalizers": {"v:\"x\"": {}}},
            "f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}},
        });
        let read = set(&json);
        assert_eq!(read.to_json(), json);
        assert_eq!(
            read.shown(),
            [
                ".metadata.labels",
                ".metadata.finalizers[=\"x\"]",
                ".metadata.labels.a",
                ".spec.ports[port=80,protocol=\"TCP\"]",
                ".spec.ports[port=80,protocol=\"TCP\"].port",
            ]
        );
        assert_eq!(Set::from_json(&json!({"x": {}})), None);
    }

    #[test]
    fn operations_by_table() {
        let a = set(&json!({"f:a": {".": {}, "f:x": {}, "f:y": {}}, "f:b": {}}));
        let b = set(&json!({"f:a": {"f:x": {}}, "f:c": {}}));
        assert_eq!(
            a.without(&b).to_json(),
            json!({"f:a": {".": {}, "f:y": {}}, "f:b": {}})
        );
        assert_eq!(b.without(&a).to_json(), json!({"f:c": {}}));
        assert_eq!(a.shared(&b).to_json(), json!({"f:a": {"f:x": {}}}));
        let whole = set(&json!({"f:a": {}}));
        assert_eq!(a.without_below(&whole).to_json(), json!({"f:b": {}}));
        assert_eq!(
            a.without(&whole).to_json(),
            json!({"f:a": {"f:x": {}, "f:y": {}}, "f:b": {}})
        );
        let both = json!({"f:a": {".": {}, "f:x": {}, "f:y": {}}, "f:b": {}, "f:c": {}});
        assert_eq!(a.union(&b).to_json(), both);
    }
}
