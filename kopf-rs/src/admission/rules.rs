//! Where validation rules go: into the definition of their kind, or into a policy, as what they read demands.
//!
//! Promises that the same rules and resources give the same objects, with all that the server would else fill in. Must not know who writes them.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::admission::configuration::in_namespaces;
use crate::admission::expression::{for_policy, reads, within};
use crate::admission::route::hook_name;
use crate::handler::operation::Operation;
use crate::handler::validation_rule::{DeclaredRule, ValidationRule};
use crate::object::resource::Resource;

/// Who enforces a rule for a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RulePlace {
    /// `x-kubernetes-validations` of its `CustomResourceDefinition`: all that is wrong is told at once, with its path.
    Definition,
    /// A `ValidatingAdmissionPolicy` with its binding.
    Policy,
}

/// A policy, and its binding.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RulePolicy {
    pub(crate) rule: String,
    pub(crate) name: String,
    pub(crate) policy: Value,
    pub(crate) binding: Value,
}

/// What policies are made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PolicySource<'a> {
    pub(crate) rules: &'a [Arc<DeclaredRule>],
    /// Those that are served, in all their versions.
    pub(crate) resources: &'a [Resource],
    /// What names end with, and the beginning of the label that says whose they are: `OPERATOR.kopf.rs`.
    pub(crate) domain: &'a str,
    /// The namespaces that the operator is for, where it is not for all.
    pub(crate) namespaces: Option<&'a BTreeSet<String>>,
}

const API_VERSION: &str = "admissionregistration.k8s.io/v1";

/// The field of a schema that has its rules.
const RULES: &str = "x-kubernetes-validations";

/// The label of what was made of rules of an operator.
pub(crate) fn label(domain: &str) -> String {
    format!("{domain}/rule")
}

/// Who enforces a rule for a kind: the definition, as long as that can.
pub(crate) fn place(rule: &ValidationRule, resource: &Resource) -> RulePlace {
    let mut read = reads(&rule.expression);
    let message = rule.message_expression.as_deref().map(reads);
    let message = message.unwrap_or_default();
    read.metadata |= message.metadata;
    read.beyond |= message.beyond;
    let all = [Operation::Create, Operation::Update];
    let is_plain = !rule.warns && !rule.ignores_failures && !rule.is_policy;
    let is_for_all = rule.operations.is_empty()
        || all.iter().all(|it| rule.operations.contains(it)) && rule.operations.len() == 2;
    if resource.is_custom() && is_plain && is_for_all && !read.metadata && !read.beyond {
        RulePlace::Definition
    } else {
        RulePlace::Policy
    }
}

/// The part of an object that most rules are about.
const SPEC: &str = "spec";

/// The schema that is to hold the rule, and the rule as that has it: of the `spec` where it reads nothing else, so that it is not looked at while
/// somebody changes labels, finalizers or the status of an object that breaks it already.
fn placed<'a>(schema: &'a mut Value, rule: &ValidationRule) -> (&'a mut Value, Value) {
    let expression = rule.expression.trim();
    let message = rule.message_expression.as_deref().unwrap_or_default();
    let field = rule.field.as_deref().map(|it| it.trim_start_matches('.'));
    let field_below = field.map(|it| it.strip_prefix("spec."));
    let below = within(expression, SPEC).filter(|it| it != expression);
    let below = below.zip(within(message, SPEC));
    let has_spec = schema["properties"][SPEC]["type"] == "object";
    let (schema, expression, message, field) = match (below, field_below) {
        (Some((expression, message)), None) if has_spec => {
            (&mut schema["properties"][SPEC], expression, message, None)
        }
        (Some((expression, message)), Some(Some(field))) if has_spec => (
            &mut schema["properties"][SPEC],
            expression,
            message,
            Some(field),
        ),
        _ => (schema, expression.to_owned(), message.to_owned(), field),
    };
    let mut made = json!({"rule": expression});
    if let Some(message) = &rule.message {
        made["message"] = message.trim().into();
    }
    if !message.is_empty() {
        made["messageExpression"] = message.into();
    }
    if let Some(field) = field {
        made["fieldPath"] = format!(".{field}").into();
    }
    (schema, made)
}

/// The definition with the rules of its kind. A rule that it has with other words is replaced.
pub(crate) fn with_rules(definition: &Value, rules: &[Arc<DeclaredRule>]) -> Value {
    let mut made = definition.clone();
    let whole = definition["spec"].clone();
    let versions = made["spec"]["versions"].as_array_mut();
    for version in versions.into_iter().flatten() {
        let resource = resource(&whole, version);
        let schema = &mut version["schema"]["openAPIV3Schema"];
        if !schema.is_object() {
            continue;
        }
        for rule in of_definition(rules, &resource) {
            let (schema, made) = placed(schema, rule);
            let mut all = schema[RULES].as_array().cloned().unwrap_or_default();
            match all.iter_mut().find(|it| it["rule"] == made["rule"]) {
                Some(known) => *known = made,
                None => all.push(made),
            }
            schema[RULES] = all.into();
        }
    }
    made
}

/// The rules that this definition should hold, and does not.
pub(crate) fn missing_in(definition: &Value, rules: &[Arc<DeclaredRule>]) -> Vec<String> {
    let mut missing = Vec::new();
    let mut definition = definition.clone();
    let whole = definition["spec"].clone();
    let versions = definition["spec"]["versions"].as_array_mut();
    for version in versions.into_iter().flatten() {
        let resource = resource(&whole, version);
        for rule in of_definition(rules, &resource) {
            let (schema, wanted) = placed(&mut version["schema"]["openAPIV3Schema"], rule);
            let mut held = schema[RULES].as_array().into_iter().flatten();
            let is_held = held.any(|it| it["rule"] == wanted["rule"]);
            if !is_held && !missing.contains(&rule.id) {
                missing.push(rule.id.clone());
            }
        }
    }
    missing
}

/// The rules that the definition of this resource is to enforce.
fn of_definition<'a>(
    rules: &'a [Arc<DeclaredRule>],
    resource: &Resource,
) -> Vec<&'a ValidationRule> {
    let one = std::slice::from_ref(resource);
    let rules = rules.iter();
    let rules = rules.filter(|it| !it.selector.select(one).is_empty());
    let rules = rules.map(|it| &it.rule);
    rules
        .filter(|it| place(it, resource) == RulePlace::Definition)
        .collect()
}

/// One version of what is defined.
fn resource(spec: &Value, version: &Value) -> Resource {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let texts = |value: &Value| {
        let items = value.as_array().into_iter().flatten();
        items.map(text).collect()
    };
    let names = &spec["names"];
    let kind = text(&names["kind"]);
    let singular = text(&names["singular"]);
    Resource {
        group: text(&spec["group"]),
        version: text(&version["name"]),
        plural: text(&names["plural"]),
        singular: if singular.is_empty() {
            kind.to_lowercase()
        } else {
            singular
        },
        kind,
        short_names: texts(&names["shortNames"]),
        categories: texts(&names["categories"]),
        namespaced: spec["scope"] == "Namespaced",
        preferred: true,
        ..Resource::default()
    }
}

/// The names of the definitions that are to enforce rules.
pub(crate) fn definitions(source: PolicySource<'_>) -> BTreeSet<String> {
    let named = source.rules.iter().flat_map(|declared| {
        let resources = declared.selector.select(source.resources).into_iter();
        let own = resources.filter(|it| place(&declared.rule, it) == RulePlace::Definition);
        own.map(|it| format!("{}.{}", it.plural, it.group))
    });
    named.collect()
}

/// The policies, in the order of their rules. A rule whose kinds are not served, or enforce it by their definitions, has none.
pub(crate) fn policies(source: PolicySource<'_>) -> Vec<RulePolicy> {
    let rules = source.rules.iter();
    rules.filter_map(|it| policy(it, source)).collect()
}

/// The names of policies that are to stay: of rules whose kinds are not served, too, for that may pass.
pub(crate) fn names(source: PolicySource<'_>) -> BTreeSet<String> {
    let all = source.rules.iter();
    let unserved = all.filter(|it| it.selector.select(source.resources).is_empty());
    let unserved = unserved.map(|it| hook_name(&it.rule.id, source.domain));
    let made = policies(source).into_iter().map(|it| it.name);
    made.chain(unserved).collect()
}

fn policy(declared: &DeclaredRule, source: PolicySource<'_>) -> Option<RulePolicy> {
    let rule = &declared.rule;
    let mut rules: Vec<Value> = Vec::new();
    let mut known: Vec<&Resource> = Vec::new();
    for resource in declared.selector.select(source.resources) {
        let is_known = known.iter().any(|it| it.identity() == resource.identity());
        if is_known || place(rule, resource) == RulePlace::Definition {
            continue;
        }
        known.push(resource);
        rules.push(json!({
            "apiGroups": [resource.group], "apiVersions": [resource.version],
            "operations": operations(rule), "resources": [resource.plural], "scope": "*",
        }));
    }
    if rules.is_empty() {
        return None;
    }
    let name = hook_name(&rule.id, source.domain);
    let metadata = json!({"name": name, "labels": {label(source.domain): "true"}});
    let namespaces = source.namespaces.map_or(json!({}), in_namespaces);
    let policy = json!({
        "apiVersion": API_VERSION, "kind": "ValidatingAdmissionPolicy", "metadata": metadata,
        "spec": {
            "failurePolicy": if rule.ignores_failures { "Ignore" } else { "Fail" },
            "matchConstraints": {
                "matchPolicy": "Equivalent", "namespaceSelector": namespaces, "objectSelector": {}, "resourceRules": rules,
            },
            "validations": [validation(rule)],
        },
    });
    let action = if rule.warns { "Warn" } else { "Deny" };
    let binding = json!({
        "apiVersion": API_VERSION, "kind": "ValidatingAdmissionPolicyBinding", "metadata": metadata,
        "spec": {"policyName": name, "validationActions": [action]},
    });
    Some(RulePolicy {
        rule: rule.id.clone(),
        name,
        policy,
        binding,
    })
}

fn validation(rule: &ValidationRule) -> Value {
    let mut made = json!({"expression": for_policy(rule.expression.trim())});
    if let Some(message) = &rule.message {
        let message = message.trim();
        made["message"] = match &rule.field {
            Some(field) => format!("{field}: {message}").into(),
            None => message.into(),
        };
    }
    if let Some(expression) = &rule.message_expression {
        made["messageExpression"] = for_policy(expression).into();
    }
    made
}

/// The operations that a policy looks at. A new object has been nothing before.
fn operations(rule: &ValidationRule) -> Vec<&'static str> {
    if !rule.operations.is_empty() {
        return rule.operations.iter().map(|it| it.as_str()).collect();
    }
    if reads(&rule.expression).old {
        vec!["UPDATE"]
    } else {
        vec!["CREATE", "UPDATE"]
    }
}

/// The merge patch that makes one value of the other.
pub(crate) fn merge_to(found: &Value, wanted: &Value) -> Value {
    let (Some(had), Some(all)) = (found.as_object(), wanted.as_object()) else {
        return wanted.clone();
    };
    let gone = had.keys().filter(|it| !all.contains_key(*it));
    let gone = gone.map(|it| (it.clone(), Value::Null));
    let changed = all
        .iter()
        .filter(|(key, value)| had.get(*key) != Some(value));
    let changed = changed.map(|(key, value)| {
        let before = had.get(key).unwrap_or(&Value::Null);
        (key.clone(), merge_to(before, value))
    });
    gone.chain(changed).collect()
}

#[cfg(test)]
mod tests;
