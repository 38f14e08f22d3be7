//! Places validation rules into the definition of their kind or into a policy, depending on the values that they read.
//!
//! This module guarantees that the same rules and resources yield the same objects, including all fields that the
//! server would otherwise default. It must not depend on the component that writes them.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::admission::conditions::namespace_condition;
use crate::admission::configuration::{Found, in_namespaces};
use crate::admission::expression::{fields, for_policy, reads, within, zero_if_absent};
use crate::admission::route::hook_name;
use crate::handler::operation::Operation;
use crate::handler::validation_rule::{DeclaredRule, ValidationRule};
use crate::object::resource::Resource;

/// The place that enforces a rule for a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RulePlace {
    /// `x-kubernetes-validations` of its `CustomResourceDefinition`: the server reports all violations at once, with their paths.
    Definition,
    /// A `ValidatingAdmissionPolicy` with its binding.
    Policy,
}

/// A policy and its binding.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RulePolicy {
    pub(crate) rule: String,
    pub(crate) name: String,
    pub(crate) policy: Value,
    pub(crate) binding: Value,
}

/// The input for generating policies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PolicySource<'a> {
    pub(crate) rules: &'a [Arc<DeclaredRule>],
    pub(crate) found: &'a Found,
    /// The suffix of names, and the prefix of the label that marks the operator's policies: `OPERATOR.kopf.rs`.
    pub(crate) domain: &'a str,
}

/// The group of policies.
pub(crate) const GROUP: &str = "admissionregistration.k8s.io";

/// Equivalent versions of policies, the preferred one first. Kubernetes 1.28 and 1.29 have only the second one, if enabled.
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// The field of a schema that contains its rules.
const RULES: &str = "x-kubernetes-validations";

/// Returns the label of objects that were generated from rules of an operator.
pub(crate) fn label(domain: &str) -> String {
    format!("{domain}/rule")
}

/// Returns the place that enforces a rule for a kind: the definition where possible.
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

/// Returns the schema that is to contain the rule, and the rule in its form for that schema. A rule that reads only the `spec` is placed
/// there, so that it is not evaluated for changes of labels, finalizers or the status of an object that already violates it.
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
        (Some((expression, message)), Some(Some(field))) if has_spec => {
            (&mut schema["properties"][SPEC], expression, message, Some(field))
        }
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

/// Adds the rules of its kind to the definition, replacing outdated forms of a rule.
pub(crate) fn with_rules(definition: &Value, rules: &[Arc<DeclaredRule>]) -> Value {
    let mut made = definition.clone();
    each_placed(&mut made, rules, |schema, made, _| {
        if !schema.is_object() {
            return;
        }
        let mut all = schema[RULES].as_array().cloned().unwrap_or_default();
        match all.iter_mut().find(|it| it["rule"] == made["rule"]) {
            Some(known) => *known = made,
            None => all.push(made),
        }
        schema[RULES] = all.into();
    });
    made
}

/// Returns the rules that this definition should contain but lacks.
pub(crate) fn missing_in(definition: &Value, rules: &[Arc<DeclaredRule>]) -> Vec<String> {
    let mut missing = Vec::new();
    each_placed(&mut definition.clone(), rules, |schema, wanted, id| {
        let mut held = schema[RULES].as_array().into_iter().flatten();
        let is_held = held.any(|it| it["rule"] == wanted["rule"]);
        if !is_held && !missing.contains(id) {
            missing.push(id.clone());
        }
    });
    missing
}

/// Calls `visit` for each rule of each version with the rule's schema, the entry that the schema must contain, and the rule's id.
fn each_placed(
    definition: &mut Value,
    rules: &[Arc<DeclaredRule>],
    mut visit: impl FnMut(&mut Value, Value, &String),
) {
    let whole = definition["spec"].clone();
    let versions = definition["spec"]["versions"].as_array_mut();
    for version in versions.into_iter().flatten() {
        let resource = resource(&whole, version);
        for rule in of_definition(rules, &resource) {
            let (schema, made) = placed(&mut version["schema"]["openAPIV3Schema"], rule);
            visit(schema, made, &rule.id);
        }
    }
}

/// Returns the rules that the definition of this resource enforces.
fn of_definition<'a>(rules: &'a [Arc<DeclaredRule>], resource: &Resource) -> Vec<&'a ValidationRule> {
    let one = std::slice::from_ref(resource);
    let rules = rules.iter();
    let rules = rules.filter(|it| !it.selector.select(one).is_empty());
    let rules = rules.map(|it| &it.rule);
    rules.filter(|it| place(it, resource) == RulePlace::Definition).collect()
}

/// Returns one version of the defined kind as a resource.
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
        singular: if singular.is_empty() { kind.to_lowercase() } else { singular },
        kind,
        short_names: texts(&names["shortNames"]),
        categories: texts(&names["categories"]),
        namespaced: spec["scope"] == "Namespaced",
        preferred: true,
        ..Resource::default()
    }
}

/// Returns the names of the definitions that enforce rules.
pub(crate) fn definitions(source: PolicySource<'_>) -> BTreeSet<String> {
    let named = source.rules.iter().flat_map(|declared| {
        let resources = declared.selector.select(&source.found.resources).into_iter();
        let own = resources.filter(|it| place(&declared.rule, it) == RulePlace::Definition);
        own.map(|it| format!("{}.{}", it.plural, it.group))
    });
    named.collect()
}

/// Returns the policies in the order of their rules. A rule has none if its kinds are not served or enforce it by their definitions.
pub(crate) fn policies(source: PolicySource<'_>) -> Vec<RulePolicy> {
    let rules = source.rules.iter();
    rules.filter_map(|it| policy(it, source)).collect()
}

/// Returns the version for writing policies, or `None` if the cluster serves no known one.
pub(crate) fn policy_version(resources: &[Resource]) -> Option<&'static str> {
    let is_served = |version: &&str| {
        resources.iter().any(|it| {
            it.group == GROUP && it.plural == "validatingadmissionpolicies" && it.version == *version
        })
    };
    VERSIONS.into_iter().find(is_served)
}

/// Returns true if rules need policies, now or later: their kinds may be defined after the operator gets its permissions.
pub(crate) fn needs_policies(source: PolicySource<'_>) -> bool {
    let defined = Resource { group: "not.served.yet".to_owned(), ..Resource::default() };
    let mut rules = source.rules.iter();
    let is_unserved = |it: &DeclaredRule| {
        it.selector.select(&source.found.resources).is_empty()
            && place(&it.rule, &defined) == RulePlace::Policy
    };
    rules.any(|it| is_unserved(it) || policy(it, source).is_some())
}

/// Returns the names of policies to keep, including those of rules whose kinds are temporarily not served.
pub(crate) fn names(source: PolicySource<'_>) -> BTreeSet<String> {
    let all = source.rules.iter();
    let unserved = all.filter(|it| it.selector.select(&source.found.resources).is_empty());
    let unserved = unserved.map(|it| hook_name(&it.rule.id, source.domain));
    let made = policies(source).into_iter().map(|it| it.name);
    made.chain(unserved).collect()
}

fn policy(declared: &DeclaredRule, source: PolicySource<'_>) -> Option<RulePolicy> {
    let rule = &declared.rule;
    let mut rules: Vec<Value> = Vec::new();
    let mut known: Vec<&Resource> = Vec::new();
    let (mut is_beside_status, mut is_scaled) = (false, false);
    let read = fields(&rule.expression);
    let is_about_it = read.iter().any(|it| is_about_status(it));
    for resource in declared.selector.select(&source.found.resources) {
        let is_known = known.iter().any(|it| it.identity() == resource.identity());
        if is_known || place(rule, resource) == RulePlace::Definition {
            continue;
        }
        known.push(resource);
        let plural = &resource.plural;
        let below = subresources(rule, resource);
        is_beside_status |= below.contains(&"status") && !is_about_it;
        is_scaled |= below.contains(&SCALE);
        let mut resources = vec![plural.clone()];
        resources.extend(below.iter().map(|it| format!("{plural}/{it}")));
        rules.push(json!({
            "apiGroups": [resource.group], "apiVersions": [resource.version],
            "operations": operations(rule), "resources": resources, "scope": "*",
        }));
    }
    if rules.is_empty() {
        return None;
    }
    let name = hook_name(&rule.id, source.domain);
    let metadata = json!({"name": name, "labels": {label(source.domain): "true"}});
    let namespaces = source.found.namespaces.as_ref().map_or(json!({}), in_namespaces);
    let api_version = format!("{GROUP}/{}", policy_version(&source.found.resources).unwrap_or(VERSIONS[0]));
    let mut policy = json!({
        "apiVersion": api_version, "kind": "ValidatingAdmissionPolicy", "metadata": metadata,
        "spec": {
            "failurePolicy": if rule.ignores_failures { "Ignore" } else { "Fail" },
            "matchConstraints": {
                "matchPolicy": "Equivalent", "namespaceSelector": namespaces, "objectSelector": {}, "resourceRules": rules,
            },
            "validations": [validation(rule, (is_beside_status, is_scaled))],
        },
    });
    if let Some(expression) = &source.found.namespace_expression {
        policy["spec"]["matchConditions"] = json!([namespace_condition(expression)]);
    }
    let action = if rule.warns { "Warn" } else { "Deny" };
    let binding = json!({
        "apiVersion": api_version, "kind": "ValidatingAdmissionPolicyBinding", "metadata": metadata,
        "spec": {"policyName": name, "validationActions": [action]},
    });
    Some(RulePolicy { rule: rule.id.clone(), name, policy, binding })
}

/// The subresource that only changes the scale of an object.
const SCALE: &str = "scale";
/// The field that objects and their `Scale` share.
const REPLICAS: [&str; 2] = ["spec", "replicas"];
/// The name, which is immutable.
const NAME: [&str; 2] = ["metadata", "name"];
/// The metadata that a status request for a built-in kind may also change, with the equivalent of an absent value.
const BESIDE_STATUS: [(&str, &str); 4] =
    [("labels", "{}"), ("annotations", "{}"), ("finalizers", "[]"), ("ownerReferences", "[]")];
/// Subresources that change a part of a Pod; their requests contain the whole Pod.
const OF_PODS: [&str; 2] = ["ephemeralcontainers", "resize"];

/// Returns the subresources through which a request could violate the rule.
fn subresources(rule: &ValidationRule, resource: &Resource) -> Vec<&'static str> {
    if !operations(rule).contains(&"UPDATE") {
        return Vec::new();
    }
    let read = fields(&rule.expression);
    let mut wanted = Vec::new();
    if resource.identity() == ("", "pods") {
        wanted.extend(OF_PODS);
    }
    // The status subresource of custom resources ignores metadata.
    let is_beside = |field: &Vec<&str>| {
        let is_metadata = !resource.is_custom() && field.first() == Some(&"metadata");
        is_metadata && !field.starts_with(&NAME)
    };
    // Status requests cannot change the spec, so a rule about the spec needs no check there.
    if read.iter().any(|it| is_about_status(it) || is_beside(it)) {
        wanted.push("status");
    }
    // A `Scale` lacks all other fields.
    let is_there = |field: &Vec<&str>| field.starts_with(&REPLICAS) || field.starts_with(&NAME);
    let is_about_scale = read.iter().any(|it| it.starts_with(&REPLICAS));
    // Rules about the user or the namespace can be evaluated for a `Scale` too.
    if read.is_empty() || is_about_scale && read.iter().all(is_there) {
        wanted.push(SCALE);
    }
    wanted.retain(|it| resource.subresources.iter().any(|served| served == it));
    wanted
}

/// Returns true for the status, or for a path without a field, which may include the status.
fn is_about_status(field: &[&str]) -> bool {
    field.first().is_none_or(|it| *it == "status")
}

/// Returns an expression that holds if the metadata is unchanged.
fn is_kept() -> String {
    let kept = BESIDE_STATUS.map(|(field, empty)| {
        let [new, old] = ["object", "oldObject"].map(|it| {
            let field = format!("{it}.metadata.{field}");
            format!("(has({field}) ? {field} : {empty})")
        });
        format!("{new} == {old}")
    });
    kept.join(" && ")
}

/// Returns the expression for a policy. A `Scale` omits zero replicas, so an absent field counts as zero there. If the rule is not about the
/// status, a status update without metadata changes is accepted: the controller that reports the status is not responsible for the object's
/// labels, and an object without status updates could neither start nor terminate.
fn expression(rule: &ValidationRule, (is_beside_status, is_scaled): (bool, bool)) -> String {
    let expression = for_policy(rule.expression.trim());
    if is_beside_status {
        let kept = is_kept();
        // The line break ends a comment at the end of the expression.
        return format!(
            "has(request.subResource) && request.subResource == 'status' && {kept} ? true : ({expression}\n)"
        );
    }
    if !is_scaled {
        return expression;
    }
    let scaled = zero_if_absent(&expression, &REPLICAS);
    format!("has(request.subResource) && request.subResource == '{SCALE}' ? ({scaled}) : ({expression})")
}

fn validation(rule: &ValidationRule, by: (bool, bool)) -> Value {
    let mut made = json!({"expression": expression(rule, by)});
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

/// Returns the operations of a policy. A rule about the former state skips creations, because a new object has none.
fn operations(rule: &ValidationRule) -> Vec<&'static str> {
    if !rule.operations.is_empty() {
        return rule.operations.iter().map(|it| it.as_str()).collect();
    }
    if reads(&rule.expression).old { vec!["UPDATE"] } else { vec!["CREATE", "UPDATE"] }
}

#[cfg(test)]
mod tests;
