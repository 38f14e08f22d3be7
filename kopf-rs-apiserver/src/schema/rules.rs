//! `x-kubernetes-validations`: which rules apply to which value, and what is said of those that are broken.
//!
//! Promise: a rule that names `oldSelf` runs only where there is an old value to compare with, unless it says otherwise; a
//! value that did not change is not complained about. Must not know how expressions are evaluated (`expression` does).

use serde_json::Value;

use super::expression::{self, Expressions};
use super::ratchet::counterpart;
use crate::object::Body;
use crate::status::{Cause, shown};

/// Complaints after which rules are not looked at.
const BLOCKING: [&str; 5] = [
    "FieldValueNotSupported",
    "FieldValueRequired",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueTypeInvalid",
];

/// A value with what is known of it.
#[derive(Clone, Copy)]
struct Node<'a> {
    schema: &'a Value,
    value: &'a Value,
    old: Option<&'a Value>,
    /// It is, or lies within, what has not changed.
    unchanged: bool,
}

/// What the rules of a schema say of an object; `found` is what else is wrong with it.
pub(crate) fn check(
    schema: &Value,
    body: &Body,
    before: Option<&Body>,
    found: &[Cause],
) -> Vec<Cause> {
    if !expression::AVAILABLE || !has_rules(schema) {
        return Vec::new();
    }
    if found.iter().any(|cause| BLOCKING.contains(&cause.reason)) {
        let message = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
        return vec![Cause::invalid("<nil>", &Value::Null, message)];
    }
    let value = Value::Object(body.clone());
    let old = before.map(|before| Value::Object(before.clone()));
    let node = Node {
        schema,
        value: &value,
        old: old.as_ref(),
        unchanged: false,
    };
    let mut causes = Vec::new();
    walk(&Expressions::new(), node, "", &mut causes);
    causes
}

/// What the rules of a schema say of a value at that field.
pub(crate) fn check_value(
    schema: &Value,
    value: &Value,
    old: Option<&Value>,
    field: &str,
) -> Vec<Cause> {
    let mut causes = Vec::new();
    if expression::AVAILABLE && has_rules(schema) {
        let node = Node {
            schema,
            value,
            old,
            unchanged: false,
        };
        walk(&Expressions::new(), node, field, &mut causes);
    }
    causes
}

fn has_rules(schema: &Value) -> bool {
    let parts = |name: &str| {
        let found = schema.get(name).and_then(Value::as_object);
        found.into_iter().flat_map(serde_json::Map::values)
    };
    !own_rules(schema).is_empty()
        || parts("properties").any(has_rules)
        || schema.get("items").is_some_and(has_rules)
        || schema.get("additionalProperties").is_some_and(has_rules)
}

fn own_rules(schema: &Value) -> &[Value] {
    let rules = schema
        .get("x-kubernetes-validations")
        .and_then(Value::as_array);
    rules.map_or(&[], Vec::as_slice)
}

fn walk(expressions: &Expressions, node: Node<'_>, path: &str, causes: &mut Vec<Cause>) {
    let Node {
        schema, value, old, ..
    } = node;
    let node = Node {
        unchanged: old.map_or(node.unchanged, |old| old == value),
        ..node
    };
    if value.is_null() {
        return;
    }
    for rule in own_rules(schema) {
        causes.extend(judge(expressions, rule, node, path));
    }
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                let Some((schema, path)) = super::part(schema, name, path) else {
                    continue;
                };
                let part = Node {
                    schema,
                    value,
                    old: old.and_then(|old| old.get(name)),
                    ..node
                };
                walk(expressions, part, &path, causes);
            }
        }
        Value::Array(items) => {
            let Some(part) = schema.get("items") else {
                return;
            };
            for (at, item) in items.iter().enumerate() {
                let part = Node {
                    schema: part,
                    value: item,
                    old: old
                        .and_then(Value::as_array)
                        .and_then(|old| counterpart(schema, item, old)),
                    ..node
                };
                walk(expressions, part, &format!("{path}[{at}]"), causes);
            }
        }
        _ => {}
    }
}

/// What a rule says of a value, if anything.
fn judge(expressions: &Expressions, rule: &Value, node: Node<'_>, path: &str) -> Option<Cause> {
    let text = |name: &str| rule.get(name).and_then(Value::as_str).unwrap_or_default();
    let source = text("rule");
    let optional = rule.get("optionalOldSelf") == Some(&Value::Bool(true));
    let uses_old = expressions.names_old(source);
    if uses_old && node.old.is_none() && !optional {
        return None;
    }
    let values = expression::Values {
        schema: node.schema,
        value: node.value,
        old: node.old,
        optional,
    };
    let shown_path = if path.is_empty() { "<nil>" } else { path };
    let told = match text("message").trim() {
        "" => format!("failed rule: {}", source.trim()),
        message => message.to_owned(),
    };
    let kind = expression::type_name(node.schema);
    match expressions.truth(source, &values) {
        Ok(true) => return None,
        Ok(false) => {}
        Err(why) => {
            let rule = match text("message").trim() {
                "" => source.trim(),
                message => message,
            };
            let message = format!("{why} evaluating rule: {rule}");
            return Some(Cause::invalid(shown_path, &kind.into(), &message));
        }
    }
    if node.unchanged && !uses_old {
        return None;
    }
    let told = Some(text("messageExpression"))
        .filter(|source| !source.is_empty())
        .and_then(|source| expressions.text(source, &values))
        .unwrap_or(told);
    let field = match text("fieldPath") {
        "" => shown_path.to_owned(),
        tail => format!("{path}{tail}").trim_start_matches('.').to_owned(),
    };
    let value = (!matches!(kind, "object" | "array")).then_some(node.value);
    Some(complaint(text("reason"), field, value, &told))
}

fn complaint(reason: &str, field: String, value: Option<&Value>, told: &str) -> Cause {
    match (reason, value) {
        ("FieldValueForbidden", _) => Cause::forbidden(field, told),
        ("FieldValueRequired", _) => Cause::required(field, told),
        ("FieldValueDuplicate", value) => {
            let shown = value.map(shown).unwrap_or_default();
            let message = format!("Duplicate value: {shown}");
            Cause::new("FieldValueDuplicate", field, message)
        }
        (_, Some(value)) => Cause::invalid(field, value, told),
        (_, None) => Cause::new("FieldValueInvalid", field, format!("Invalid value: {told}")),
    }
}

#[cfg(all(test, feature = "cel"))]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rules_by_table() {
        let schema = json!({"type": "object", "properties": {"spec": {
            "type": "object",
            "x-kubernetes-validations": [
                {"rule": "!has(self.a) || self.a > 0", "message": "must be positive"},
                {"rule": "!has(self.b) || self.b != 'x'", "messageExpression": "'b is ' + self.b", "fieldPath": ".b", "reason": "FieldValueForbidden"},
            ],
            "properties": {
                "a": {"type": "integer"},
                "b": {"type": "string"},
                "c": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]},
                "d": {"type": "string", "x-kubernetes-validations": [{"rule": "oldSelf.orValue('no') != self", "optionalOldSelf": true}]},
            },
        }}});
        for (new, old, expected) in [
            (json!({"a": 1, "b": "y"}), None, vec![]),
            (
                json!({"a": 0}),
                None,
                vec!["spec: Invalid value: must be positive"],
            ),
            (json!({"b": "x"}), None, vec!["spec.b: Forbidden: b is x"]),
            (json!({"c": "x"}), None, vec![]),
            (
                json!({"c": "x"}),
                Some(json!({"c": "y"})),
                vec!["spec.c: Invalid value: \"x\": failed rule: self == oldSelf"],
            ),
            (json!({"a": 0}), Some(json!({"a": 0})), vec![]),
            (
                json!({"d": "no"}),
                None,
                vec!["spec.d: Invalid value: \"no\": failed rule: oldSelf.orValue('no') != self"],
            ),
        ] {
            let body = |spec: &Value| json!({"spec": spec}).as_object().unwrap().clone();
            let causes = check(&schema, &body(&new), old.as_ref().map(body).as_ref(), &[]);
            let told: Vec<String> = causes
                .iter()
                .map(|cause| format!("{}: {}", cause.field, cause.message))
                .collect();
            assert_eq!(told, expected, "{new}");
        }
    }
}
