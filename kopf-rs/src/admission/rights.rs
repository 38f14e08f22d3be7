//! The permissions that an operator needs for its admission webhooks, conversions and policies, as roles.
//!
//! This module guarantees least privilege: rules name the objects wherever Kubernetes supports that. It must not
//! depend on the subjects of a role.

use serde_json::{Value, json};

/// The objects that an operator writes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RightsSource<'a> {
    /// The name of the operator.
    pub(crate) operator: &'a str,
    /// The namespace and the name of the Secret that stores certificates, if any.
    pub(crate) secret: Option<(&'a str, &'a str)>,
    /// The name of the managed webhook configurations, and their kinds.
    pub(crate) configurations: Option<(&'a str, &'a [&'static str])>,
    /// The namespace that owns the configurations, so that they are deleted with it.
    pub(crate) owner: Option<&'a str>,
    /// The names of managed definitions, `plural.group`.
    pub(crate) definitions: &'a [String],
    /// True if the operator also rewrites objects that are stored in a former version.
    pub(crate) migrates: bool,
    pub(crate) has_policies: bool,
}

const API_VERSION: &str = "rbac.authorization.k8s.io/v1";
const ADMISSION: &str = "admissionregistration.k8s.io";
const DEFINITIONS: &str = "apiextensions.k8s.io";

/// The verbs for a managed object, except for its creation, which RBAC cannot restrict by name.
const KEPT: [&str; 4] = ["get", "list", "watch", "patch"];

/// Returns the role for the Secret and the cluster role for cluster-scoped objects, as far as they are needed.
pub(crate) fn rights(source: RightsSource<'_>) -> Vec<Value> {
    let secret = source.secret.map(|(namespace, name)| {
        let rules = json!([
            rule("", &["secrets"], &["create"]),
            named(rule("", &["secrets"], &KEPT), &[name.to_owned()]),
        ]);
        let metadata = json!({"name": role(source.operator), "namespace": namespace});
        json!({"apiVersion": API_VERSION, "kind": "Role", "metadata": metadata, "rules": rules})
    });
    let rules = cluster_rules(source);
    let cluster = (!rules.is_empty()).then(|| {
        let metadata = json!({"name": role(source.operator)});
        json!({"apiVersion": API_VERSION, "kind": "ClusterRole", "metadata": metadata, "rules": rules})
    });
    secret.into_iter().chain(cluster).collect()
}

/// Returns the name of the roles.
fn role(operator: &str) -> String {
    format!("{operator}-webhooks")
}

fn cluster_rules(source: RightsSource<'_>) -> Vec<Value> {
    let mut rules = Vec::new();
    if let Some((name, kinds)) = source.configurations.filter(|(_, kinds)| !kinds.is_empty()) {
        rules.push(rule(ADMISSION, kinds, &["create"]));
        rules.push(named(rule(ADMISSION, kinds, &KEPT), &[name.to_owned()]));
        if let Some(owner) = source.owner {
            let namespace = rule("", &["namespaces"], &["get"]);
            rules.push(named(namespace, &[owner.to_owned()]));
        }
    }
    if !source.definitions.is_empty() {
        let kinds = ["customresourcedefinitions"];
        rules.push(named(rule(DEFINITIONS, &kinds, &KEPT), source.definitions));
    }
    if !source.definitions.is_empty() && source.migrates {
        let kinds = ["customresourcedefinitions/status"];
        let status = rule(DEFINITIONS, &kinds, &["patch"]);
        rules.push(named(status, source.definitions));
        let kinds = source.definitions.iter();
        let kinds = kinds.filter_map(|it| it.split_once('.'));
        rules.extend(kinds.map(|(plural, group)| rule(group, &[plural], &["list", "patch"])));
    }
    if source.has_policies {
        let kinds = ["validatingadmissionpolicies", "validatingadmissionpolicybindings"];
        let verbs = ["get", "list", "watch", "create", "patch", "delete"];
        rules.push(rule(ADMISSION, &kinds, &verbs));
    }
    rules
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

/// Restricts the rule to objects of these names.
fn named(mut rule: Value, names: &[String]) -> Value {
    rule["resourceNames"] = json!(names);
    rule
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_without_writes_needs_no_permissions() {
        let source = RightsSource {
            operator: "op",
            configurations: Some(("op.kopf.rs", &[])),
            ..RightsSource::default()
        };
        assert_eq!(rights(source), [] as [Value; 0]);
    }

    #[test]
    fn written_objects_are_permitted_by_name() {
        let source = RightsSource {
            operator: "op",
            secret: Some(("team", "op-webhook")),
            configurations: Some(("op.example.com", &["validatingwebhookconfigurations"])),
            owner: Some("team"),
            definitions: &["votes.example.com".to_owned()],
            migrates: true,
            has_policies: true,
        };
        let [role, cluster]: [Value; 2] = rights(source).try_into().unwrap();
        assert_eq!(role["kind"], "Role");
        assert_eq!(role["metadata"], json!({"name": "op-webhooks", "namespace": "team"}));
        assert_eq!(role["rules"][0]["verbs"], json!(["create"]));
        assert_eq!(role["rules"][1]["resourceNames"], json!(["op-webhook"]));
        assert_eq!(cluster["kind"], "ClusterRole");
        let rules = cluster["rules"].as_array().unwrap();
        assert_eq!(rules.len(), 7);
        let owner = json!({"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"], "resourceNames": ["team"]});
        assert_eq!(rules.iter().filter(|it| **it == owner).count(), 1);
        let rules: Vec<_> = rules.iter().filter(|it| **it != owner).collect();
        assert_eq!(rules[1]["resourceNames"], json!(["op.example.com"]));
        assert_eq!(rules[1]["verbs"], json!(["get", "list", "watch", "patch"]));
        assert_eq!(rules[2]["resourceNames"], json!(["votes.example.com"]));
        assert_eq!(rules[3]["resources"][0], "customresourcedefinitions/status");
        assert_eq!(rules[4]["apiGroups"], json!(["example.com"]));
        assert_eq!(rules[4]["resources"], json!(["votes"]));
        assert_eq!(rules[5]["verbs"][2], "watch");
    }
}
