//! Computes the fields that a conversion loses: the differences between an object and its round trip, so that they can be restored later.
//!
//! A field is restored only if the value at its path is unchanged. This module does not know where the fields are
//! stored.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::object::essence::digest;

/// One difference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lost {
    at: Vec<Segment>,
    /// The digest of the round trip's value; `None` if the field is absent there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    was: Option<String>,
    /// The value to restore; `None` to remove the field.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    is: Option<Value>,
}

/// A step on the path into an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
enum Segment {
    Member(String),
    /// An item of a list. Its digest identifies it if it has moved.
    Item(usize),
    /// An item of a list whose items have names: the member with the name, and the name.
    Named([String; 1], String),
}

/// Members that can hold the name of an item. The first one present counts.
const NAMES: [&str; 4] = ["name", "key", "id", "type"];

/// The maximum length of lists in which a moved item without a name is searched, because each search computes digests of all items.
const SEARCHED: usize = 64;

/// The members of objects that are not compared, because conversions do not change them.
const IDENTITY: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Deserializes a present `null` as a value.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl Lost {
    /// Returns all differences of `back` from `object`.
    pub(crate) fn between(object: &Value, back: &Value) -> Vec<Self> {
        let mut lost = Vec::new();
        let mut at = Vec::new();
        if let (Value::Object(was), Value::Object(is)) = (object, back) {
            let counts = |name: &&String| !IDENTITY.contains(&name.as_str());
            let names = was.keys().filter(counts);
            let others = is.keys().filter(|name| !was.contains_key(*name));
            for name in names.chain(others.filter(counts)) {
                at.push(Segment::Member(name.clone()));
                compare(was.get(name), is.get(name), &mut at, &mut lost);
                at.pop();
            }
        }
        lost
    }

    /// Restores these values, unless the current value has changed or its parent is gone. Returns which ones were restored. Visits each list once
    /// for all paths into it, because users can write thousands of paths into a long list.
    pub(crate) fn restore(all: &[Self], object: &mut Value) -> Vec<bool> {
        let is_identity =
            |step: &Segment| matches!(step, Segment::Member(name) if IDENTITY.contains(&name.as_str()));
        let may_change = |lost: &Self| lost.at.first().is_some_and(|step| !is_identity(step));
        let mut order: Vec<usize> = (0..all.len()).filter(|it| may_change(&all[*it])).collect();
        order.sort_by(|one, other| all[*one].at.cmp(&all[*other].at));
        let mut restored = vec![false; all.len()];
        restore_below(object, 0, &order, all, &mut restored);
        restored
    }

    /// Restores the value in its parent.
    fn restore_in(&self, parent: &mut Value) -> bool {
        let Some(last) = self.at.last() else {
            return false;
        };
        match (last, parent) {
            (Segment::Member(name), Value::Object(members)) => {
                if members.get(name).map(digest) != self.was {
                    return false;
                }
                match &self.is {
                    Some(value) => members.insert(name.clone(), value.clone()),
                    None => members.remove(name),
                };
                true
            }
            (Segment::Item(at), Value::Array(items)) => {
                let Some(value) = &self.is else { return false };
                let is_it = |item: &Value| Some(digest(item)) == self.was;
                let at = match items.get(*at) {
                    Some(item) if is_it(item) => Some(*at),
                    _ if items.len().max(*at) <= SEARCHED => items.iter().position(is_it),
                    _ => None,
                };
                let item = at.and_then(|at| items.get_mut(at));
                item.map(|item| value.clone_into(item)).is_some()
            }
            _ => false,
        }
    }

    /// Returns true if the path starts with this member of the object.
    pub(crate) fn is_in(&self, member: &str) -> bool {
        matches!(self.at.first(), Some(Segment::Member(name)) if name == member)
    }

    /// Returns true if the path equals one of these or lies below it. `others` are [sorted](Self::sorted).
    pub(crate) fn is_within(&self, others: &[Self]) -> bool {
        let after = others.partition_point(|other| other.at <= self.at);
        after > 0 && self.at.starts_with(&others[after - 1].at)
    }

    /// Sorts results of [`Lost::between`] by their paths.
    pub(crate) fn sorted(mut all: Vec<Self>) -> Vec<Self> {
        all.sort_by(|one, other| one.at.cmp(&other.at));
        all
    }

    /// Returns true if no path lies below another one. This holds for all results of [`Lost::between`]. Other lists are forgeries, and
    /// comparing the same part of an object repeatedly could take long.
    pub(crate) fn are_apart(all: &[Self]) -> bool {
        let mut places: Vec<_> = all.iter().map(|it| &it.at).collect();
        places.sort_unstable();
        let mut pairs = places.windows(2);
        !pairs.any(|pair| pair[1].starts_with(pair[0]))
    }

    /// Returns the path in readable form: `spec.containers[web].image`.
    pub(crate) fn place(&self) -> String {
        let segments = self.at.iter().enumerate();
        let segments = segments.map(|(number, segment)| match segment {
            Segment::Member(name) if number == 0 => name.clone(),
            Segment::Member(name) => format!(".{name}"),
            Segment::Item(at) => format!("[{at}]"),
            Segment::Named(_, name) => format!("[{name}]"),
        });
        segments.collect()
    }
}

/// Restores the values whose paths continue below this value, which lies at this depth. `order` has their numbers, sorted by path.
fn restore_below(value: &mut Value, depth: usize, order: &[usize], all: &[Lost], restored: &mut [bool]) {
    let mut places = None;
    let step_of = |number: &usize| &all[*number].at[depth];
    for group in order.chunk_by(|one, other| step_of(one) == step_of(other)) {
        let ends = group.partition_point(|number| all[*number].at.len() == depth + 1);
        let (leaves, deeper) = group.split_at(ends);
        for number in leaves {
            restored[*number] = all[*number].restore_in(value);
        }
        let child = match (deeper.first().map(step_of), &mut *value) {
            (Some(Segment::Member(name)), Value::Object(members)) => members.get_mut(name),
            (Some(step @ Segment::Named(..)), Value::Array(items)) => {
                let places = places.get_or_insert_with(|| places_of(items));
                places.get(step).and_then(|at| items.get_mut(*at))
            }
            // An item without a name is restored as a whole, so no path leads into it.
            _ => None,
        };
        if let Some(child) = child {
            restore_below(child, depth + 1, deeper, all, restored);
        }
    }
}

/// Returns the places of the items that have names. The first item of a name counts.
fn places_of(items: &[Value]) -> BTreeMap<Segment, usize> {
    let mut places = BTreeMap::new();
    for (at, item) in items.iter().enumerate() {
        if let Some((member, name)) = name_of(item) {
            let step = Segment::Named([member.to_owned()], name.to_owned());
            places.entry(step).or_insert(at);
        }
    }
    places
}

fn compare(was: Option<&Value>, is: Option<&Value>, at: &mut Vec<Segment>, lost: &mut Vec<Lost>) {
    if was == is {
        return;
    }
    match (was, is) {
        (Some(Value::Object(one)), Some(Value::Object(other))) => {
            let others = other.keys().filter(|name| !one.contains_key(*name));
            for name in one.keys().chain(others) {
                at.push(Segment::Member(name.clone()));
                compare(one.get(name), other.get(name), at, lost);
                at.pop();
            }
        }
        (Some(Value::Array(one)), Some(Value::Array(other)))
            if one.len() == other.len() && !one.is_empty() =>
        {
            let names = names(one).filter(|it| names(other).as_ref() == Some(it));
            for (number, (one_item, other_item)) in one.iter().zip(other).enumerate() {
                if one_item == other_item {
                    continue;
                }
                if let Some((member, names)) = &names {
                    let name = names[number].to_owned();
                    at.push(Segment::Named([(*member).to_owned()], name));
                    compare(Some(one_item), Some(other_item), at, lost);
                } else {
                    at.push(Segment::Item(number));
                    lost.push(difference(Some(one_item), Some(other_item), at));
                }
                at.pop();
            }
        }
        _ => lost.push(difference(was, is, at)),
    }
}

fn difference(was: Option<&Value>, is: Option<&Value>, at: &[Segment]) -> Lost {
    Lost { at: at.to_vec(), was: is.map(digest), is: was.cloned() }
}

/// Returns the member that holds the name in all items, and the names, if they are unique.
fn names(items: &[Value]) -> Option<(&str, Vec<&str>)> {
    let pairs: Option<Vec<_>> = items.iter().map(name_of).collect();
    let (fields, names): (Vec<_>, Vec<_>) = pairs?.into_iter().unzip();
    let member = fields.first().copied()?;
    let mut sorted = names.clone();
    sorted.sort_unstable();
    sorted.dedup();
    let is_one = fields.iter().all(|it| *it == member);
    (is_one && sorted.len() == names.len()).then_some((member, names))
}

/// Returns the member with the item's name, and the name.
fn name_of(item: &Value) -> Option<(&'static str, &str)> {
    let mut members = NAMES.into_iter();
    members.find_map(|member| Some((member, item[member].as_str()?)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(spec: Value) -> Value {
        let mut object = json!({"metadata": {"name": "x"}});
        object["spec"] = spec;
        object
    }

    fn restored(lost: &[Lost], object: Value) -> Value {
        let mut object = object;
        Lost::restore(lost, &mut object);
        object
    }

    /// Any user may write such an annotation, and each read of the object restores it. With a search for each path, this takes minutes.
    #[test]
    fn many_paths_into_a_long_list_are_restored() {
        let names = 0..60_000;
        let items: Value = names.map(|it| json!({"name": it.to_string()})).collect();
        let mut object = spec(json!({"items": items}));
        let of = |it: u32| json!({"at": ["spec", "items", [["name"], it.to_string()], "x"], "is": it});
        let paths: Value = (40_000..60_000).map(of).collect();
        let lost: Vec<Lost> = serde_json::from_value(paths).unwrap();
        assert_eq!(Lost::restore(&lost, &mut object), vec![true; 20_000]);
        let items = &object["spec"]["items"];
        assert_eq!((&items[39_999]["x"], &items[59_999]["x"]), (&json!(null), &json!(59_999)));
        let hidden = Lost::sorted(lost.clone());
        assert!(lost.iter().all(|it| it.is_within(&hidden)));
        assert!(!lost[0].is_within(&hidden[1..]));
    }

    #[test]
    fn an_item_has_the_name_that_the_same_member_holds() {
        let lost = json!([{"at": ["spec", [["name"], "a"], "x"], "is": 1}]);
        let lost: Vec<Lost> = serde_json::from_value(lost).unwrap();
        let object = spec(json!([{"key": "a"}, {"name": "a"}, {"name": "a"}]));
        let expected = spec(json!([{"key": "a"}, {"name": "a", "x": 1}, {"name": "a"}]));
        assert_eq!(restored(&lost, object), expected);
    }

    #[test]
    fn differing_values_are_restored() {
        for (object, back) in [
            (json!({"a": 1, "b": 2}), json!({"a": 1})),
            (json!({"a": 1}), json!({"a": 1, "b": 0})),
            (json!({"a": null}), json!({})),
            (json!({"a": {}}), json!({})),
            (json!({"a": "1000m"}), json!({"a": "1"})),
            (json!({"a": 9_007_199_254_740_993_i64}), json!({"a": 9_007_199_254_740_992_i64})),
            (json!({"a": [1, 2]}), json!({"a": [1]})),
            (json!({"a": [{"x": 1}, {"x": 2}]}), json!({"a": [{"x": 1}, {}]})),
            (
                json!({"a": [{"name": "one", "x": {"y": 1}}, {"name": "two"}]}),
                json!({"a": [{"name": "one", "x": {}}, {"name": "two", "z": 1}]}),
            ),
            (json!({"a": [[1], [2]]}), json!({"a": [[1], [3]]})),
            (json!(5), json!(null)),
        ] {
            let (object, back) = (spec(object), spec(back));
            let lost = Lost::between(&object, &back);
            let text = serde_json::to_string(&lost).unwrap();
            let lost: Vec<Lost> = serde_json::from_str(&text).unwrap();
            assert_eq!(restored(&lost, back), object, "{text}");
        }
        assert_eq!(Lost::between(&spec(json!({"a": [1]})), &spec(json!({"a": [1]}))), []);
    }

    #[test]
    fn changed_values_stay() {
        let object = spec(json!({
            "a": 1,
            "list": [{"name": "one", "x": 1, "y": 1}, {"name": "two", "x": 2, "y": 2}],
            "plain": [{"x": 1, "y": 1}, {"x": 2, "y": 2}],
            "in": {"deep": 1},
        }));
        let back = spec(json!({
            "list": [{"name": "one", "x": 1}, {"name": "two", "x": 2}],
            "plain": [{"x": 1}, {"x": 2}],
            "in": {},
        }));
        let lost = Lost::between(&object, &back);
        let edited = spec(json!({
            "a": 5,
            "list": [{"name": "two", "x": 2}, {"name": "one", "x": 7}],
            "plain": [{"x": 0}, {"x": 1}, {"x": 3}],
        }));
        assert_eq!(
            restored(&lost, edited),
            spec(json!({
                "a": 5,
                "list": [{"name": "two", "x": 2, "y": 2}, {"name": "one", "x": 7, "y": 1}],
                "plain": [{"x": 0}, {"x": 1, "y": 1}, {"x": 3}],
            }))
        );
        let places: Vec<_> = lost.iter().map(Lost::place).collect();
        assert!(places.contains(&"spec.list[two].y".to_owned()), "{places:?}");
    }

    #[test]
    fn computed_paths_are_disjoint_and_forged_ones_may_overlap() {
        let of = |text: &str| -> Vec<Lost> { serde_json::from_str(text).unwrap() };
        for (text, expected) in [
            (r#"[{"at":["a"]},{"at":["b"]},{"at":["ab"]}]"#, true),
            (r#"[{"at":["a","b"]},{"at":["a","c"]},{"at":["a",1]}]"#, true),
            (r#"[{"at":["a"]},{"at":["b"]},{"at":["a"]}]"#, false),
            (r#"[{"at":["a","c"]},{"at":["b"]},{"at":["a","b"]},{"at":["a"]}]"#, false),
            (r#"[{"at":["a",[["name"],"x"],"b"]},{"at":["a"]}]"#, false),
        ] {
            assert_eq!(Lost::are_apart(&of(text)), expected, "{text}");
        }
        // An item has only one name.
        let item = spec(json!([{"name": "one", "key": "k"}]));
        let forged = of(r#"[{"at":["spec",[["key"],"k"],"x"],"is":1},{"at":["spec",0,"x"],"is":1}]"#);
        assert_eq!(restored(&forged, item.clone()), item);
    }

    #[test]
    fn identities_are_never_touched() {
        let forged =
            r#"[{"at":["metadata","finalizers"],"is":["a/b"]},{"at":["kind"],"is":"X"},{"at":[],"is":5}]"#;
        let forged: Vec<Lost> = serde_json::from_str(forged).unwrap();
        let object = spec(json!({}));
        assert_eq!(restored(&forged, object.clone()), object);
    }
}
