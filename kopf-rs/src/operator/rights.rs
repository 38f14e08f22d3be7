//! The permissions that instances with a shared Lease need, as objects for a cluster administrator.
//!
//! Must not know how the objects are printed.

use serde_json::{Value, json};

/// A Lease, and the operator whose instances share it. Their `ServiceAccount` has the operator's name and is in the Lease's namespace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedLease<'a> {
    pub(crate) operator: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

const RBAC: &str = "rbac.authorization.k8s.io";

/// Returns the permissions, and a separate flow schema: with a queue of their own in the API server, renewals do not wait behind the
/// operator's writes.
pub(crate) fn rights(lease: SharedLease<'_>) -> Vec<Value> {
    vec![role(lease), binding(lease), flow_schema(lease)]
}

/// Returns the role. RBAC cannot restrict the creation of objects by name.
fn role(lease: SharedLease<'_>) -> Value {
    let rule =
        |verbs: Value| json!({"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": verbs});
    let mut of_one = rule(json!(["get", "list", "watch", "update"]));
    of_one["resourceNames"] = json!([lease.name]);
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": metadata(lease),
        "rules": [of_one, rule(json!(["create"]))],
    })
}

fn binding(lease: SharedLease<'_>) -> Value {
    let account = json!({"kind": "ServiceAccount", "name": lease.operator, "namespace": lease.namespace});
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": metadata(lease),
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": named(lease)},
        "subjects": [account],
    })
}

fn flow_schema(lease: SharedLease<'_>) -> Value {
    let account = json!({"name": lease.operator, "namespace": lease.namespace});
    let asked = json!({
        "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "namespaces": [lease.namespace],
        "verbs": ["get", "create", "update"],
    });
    let name = format!("{}-{}", lease.namespace, named(lease));
    json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", "metadata": {"name": name},
        "spec": {
            "priorityLevelConfiguration": {"name": "leader-election"},
            "matchingPrecedence": 900,
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [{
                "subjects": [{"kind": "ServiceAccount", "serviceAccount": account}],
                "resourceRules": [asked],
            }],
        },
    })
}

fn metadata(lease: SharedLease<'_>) -> Value {
    json!({"name": named(lease), "namespace": lease.namespace})
}

fn named(lease: SharedLease<'_>) -> String {
    format!("{}-lease", lease.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_may_do_what_the_election_asks_for_and_no_more() {
        let lease = SharedLease { operator: "op", namespace: "team", name: "turns" };
        let [role, binding, flows]: [Value; 3] = rights(lease).try_into().expect("three");
        assert_eq!(role["metadata"], json!({"name": "turns-lease", "namespace": "team"}));
        assert_eq!(role["rules"][0]["resourceNames"], json!(["turns"]));
        assert_eq!(role["rules"][1]["verbs"], json!(["create"]));
        assert_eq!(binding["subjects"][0]["name"], "op");
        assert_eq!(binding["roleRef"]["name"], role["metadata"]["name"]);
        assert_eq!(flows["metadata"]["name"], "team-turns-lease");
        assert_eq!(
            flows["spec"]["rules"][0]["subjects"][0]["serviceAccount"],
            json!({"name": "op", "namespace": "team"})
        );
    }
}
