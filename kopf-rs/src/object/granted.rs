//! The permissions of an account, as rules of RBAC, and the decision whether they allow a request.
//!
//! Pure. Must not know how the API server is asked for the rules.

use std::collections::BTreeMap;

use serde_json::Value;

/// A request in the terms of RBAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question<'a> {
    /// `None` for the whole cluster.
    pub(crate) namespace: Option<&'a str>,
    pub(crate) verb: &'a str,
    pub(crate) group: &'a str,
    /// The plural, with the subresource after a slash.
    pub(crate) resource: &'a str,
    /// `None` for all objects.
    pub(crate) name: Option<&'a str>,
}

/// A rule that allows some requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GrantedRule {
    verbs: Vec<String>,
    groups: Vec<String>,
    resources: Vec<String>,
    /// Empty for all objects.
    names: Vec<String>,
}

/// The rules of an account: those in the whole cluster (`None`), and those in namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Granted(BTreeMap<Option<String>, Vec<GrantedRule>>);

impl GrantedRule {
    /// Reads a rule of a role, or of a `SelfSubjectRulesReview`.
    pub(crate) fn of(rule: &Value) -> Self {
        let texts = |field: &str| {
            let items = rule[field].as_array().into_iter().flatten();
            items.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            verbs: texts("verbs"),
            groups: texts("apiGroups"),
            resources: texts("resources"),
            names: texts("resourceNames"),
        }
    }

    /// Returns the rule that allows this request and no other.
    pub(crate) fn only(question: &Question<'_>) -> Self {
        Self {
            verbs: vec![question.verb.to_owned()],
            groups: vec![question.group.to_owned()],
            resources: vec![question.resource.to_owned()],
            names: question.name.into_iter().map(str::to_owned).collect(),
        }
    }

    fn allows(&self, question: &Question<'_>) -> bool {
        let has = |list: &[String], item: &str| list.iter().any(|it| it == "*" || it == item);
        let is_named = match question.name {
            _ if self.names.is_empty() => true,
            Some(name) => self.names.iter().any(|it| it == name),
            None => false,
        };
        let of_all = question.resource.split_once('/').map(|(_, subresource)| format!("*/{subresource}"));
        let is_resource =
            has(&self.resources, question.resource) || of_all.is_some_and(|it| self.resources.contains(&it));
        is_named && is_resource && has(&self.verbs, question.verb) && has(&self.groups, question.group)
    }
}

impl Granted {
    /// Adds rules in a namespace, or in the whole cluster.
    pub(crate) fn add(&mut self, namespace: Option<&str>, rules: impl IntoIterator<Item = GrantedRule>) {
        self.0.entry(namespace.map(str::to_owned)).or_default().extend(rules);
    }

    /// Returns whether a rule allows the request. Rules in the whole cluster also apply in each namespace.
    pub(crate) fn allows(&self, question: &Question<'_>) -> bool {
        let inside = question.namespace.and_then(|it| self.0.get(&Some(it.to_owned())));
        let rules = self.0.get(&None).into_iter().chain(inside).flatten();
        rules.into_iter().any(|it| it.allows(question))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn question(resource: &'static str, name: Option<&'static str>) -> Question<'static> {
        Question { namespace: Some("team"), verb: "get", group: "apps", resource, name }
    }

    #[test]
    fn rules_match_as_in_rbac() {
        let rule =
            |resources: &[&str]| json!({"verbs": ["get"], "apiGroups": ["apps"], "resources": resources});
        let with = |resources: &[&str], field: &str, value: Value| {
            let mut rule = rule(resources);
            rule[field] = value;
            rule
        };
        for (rule, resource, name, expected) in [
            (rule(&["deployments"]), "deployments", None, true),
            (rule(&["deployments"]), "deployments/status", None, false),
            (rule(&["deployments/status"]), "deployments/status", None, true),
            (rule(&["deployments/status"]), "deployments", None, false),
            (rule(&["*/status"]), "deployments/status", None, true),
            (rule(&["*/status"]), "deployments/scale", None, false),
            (rule(&["*"]), "deployments/status", Some("a"), true),
            (rule(&["others", "deployments"]), "deployments", Some("a"), true),
            (with(&["deployments"], "verbs", json!(["*"])), "deployments", None, true),
            (with(&["deployments"], "verbs", json!(["list"])), "deployments", None, false),
            (with(&["deployments"], "apiGroups", json!(["*"])), "deployments", None, true),
            (with(&["deployments"], "apiGroups", json!([""])), "deployments", None, false),
            (with(&["deployments"], "resourceNames", json!(["a"])), "deployments", Some("a"), true),
            (with(&["deployments"], "resourceNames", json!(["a"])), "deployments", Some("b"), false),
            (with(&["deployments"], "resourceNames", json!(["a"])), "deployments", None, false),
            (with(&["deployments"], "resourceNames", Value::Null), "deployments", None, true),
            (json!({"verbs": ["get"], "nonResourceURLs": ["*"]}), "deployments", None, false),
        ] {
            let allows = GrantedRule::of(&rule).allows(&question(resource, name));
            assert_eq!(allows, expected, "{rule} {resource} {name:?}");
        }
    }

    #[test]
    fn rules_of_the_cluster_apply_everywhere_and_those_of_a_namespace_there() {
        let asked = question("deployments", None);
        let elsewhere = Question { namespace: Some("other"), ..asked };
        let everywhere = Question { namespace: None, ..asked };
        for (place, expected) in
            [(None, [true, true, true]), (Some("team"), [true, false, false]), (Some("third"), [false; 3])]
        {
            let mut granted = Granted::default();
            granted.add(place, [GrantedRule::only(&asked)]);
            let found = [asked, elsewhere, everywhere].map(|it| granted.allows(&it));
            assert_eq!(found, expected, "{place:?}");
        }
    }
}
