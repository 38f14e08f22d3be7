//! Sets of fields: which parts of an object a manager has, as `fieldsV1` writes them.
//!
//! Promise: reading what was written gives the same set. Must not know objects.
//!
//! A part is named as `fieldsV1` names it: `f:` and a field, `k:` and the keys of a list's item, `v:` and an item itself.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value};

/// A set of fields: the parts of one place, and what is in the set below them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Set {
    pub(crate) parts: BTreeMap<String, Part>,
}

/// One part: whether it is itself in the set, and what is below it.
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

    /// Put a part in; an empty one is none.
    pub(crate) fn insert(&mut self, name: String, part: Part) {
        if !part.is_empty() {
            self.parts.insert(name, part);
        }
    }

    /// The set of these places, each named by its fields.
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

    /// Take all of another set in.
    pub(crate) fn add(&mut self, other: &Self) {
        for (name, part) in &other.parts {
            let slot = self.parts.entry(name.clone()).or_default();
            slot.member |= part.member;
            slot.below.add(&part.below);
        }
    }

    /// What is in this set and not in the other.
    pub(crate) fn without(&self, other: &Self) -> Self {
        self.keep(other, &|mine, others| Part {
            member: mine.member && !others.member,
            below: mine.below.without(&others.below),
        })
    }

    /// What is in this set and neither in the other nor below what is.
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

    /// What is in both sets.
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

    /// The places in the set, as the real server prints them.
    pub(crate) fn shown(&self) -> Vec<String> {
        let mut places = Vec::new();
        self.show("", &mut places);
        places
    }

    /// What is here first, then what is below.
    fn show(&self, way: &str, places: &mut Vec<String>) {
        let place = |name: &str| format!("{way}{}", shown(name));
        let members = self.parts.iter().filter(|(_, part)| part.member);
        places.extend(members.map(|(name, _)| place(name)));
        for (name, part) in &self.parts {
            part.below.show(&place(name), places);
        }
    }

    /// As `fieldsV1`.
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

    /// From `fieldsV1`; `None` if it is none.
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

/// One part of a place as the real server prints it.
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
                // Writing to a String cannot fail.
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
