//! Structural differences of two JSON trees, in Kopf's form.
//!
//! `null` equals absence, lists are atomic, and numbers compare by value. Displays as in Kopf's log lines. All
//! functions are total. This module does not know which trees are compared.

use std::fmt;

use serde_json::Value;

use crate::object::path::FieldPath;
use crate::object::python::Python;
use crate::object::str_eq::equals_text;

/// The kind of a difference. There is no fourth kind, so a `match` may list all three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DiffOp {
    /// The field appeared.
    Add,
    /// The field has another value.
    Change,
    /// The field disappeared.
    Remove,
}

/// One difference. It can be taken apart: `let DiffItem { op, field, old, new } = item`.
#[derive(Clone, Debug, PartialEq)]
pub struct DiffItem {
    /// The kind of difference.
    pub op: DiffOp,
    /// The path of the field.
    pub field: FieldPath,
    /// The value before; `None` if absent.
    pub old: Option<Value>,
    /// The value after; `None` if absent.
    pub new: Option<Value>,
}

/// All differences between two states.
///
/// ```
/// use kopf_rs::prelude::*;
///
/// #[on_update("kopfexamples")]
/// async fn update_fn(diff: &Diff) {
///     if diff.touches("spec.size") {
///         info!("the size has changed");
///     }
///     for item in diff {
///         if item.field == "spec.items" && item.op == "add" {
///             info!("items were added: {:?}", item.new);
///         }
///     }
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diff(Vec<DiffItem>);

impl Diff {
    /// Compares two states; `None` is absence.
    #[must_use]
    pub fn between(old: Option<&Value>, new: Option<&Value>) -> Self {
        let mut items = Vec::new();
        compare(old, new, &mut Vec::new(), &mut items);
        Self(items)
    }
    /// Returns the differences at or under `field`, with relative paths.
    ///
    /// A difference above `field` is compared again: if `spec` appeared, so did `spec.size`.
    #[must_use]
    pub fn reduced(&self, field: &FieldPath) -> Self {
        let mut items = Vec::new();
        for item in &self.0 {
            let (at, wanted) = (item.field.parts(), field.parts());
            if let Some(rest) = at.strip_prefix(wanted) {
                items.push(DiffItem { field: FieldPath::from_parts(rest.iter().cloned()), ..item.clone() });
            } else if let Some(rest) = wanted.strip_prefix(at) {
                let rest = FieldPath::from_parts(rest.iter().cloned());
                let within =
                    |side: &Option<Value>| side.as_ref().and_then(|side| rest.resolve(side)).cloned();
                let (old, new) = (within(&item.old), within(&item.new));
                compare(old.as_ref(), new.as_ref(), &mut Vec::new(), &mut items);
            }
        }
        Self(items)
    }
    /// Returns the same differences with transformed values, for example redacted ones.
    pub(crate) fn map_values(&self, change: impl Fn(&FieldPath, &Value) -> Value) -> Self {
        let items = self.0.iter().map(|item| {
            let changed = |side: &Option<Value>| side.as_ref().map(|it| change(&item.field, it));
            DiffItem {
                op: item.op,
                field: item.field.clone(),
                old: changed(&item.old),
                new: changed(&item.new),
            }
        });
        Self(items.collect())
    }
    /// Returns true if anything differs at `field` or under it. The field is dotted text or an array of names.
    #[must_use]
    pub fn touches(&self, field: impl Into<FieldPath>) -> bool {
        !self.reduced(&field.into()).is_empty()
    }
    /// Returns true if there are no differences.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Returns the differences in order.
    pub fn iter(&self) -> std::slice::Iter<'_, DiffItem> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a Diff {
    type Item = &'a DiffItem;
    type IntoIter = std::slice::Iter<'a, DiffItem>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl DiffOp {
    /// Returns `add`, `change` or `remove`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Change => "change",
            Self::Remove => "remove",
        }
    }
}

equals_text!(DiffOp, |op, text| op.as_str() == text);

impl fmt::Display for DiffOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for DiffItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field: Value = self.field.parts().to_vec().into();
        write!(
            f,
            "('{}', {}, {}, {})",
            self.op,
            Python::tuple(&field),
            Python::value(self.old.as_ref().unwrap_or(&Value::Null)),
            Python::value(self.new.as_ref().unwrap_or(&Value::Null)),
        )
    }
}

impl fmt::Display for Diff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        for (number, item) in self.0.iter().enumerate() {
            if number > 0 {
                f.write_str(" ")?;
            }
            write!(f, "{item}")?;
            if number + 1 < self.0.len() || number == 0 {
                f.write_str(",")?;
            }
        }
        f.write_str(")")
    }
}

/// Returns true if two values are equivalent: `null` equals absence, and numbers compare by value.
pub(crate) fn same(a: Option<&Value>, b: Option<&Value>) -> bool {
    let (a, b) = (present(a), present(b));
    match (a, b) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            a.iter().all(|(key, value)| same(Some(value), b.get(key)))
                && b.iter().all(|(key, value)| value.is_null() || a.contains_key(key))
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(Some(a), Some(b)))
        }
        (Some(Value::Number(a)), Some(Value::Number(b))) => a == b || same_number(a, b),
        (a, b) => a == b,
    }
}

/// Tolerates the last bit of a float, which a round trip through text may change.
fn same_number(a: &serde_json::Number, b: &serde_json::Number) -> bool {
    if !a.is_f64() && !b.is_f64() {
        return false;
    }
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => (a - b).abs() <= f64::EPSILON * a.abs().max(b.abs()),
        _ => false,
    }
}

fn present(value: Option<&Value>) -> Option<&Value> {
    value.filter(|value| !value.is_null())
}

fn compare(old: Option<&Value>, new: Option<&Value>, path: &mut Vec<String>, items: &mut Vec<DiffItem>) {
    let (old, new) = (present(old), present(new));
    let op = match (old, new) {
        (None, None) => return,
        (None, Some(_)) => DiffOp::Add,
        (Some(_), None) => DiffOp::Remove,
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let added = b.iter().filter(|(key, _)| !a.contains_key(*key));
            let kept = a.iter().filter(|(key, _)| !b.contains_key(*key));
            let common = a.iter().filter(|(key, _)| b.contains_key(*key));
            let keys = added.chain(kept).chain(common).map(|(key, _)| key);
            for key in keys {
                path.push(key.clone());
                compare(a.get(key), b.get(key), path, items);
                path.pop();
            }
            return;
        }
        _ if same(old, new) => return,
        _ => DiffOp::Change,
    };
    items.push(DiffItem {
        op,
        field: FieldPath::from_parts(path.iter().cloned()),
        old: old.cloned(),
        new: new.cloned(),
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn diff(old: &Value, new: &Value) -> String {
        Diff::between(Some(old), Some(new)).to_string()
    }

    #[test]
    fn differs_as_in_kopf() {
        for (old, new, expected) in [
            (json!({"a": 1}), json!({"a": 1}), "()"),
            (json!(null), json!({"a": 1}), "(('add', (), None, {'a': 1}),)"),
            (json!({"a": 1}), json!(null), "(('remove', (), {'a': 1}, None),)"),
            (
                json!({"spec": {"a": "v"}}),
                json!({"spec": {"a": "w"}}),
                "(('change', ('spec', 'a'), 'v', 'w'),)",
            ),
            (
                json!({"a": 1, "b": 1, "c": 1}),
                json!({"b": 2, "d": 1, "c": 1}),
                "(('add', ('d',), None, 1), ('remove', ('a',), 1, None), ('change', ('b',), 1, 2))",
            ),
            (json!({"a": 1}), json!({"a": null}), "(('remove', ('a',), 1, None),)"),
            (json!({"a": null}), json!({}), "()"),
            (json!({"l": [1, 2]}), json!({"l": [1, 3]}), "(('change', ('l',), [1, 2], [1, 3]),)"),
            (json!({"l": [1.0, {"a": null}]}), json!({"l": [1, {}]}), "()"),
            (json!({"a": {"b": 1}}), json!({"a": 1}), "(('change', ('a',), {'b': 1}, 1),)"),
            (
                json!({"spec": 1}),
                json!({"spec": 1, "metadata": {"labels": {"l": "x"}}}),
                "(('add', ('metadata',), None, {'labels': {'l': 'x'}}),)",
            ),
        ] {
            assert_eq!(diff(&old, &new), expected);
        }
    }

    #[test]
    fn a_lost_last_bit_is_no_change() {
        let a = 0.1_f64;
        let b = f64::from_bits(a.to_bits() + 1);
        assert_eq!(diff(&json!({"x": a}), &json!({"x": b})), "()");
        assert_ne!(
            diff(&json!({"x": 9_007_199_254_740_993_u64}), &json!({"x": 9_007_199_254_740_992_u64})),
            "()"
        );
        assert_ne!(diff(&json!({"x": true}), &json!({"x": 1})), "()");
    }

    #[test]
    fn reduces_to_a_field() {
        let old = json!({"spec": {"a": {"x": 1}, "b": 1}});
        let new = json!({"spec": {"a": {"x": 2}, "c": 1}});
        let whole = Diff::between(Some(&old), Some(&new));
        let reduced = |diff: &Diff, field| diff.reduced(&FieldPath::parse(field)).to_string();
        assert_eq!(reduced(&whole, "spec.a"), "(('change', ('x',), 1, 2),)");
        assert_eq!(reduced(&whole, "spec.a.x"), "(('change', (), 1, 2),)");
        assert_eq!(reduced(&whole, "spec.a.x.y"), "()");
        assert_eq!(reduced(&whole, "status"), "()");
        assert_eq!(whole.reduced(&FieldPath::default()), whole);
        let created = Diff::between(None, Some(&new));
        assert_eq!(reduced(&created, "spec.a"), "(('add', (), None, {'x': 2}),)");
        assert_eq!(reduced(&created, "spec.b"), "()");
    }
}
