//! One webhook of a configuration: its rules, its address and its failure policy.
//!
//! Must not depend on how webhooks are called.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::place::Client;
use super::question::Dialect;
use crate::object::{Body, text};
use crate::selector::object::ObjectSelector;

/// A webhook.
#[derive(Clone, Debug, Default)]
pub(super) struct Hook {
    /// Identifies the webhook among others of the same name.
    pub(super) id: String,
    pub(super) name: String,
    pub(super) client: Client,
    /// The version of its reviews, and the answers that it may give.
    pub(super) version: Dialect,
    pub(super) rules: Vec<Rule>,
    pub(super) exact: bool,
    /// A failed call does not refuse the request.
    pub(super) ignores_failure: bool,
    /// Calls the webhook again if later webhooks change the object.
    pub(super) again: bool,
    pub(super) timeout: Duration,
    pub(super) namespaces: ObjectSelector,
    pub(super) objects: ObjectSelector,
    /// Names and expressions.
    pub(super) conditions: Vec<(String, String)>,
}

/// A rule that selects writes.
#[derive(Clone, Debug, Default)]
pub(super) struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    /// Limits the rule to objects of these names; empty means all. Webhook rules have no names.
    names: Vec<String>,
    scope: String,
}

/// A write, as rules see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    pub(super) operation: &'a str,
    pub(super) group: &'a str,
    pub(super) version: &'a str,
    pub(super) plural: &'a str,
    pub(super) subresource: &'a str,
    pub(super) name: &'a str,
    pub(super) namespaced: bool,
}

fn texts(map: &Value, field: &str) -> Vec<String> {
    let items = map.get(field).and_then(Value::as_array);
    let items = items.into_iter().flatten().filter_map(Value::as_str);
    items.map(str::to_owned).collect()
}

pub(super) fn word<'a>(map: &'a Value, field: &str) -> &'a str {
    map.get(field).and_then(Value::as_str).unwrap_or_default()
}

// === impl Hook ===

impl Hook {
    /// Returns the webhooks of a configuration, in order.
    pub(super) fn all_of(configuration: &Body) -> Vec<Self> {
        let validating = text(configuration, "kind") == "ValidatingWebhookConfiguration";
        let meta = crate::object::metadata(configuration);
        let owner = meta.map_or("", |meta| text(meta, "name"));
        let hooks = configuration.get("webhooks").and_then(Value::as_array);
        let hooks = hooks.into_iter().flatten().enumerate();
        hooks
            .map(|(index, hook)| Self {
                id: format!("{owner}/{index}"),
                ..Self::of(hook, validating)
            })
            .collect()
    }

    fn of(hook: &Value, validating: bool) -> Self {
        let list = |field: &str| hook.get(field).and_then(Value::as_array).into_iter();
        let selector = |field: &str| hook.get(field).map(ObjectSelector::of).unwrap_or_default();
        let known = |version: &&String| matches!(version.as_str(), "v1" | "v1beta1");
        let versions = texts(hook, "admissionReviewVersions");
        let seconds = hook.get("timeoutSeconds").and_then(Value::as_u64);
        let condition = |of: &Value| {
            (
                word(of, "name").to_owned(),
                word(of, "expression").to_owned(),
            )
        };
        Self {
            id: String::new(),
            name: word(hook, "name").to_owned(),
            client: Client::of(hook.get("clientConfig").unwrap_or(&Value::Null)),
            version: Dialect {
                version: versions.iter().find(known).cloned().unwrap_or_default(),
                validating,
            },
            rules: list("rules").flatten().map(Rule::of).collect(),
            exact: word(hook, "matchPolicy") == "Exact",
            ignores_failure: word(hook, "failurePolicy") == "Ignore",
            again: word(hook, "reinvocationPolicy") == "IfNeeded",
            timeout: Duration::from_secs(seconds.unwrap_or(10)),
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
            conditions: list("matchConditions").flatten().map(condition).collect(),
        }
    }

    /// Returns whether one of its rules matches.
    pub(super) fn wants(&self, target: Target<'_>) -> bool {
        self.rules.iter().any(|rule| rule.fits(target))
    }

    /// Returns whether the object selector matches one of the label sets, which are those of the new and the old object.
    pub(super) fn wants_labels(&self, of: &[BTreeMap<String, String>]) -> bool {
        of.iter().any(|labels| self.objects.matches(labels))
    }
}

// === impl Rule ===

impl Rule {
    pub(super) fn of(rule: &Value) -> Self {
        Self {
            operations: texts(rule, "operations"),
            groups: texts(rule, "apiGroups"),
            versions: texts(rule, "apiVersions"),
            resources: texts(rule, "resources"),
            names: texts(rule, "resourceNames"),
            scope: word(rule, "scope").to_owned(),
        }
    }

    pub(super) fn fits(&self, target: Target<'_>) -> bool {
        let any = |list: &[String], wanted: &str| {
            list.iter().any(|found| found == "*" || found == wanted)
        };
        let scope = match self.scope.as_str() {
            "Namespaced" => target.namespaced,
            "Cluster" => !target.namespaced,
            _ => true,
        };
        let resource = |found: &String| {
            let (plural, sub) = found.split_once('/').unwrap_or((found, ""));
            (plural == "*" || plural == target.plural) && (sub == "*" || sub == target.subresource)
        };
        scope
            && any(&self.operations, target.operation)
            && any(&self.groups, target.group)
            && any(&self.versions, target.version)
            && self.resources.iter().any(resource)
            && (self.names.is_empty() || self.names.iter().any(|it| it == target.name))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_by_table() {
        for (resource, plural, subresource, expected) in [
            ("pods", "pods", "", true),
            ("pods", "pods", "status", false),
            ("pods/*", "pods", "status", true),
            ("pods/*", "pods", "", true),
            ("*", "pods", "", true),
            ("*", "pods", "status", false),
            ("*/*", "pods", "status", true),
            ("*/scale", "pods", "status", false),
        ] {
            let rule = Rule::of(&json!({
                "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["*"], "resources": [resource], "scope": "*",
            }));
            let target = Target {
                operation: "CREATE",
                group: "",
                version: "v1",
                plural,
                subresource,
                name: "a",
                namespaced: true,
            };
            assert_eq!(
                rule.fits(target),
                expected,
                "{resource} {plural}/{subresource}"
            );
            assert!(!rule.fits(Target {
                operation: "DELETE",
                ..target
            }));
            let named = |names: &[&str]| Rule {
                names: names.iter().map(|it| (*it).to_owned()).collect(),
                ..rule.clone()
            };
            assert_eq!(named(&["b", "a"]).fits(target), expected);
            assert!(!named(&["b"]).fits(target));
        }
    }
}
