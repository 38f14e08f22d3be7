//! The permissions that an operator needs for its admission webhooks, conversions and policies.
//!
//! This module guarantees least privilege: rules name the objects wherever Kubernetes supports that. It must not
//! depend on the subjects of a role.

use crate::object::rights::{FOLLOW, Rights};

/// The objects that an operator writes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RightsSource<'a> {
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

const ADMISSION: &str = "admissionregistration.k8s.io";
const DEFINITIONS: &str = "apiextensions.k8s.io";

/// Returns the permissions.
pub(crate) fn rights(source: RightsSource<'_>) -> Rights {
    let mut rights = Rights::default();
    if let Some((namespace, name)) = source.secret {
        rights.permit(Some(namespace), "", &["secrets"], &["create"]);
        rights.permit_named(Some(namespace), ("", &["secrets"]), &[name], &FOLLOW);
    }
    if let Some((name, kinds)) = source.configurations.filter(|(_, kinds)| !kinds.is_empty()) {
        rights.permit(None, ADMISSION, kinds, &["create"]);
        rights.permit_named(None, (ADMISSION, kinds), &[name], &FOLLOW);
        if let Some(owner) = source.owner {
            rights.permit_named(None, ("", &["namespaces"]), &[owner], &["get"]);
        }
    }
    let definitions: Vec<&str> = source.definitions.iter().map(String::as_str).collect();
    if !definitions.is_empty() {
        let kinds = ["customresourcedefinitions"];
        rights.permit_named(None, (DEFINITIONS, &kinds), &definitions, &FOLLOW);
    }
    if !definitions.is_empty() && source.migrates {
        let kinds = ["customresourcedefinitions/status"];
        rights.permit_named(None, (DEFINITIONS, &kinds), &definitions, &["patch"]);
        for (plural, group) in definitions.iter().filter_map(|it| it.split_once('.')) {
            rights.permit(None, group, &[plural], &["list", "patch"]);
        }
    }
    if source.has_policies {
        let kinds = ["validatingadmissionpolicies", "validatingadmissionpolicybindings"];
        rights.permit(None, ADMISSION, &kinds, &["get", "list", "watch", "create", "patch", "delete"]);
    }
    rights
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::object::rights::Account;

    #[test]
    fn an_operator_without_writes_needs_no_permissions() {
        let source = RightsSource { configurations: Some(("op.kopf.rs", &[])), ..RightsSource::default() };
        assert_eq!(rights(source), Rights::default());
    }

    #[test]
    fn written_objects_are_permitted_by_name() {
        let source = RightsSource {
            secret: Some(("team", "op-webhook")),
            configurations: Some(("op.example.com", &["validatingwebhookconfigurations"])),
            owner: Some("team"),
            definitions: &["votes.example.com".to_owned()],
            migrates: true,
            has_policies: true,
        };
        let account = Account { name: "op", namespace: "team" };
        let [cluster, _, local, _]: [Value; 4] = rights(source).roles(account).try_into().unwrap();
        let rule = |group: &str, resources: Value, names: Value, verbs: Value| {
            let mut rule = json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
            if !names.is_null() {
                rule["resourceNames"] = names;
            }
            rule
        };
        let kept = || json!(["get", "list", "watch", "patch"]);
        let definition = || json!(["votes.example.com"]);
        let policies = || json!(["validatingadmissionpolicies", "validatingadmissionpolicybindings"]);
        let hooks = || json!(["validatingwebhookconfigurations"]);
        assert_eq!(
            cluster["rules"],
            json!([
                rule("", json!(["namespaces"]), json!(["team"]), json!(["get"])),
                rule(
                    ADMISSION,
                    policies(),
                    Value::Null,
                    json!(["get", "list", "watch", "create", "patch", "delete"])
                ),
                rule(ADMISSION, hooks(), Value::Null, json!(["create"])),
                rule(ADMISSION, hooks(), json!(["op.example.com"]), kept()),
                rule(DEFINITIONS, json!(["customresourcedefinitions"]), definition(), kept()),
                rule(
                    DEFINITIONS,
                    json!(["customresourcedefinitions/status"]),
                    definition(),
                    json!(["patch"])
                ),
                rule("example.com", json!(["votes"]), Value::Null, json!(["list", "patch"])),
            ])
        );
        assert_eq!(
            local["rules"],
            json!([
                rule("", json!(["secrets"]), Value::Null, json!(["create"])),
                rule("", json!(["secrets"]), json!(["op-webhook"]), kept()),
            ])
        );
    }
}
