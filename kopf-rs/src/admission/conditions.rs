//! Translates the filters of a handler to CEL expressions in `matchConditions`: the API server does not call the webhook if they do not hold.
//!
//! This module guarantees that no expression fails for any object, because a failing one refuses the request. Filters
//! that are functions or cannot be translated exactly are left out: the handler's own check follows. It must not
//! depend on webhooks.

use serde_json::{Value, json};

use crate::handler::filter::{Criterion, Filters};
use crate::object::path::FieldPath;

/// The API server's limit of conditions per webhook.
pub(crate) const MOST: usize = 64;

/// The CEL expression for the namespace of a request.
pub(crate) const NAMESPACE: &str = "request.namespace";

/// Returns the condition that the namespace of a request satisfies this expression about [`NAMESPACE`]. Cluster-scoped objects always satisfy
/// it, as with a selector.
pub(crate) fn namespace_condition(expression: &str) -> Value {
    let expression = format!("!has({NAMESPACE}) || {NAMESPACE} == '' || {expression}");
    json!({"name": "namespace", "expression": expression})
}

/// Returns the conditions for a handler's annotations, field and value, and for objects that are being deleted if the handler ignores these.
pub(crate) fn conditions(
    filters: &Filters,
    field: Option<&FieldPath>,
    leaves_dying_alone: bool,
) -> Vec<Value> {
    let mut expressions = Vec::new();
    if leaves_dying_alone {
        let expression = "request.operation != 'UPDATE' || oldObject == null || !has(oldObject.metadata) || \
                          !has(oldObject.metadata.deletionTimestamp)";
        expressions.push(("not-being-deleted".to_owned(), expression.to_owned()));
    }
    let annotations = filters.annotations.iter().enumerate();
    for (at, (name, criterion)) in annotations {
        let path = ["metadata", "annotations", name.as_str()];
        if let Some(holds) = holds(&path, criterion) {
            expressions.push((format!("annotation-{at}"), holds));
        }
    }
    if let Some(field) = field {
        let parts: Vec<_> = field.parts().iter().map(String::as_str).collect();
        let criterion = filters.value.as_ref().unwrap_or(&Criterion::Present);
        if let Some(holds) = holds(&parts, criterion) {
            expressions.push(("field".to_owned(), holds));
        }
    }
    expressions.truncate(MOST);
    let written = expressions.into_iter();
    written.map(|(name, expression)| json!({"name": name, "expression": expression})).collect()
}

/// Returns an expression that checks the criterion at a path: in the object, or in the old object for a deletion.
fn holds(path: &[&str], criterion: &Criterion) -> Option<String> {
    let is_absent = matches!(criterion, Criterion::Absent);
    let wanted = match criterion {
        Criterion::Matches(_) => return None,
        Criterion::Present | Criterion::Absent => None,
        Criterion::Equals(value) => Some(literal(value)?),
    };
    let mut place = "o".to_owned();
    let mut steps = Vec::new();
    for key in path {
        let key = quoted(key);
        steps.push(format!("type({place}) == map && {key} in {place}"));
        place = format!("{place}[{key}]");
    }
    // Handlers treat `null` as absent.
    steps.push(format!("{place} != null"));
    if let Some(wanted) = wanted {
        steps.push(format!("{place} == {wanted}"));
    }
    let all = steps.join(" && ");
    let all = if is_absent { format!("!({all})") } else { all };
    Some(format!("[object != null ? object : oldObject].exists(o, {all})"))
}

/// Returns a CEL literal for values that are certainly equal in JSON and CEL. Numbers are excluded, because CEL has several number types.
fn literal(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(quoted(text)),
        Value::Bool(truth) => Some(truth.to_string()),
        _ => None,
    }
}

/// Returns text as a CEL literal.
fn quoted(text: &str) -> String {
    let mut written = String::from("'");
    for character in text.chars() {
        match character {
            '\'' | '\\' => written.extend(['\\', character]),
            '\n' => written.push_str("\\n"),
            '\r' => written.push_str("\\r"),
            '\t' => written.push_str("\\t"),
            other => written.push(other),
        }
    }
    written.push('\'');
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inexact_conditions_are_omitted() {
        let path = ["spec", "size"];
        assert!(holds(&path, &Criterion::matches(|_| true)).is_none());
        assert!(holds(&path, &Criterion::Equals(json!(1))).is_none());
        assert!(holds(&path, &Criterion::Equals(json!("x"))).is_some());
    }

    #[test]
    fn each_step_is_guarded() {
        assert_eq!(
            holds(&["spec", "it's"], &Criterion::Equals(json!(true))).unwrap(),
            "[object != null ? object : oldObject].exists(o, type(o) == map && 'spec' in o && type(o['spec']) == map && \
             'it\\'s' in o['spec'] && o['spec']['it\\'s'] != null && o['spec']['it\\'s'] == true)"
        );
        let absent = holds(&["a"], &Criterion::Absent).unwrap();
        assert!(absent.contains("!(type(o) == map && 'a' in o && o['a'] != null)"), "{absent}");
    }

    #[test]
    fn a_field_without_a_value_must_be_there() {
        let field = FieldPath::parse("spec.size");
        let written = conditions(&Filters::default(), Some(&field), true);
        let names: Vec<_> = written.iter().map(|it| it["name"].clone()).collect();
        assert_eq!(names, ["not-being-deleted", "field"]);
    }
}
