//! Evaluates the CEL rules of schemas (`x-kubernetes-validations`).
//!
//! A rule that uses `oldSelf` runs only if an old value exists, unless it sets `optionalOldSelf`. A broken rule on an unchanged value is only
//! a warning. Independent of how expressions are evaluated (see `cel`).

use serde_json::Value;

use super::ratchet::counterpart;
use crate::cel::{self, Fault, Outcome, Program};
use crate::object::Body;
use crate::status::{Cause, shown};

/// The cost limits of one expression and of all rules of an object, see
/// <https://kubernetes.io/docs/reference/using-api/cel/#resource-constraints>.
const LIMIT: u64 = 1_000_000;
const BUDGET: u64 = 10_000_000;

/// The longest message, in bytes.
const LONGEST: usize = 5 * 1024;

/// The reasons of errors that prevent the evaluation of rules.
const BLOCKING: [&str; 5] = [
    "FieldValueNotSupported",
    "FieldValueRequired",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueTypeInvalid",
];

/// A value with its context.
#[derive(Clone, Copy)]
struct Node<'a> {
    schema: &'a Value,
    value: &'a Value,
    old: Option<&'a Value>,
    /// True if the value, or one around it, has not changed.
    unchanged: bool,
    /// True if the value is an object with metadata.
    whole: bool,
}

/// The result of all rules of an object.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    pub(crate) causes: Vec<Cause>,
    /// Broken rules on unchanged values, which only cause warnings.
    pub(crate) warnings: Vec<String>,
}

/// The results so far and the remaining cost budget; evaluation stops when the budget is spent.
struct Found {
    judged: Judged,
    left: u64,
    over: bool,
}

/// Evaluates the rules of an object; skips them if `found` has errors that prevent it.
pub(crate) fn check(schema: &Value, body: &Body, before: Option<&Body>, found: &[Cause]) -> Judged {
    if !has_rules(schema) {
        return Judged::default();
    }
    if found.iter().any(|cause| BLOCKING.contains(&cause.reason)) {
        let message = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
        return Judged {
            causes: vec![Cause::invalid("<nil>", &Value::Null, message)],
            warnings: Vec::new(),
        };
    }
    let value = Value::Object(body.clone());
    let old = before.map(|before| Value::Object(before.clone()));
    let node = Node {
        schema,
        value: &value,
        old: old.as_ref(),
        unchanged: false,
        whole: true,
    };
    judged(node, "")
}

/// Evaluates the rules of the value at `field`.
pub(crate) fn check_value(
    schema: &Value,
    value: &Value,
    old: Option<&Value>,
    field: &str,
) -> Vec<Cause> {
    if !has_rules(schema) {
        return Vec::new();
    }
    let node = Node {
        schema,
        value,
        old,
        unchanged: false,
        whole: is_whole(schema),
    };
    judged(node, field).causes
}

fn judged(node: Node<'_>, field: &str) -> Judged {
    let mut found = Found {
        judged: Judged::default(),
        left: BUDGET,
        over: false,
    };
    found.walk(node, field);
    found.judged
}

fn is_whole(schema: &Value) -> bool {
    schema.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true))
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

// === impl Found ===

impl Found {
    fn walk(&mut self, node: Node<'_>, path: &str) {
        let Node {
            schema, value, old, ..
        } = node;
        if value.is_null() {
            return;
        }
        let node = Node {
            unchanged: old.map_or(node.unchanged, |old| old == value),
            ..node
        };
        self.judge_all(schema, node, path);
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
                        whole: is_whole(schema),
                        ..node
                    };
                    self.walk(part, &path);
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
                        whole: is_whole(part),
                        ..node
                    };
                    self.walk(part, &format!("{path}[{at}]"));
                }
            }
            _ => {}
        }
    }

    /// Evaluates the rules of one value, without those of its parts.
    fn judge_all(&mut self, rules: &Value, node: Node<'_>, path: &str) {
        for rule in own_rules(rules) {
            if self.over {
                return;
            }
            let subject = Subject::new(rule, node, path);
            if self.left == 0 {
                self.end(subject.failed(SPENT));
            } else {
                self.judge(&subject);
            }
        }
    }

    fn end(&mut self, cause: Cause) {
        self.judged.causes.push(cause);
        self.over = true;
    }

    fn judge(&mut self, subject: &Subject<'_>) {
        let source = subject.text("rule");
        if source.trim().is_empty() {
            return;
        }
        let program = match Program::of(source) {
            Ok(program) => program,
            Err(why) => {
                let why = format!("rule compile error: {why}");
                self.judged.causes.push(subject.failed(&why));
                return;
            }
        };
        let uses_old = program.names("oldSelf");
        if uses_old && subject.node.old.is_none() && !subject.optional {
            return;
        }
        let (made, cost) = program.run(subject.names(), LIMIT);
        let Some(left) = self.left.checked_sub(cost) else {
            return self.end(subject.failed(SPENT));
        };
        self.left = left;
        match made {
            Ok(cel::Value::Bool(true)) => return,
            Ok(_) => {}
            Err(Fault::Told(why)) if why.starts_with("no such overload") => {
                let why = format!(
                    "'{why}': call arguments did not match a supported operator, function or macro signature for rule: {}",
                    subject.rule_or_message()
                );
                return self.judged.causes.push(subject.failed(&why));
            }
            Err(Fault::Told(why)) => {
                let why = format!("{why} evaluating rule: {}", subject.rule_or_message());
                return self.judged.causes.push(subject.failed(&why));
            }
            Err(Fault::Limit) => {
                let why = format!(
                    "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: {}",
                    subject.rule_or_message()
                );
                return self.end(subject.failed(&why));
            }
        }
        let told = self.message(subject);
        let (over, cause) = match told {
            Ok(told) => (false, subject.complaint(&told)),
            Err(why) => (true, subject.failed(&why)),
        };
        self.over |= over;
        if subject.node.unchanged && !uses_old {
            let warning = format!("{}: {}", cause.field, cause.message);
            self.judged.warnings.push(warning);
        } else {
            self.judged.causes.push(cause);
        }
    }

    /// Returns the message for a broken rule, or the error that ends the evaluation.
    fn message(&mut self, subject: &Subject<'_>) -> Result<String, String> {
        let told = match subject.text("message").trim() {
            "" => format!("failed rule: {}", subject.text("rule").trim()),
            message => message.to_owned(),
        };
        let source = subject.text("messageExpression");
        let Some(program) = Program::of(source).ok().filter(|_| !source.is_empty()) else {
            return Ok(told);
        };
        let (made, cost) = program.run(subject.names(), LIMIT);
        let Some(left) = self.left.checked_sub(cost) else {
            return Err("messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run".to_owned());
        };
        self.left = left;
        Ok(match made {
            Ok(cel::Value::Text(text)) => {
                let text = text.trim();
                let fits = !text.is_empty() && text.len() <= LONGEST && !text.contains('\n');
                if fits { text.to_owned() } else { told }
            }
            Err(Fault::Limit) => {
                return Err(format!(
                    "no further validation rules will be run due to call cost exceeds limit for messageExpression: {source:?}"
                ));
            }
            _ => told,
        })
    }
}

const SPENT: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// A rule and the value that it applies to.
struct Subject<'a> {
    rule: &'a Value,
    node: Node<'a>,
    path: &'a str,
    /// True if `oldSelf` is bound as an optional value.
    optional: bool,
}

// === impl Subject ===

impl<'a> Subject<'a> {
    fn new(rule: &'a Value, node: Node<'a>, path: &'a str) -> Self {
        let optional = rule.get("optionalOldSelf") == Some(&Value::Bool(true));
        Self {
            rule,
            node,
            path,
            optional,
        }
    }

    fn text(&self, name: &str) -> &'a str {
        let found = self.rule.get(name).and_then(Value::as_str);
        found.unwrap_or_default()
    }

    fn names(&self) -> Vec<(&'a str, Outcome<'a>)> {
        let node = self.node;
        let of = |value: &'a Value| cel::Value::of(node.schema, value, node.whole);
        let old = match (node.old, self.optional) {
            (None, true) => Some(Ok(cel::Value::Optional(None))),
            (None, false) => None,
            (Some(old), true) => {
                Some(of(old).map(|old| cel::Value::Optional(Some(std::rc::Rc::new(old)))))
            }
            (Some(old), false) => Some(of(old)),
        };
        let old = old.map(|old| ("oldSelf", old));
        [("self", of(node.value))].into_iter().chain(old).collect()
    }

    fn kind(&self) -> &'a str {
        let kind = self.node.schema.get("type").and_then(Value::as_str);
        kind.unwrap_or_default()
    }

    fn field(&self) -> &'a str {
        if self.path.is_empty() {
            "<nil>"
        } else {
            self.path
        }
    }

    fn rule_or_message(&self) -> &'a str {
        match self.text("message").trim() {
            "" => self.text("rule").trim(),
            message => message,
        }
    }

    /// Returns the error for a rule that could not be evaluated.
    fn failed(&self, why: &str) -> Cause {
        Cause::invalid(self.field(), &self.kind().into(), why)
    }

    fn complaint(&self, told: &str) -> Cause {
        let field = match self.text("fieldPath") {
            "" => self.field().to_owned(),
            tail => format!("{}{tail}", self.path)
                .trim_start_matches('.')
                .to_owned(),
        };
        let value = (!matches!(self.kind(), "object" | "array")).then_some(self.node.value);
        complaint(self.text("reason"), field, value, told)
    }
}

fn complaint(reason: &str, field: String, value: Option<&Value>, told: &str) -> Cause {
    match (reason, value) {
        ("FieldValueForbidden", _) => Cause::forbidden(field, told),
        ("FieldValueRequired", _) => Cause::required(field, told),
        ("FieldValueDuplicate", value) => {
            let shown = value.map(|value| format!(": {}", shown(value)));
            let message = format!("Duplicate value{}", shown.unwrap_or_default());
            Cause::new("FieldValueDuplicate", field, message)
        }
        (_, Some(value)) => Cause::invalid(field, value, told),
        (_, None) => Cause::new("FieldValueInvalid", field, format!("Invalid value: {told}")),
    }
}

#[cfg(test)]
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
            let causes = check(&schema, &body(&new), old.as_ref().map(body).as_ref(), &[]).causes;
            let told: Vec<String> = causes
                .iter()
                .map(|cause| format!("{}: {}", cause.field, cause.message))
                .collect();
            assert_eq!(told, expected, "{new}");
        }
    }
}
