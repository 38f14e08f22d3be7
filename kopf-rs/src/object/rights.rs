//! The permissions of an operator, as roles of RBAC.
//!
//! Merges what its parts need into few rules. Must not know the parts.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::object::requests::VERBS;

const RBAC: &str = "rbac.authorization.k8s.io";

/// The verbs for an object that the operator follows and changes, except for its creation, which RBAC cannot restrict by name.
pub(crate) const FOLLOW: [&str; 4] = ["get", "list", "watch", "patch"];

/// Permissions in the whole cluster (`None`) and in namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rights(BTreeMap<Option<String>, BTreeMap<Permitted, Verbs>>);

/// The positions of verbs in `VERBS`.
type Verbs = BTreeSet<usize>;

/// The objects of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Permitted {
    group: String,
    /// Empty for all objects.
    names: Vec<String>,
    /// The plural, with the subresource after a slash.
    resource: String,
}

/// The service account that an operator runs as.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account<'a> {
    /// The name of the operator, and of the account.
    pub(crate) name: &'a str,
    pub(crate) namespace: &'a str,
}

impl Rights {
    /// Permits these verbs for all objects of the resources, in the whole cluster if there is no namespace.
    pub(crate) fn permit(
        &mut self,
        namespace: Option<&str>,
        group: &str,
        resources: &[&str],
        verbs: &[&str],
    ) {
        self.permit_named(namespace, (group, resources), &[], verbs);
    }

    /// Permits these verbs for the objects of these names. RBAC cannot restrict `create` by name.
    pub(crate) fn permit_named(
        &mut self,
        namespace: Option<&str>,
        (group, resources): (&str, &[&str]),
        names: &[&str],
        verbs: &[&str],
    ) {
        let place = self.0.entry(namespace.map(str::to_owned)).or_default();
        let verbs = || VERBS.iter().enumerate().filter(|(_, verb)| verbs.contains(verb)).map(|(at, _)| at);
        for resource in resources {
            let permitted = Permitted {
                group: group.to_owned(),
                names: names.iter().map(|it| (*it).to_owned()).collect(),
                resource: (*resource).to_owned(),
            };
            place.entry(permitted).or_default().extend(verbs());
        }
    }

    /// Adds the permissions of another part.
    pub(crate) fn absorb(&mut self, other: Self) {
        for (namespace, permitted) in other.0 {
            let place = self.0.entry(namespace).or_default();
            for (objects, verbs) in permitted {
                place.entry(objects).or_default().extend(verbs);
            }
        }
    }

    /// Returns a role and its binding for the whole cluster and for each namespace.
    pub(crate) fn roles(&self, account: Account<'_>) -> Vec<Value> {
        let places = self.0.iter().filter(|(_, permitted)| !permitted.is_empty());
        places.flat_map(|(namespace, permitted)| role(account, namespace.as_deref(), permitted)).collect()
    }
}

fn role(account: Account<'_>, namespace: Option<&str>, permitted: &BTreeMap<Permitted, Verbs>) -> [Value; 2] {
    // Operators of one name in several namespaces need separate cluster roles. The name of a namespace has no dot.
    let (prefix, metadata) = match namespace {
        None => ("Cluster", json!({"name": format!("{}.{}", account.namespace, account.name)})),
        Some(namespace) => ("", json!({"name": account.name, "namespace": namespace})),
    };
    let role_kind = format!("{prefix}Role");
    let role = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": role_kind, "metadata": metadata, "rules": rules(permitted),
    });
    let binding = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": format!("{role_kind}Binding"), "metadata": metadata,
        "roleRef": {"apiGroup": RBAC, "kind": role_kind, "name": metadata["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": account.name, "namespace": account.namespace}],
    });
    [role, binding]
}

/// The parts that resources must share to be in one rule: the group, the names and the verbs.
type Shared<'a> = (&'a str, &'a [String], &'a Verbs);

/// Joins resources of one group with equal verbs into one rule.
fn rules(permitted: &BTreeMap<Permitted, Verbs>) -> Vec<Value> {
    let mut joined: BTreeMap<Shared<'_>, Vec<&str>> = BTreeMap::new();
    for (objects, verbs) in permitted {
        joined.entry((&objects.group, &objects.names, verbs)).or_default().push(&objects.resource);
    }
    let rule = |((group, names, verbs), resources): (Shared<'_>, Vec<&str>)| {
        let verbs: Vec<_> = verbs.iter().map(|at| VERBS[*at]).collect();
        let mut rule = json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
        if !names.is_empty() {
            rule["resourceNames"] = json!(names);
        }
        rule
    };
    joined.into_iter().map(rule).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCOUNT: Account<'_> = Account { name: "op", namespace: "team" };

    #[test]
    fn permissions_are_joined_into_few_rules() {
        let mut rights = Rights::default();
        rights.permit(None, "", &["pods", "services"], &["list", "watch"]);
        rights.permit(None, "", &["pods"], &["watch", "get", "list"]);
        rights.permit(None, "", &["services"], &["get"]);
        let mut other = Rights::default();
        other.permit(None, "", &["configmaps"], &["create"]);
        other.permit_named(Some("team"), ("", &["secrets"]), &["op"], &["patch"]);
        rights.absorb(other);
        let roles = rights.roles(ACCOUNT);
        let kinds: Vec<_> = roles.iter().map(|it| it["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]);
        assert_eq!(
            roles[0]["rules"],
            json!([
                {"apiGroups": [""], "resources": ["pods", "services"], "verbs": ["get", "list", "watch"]},
                {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
            ])
        );
        assert_eq!(
            roles[2]["rules"],
            json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["patch"], "resourceNames": ["op"]}])
        );
    }

    #[test]
    fn a_binding_names_its_role_and_the_account() {
        let mut rights = Rights::default();
        rights.permit(None, "", &["pods"], &["list"]);
        let [role, binding]: [Value; 2] = rights.roles(ACCOUNT).try_into().unwrap();
        assert_eq!(role["metadata"], json!({"name": "team.op"}));
        assert_eq!(binding["roleRef"]["name"], "team.op");
        assert_eq!(binding["roleRef"]["kind"], "ClusterRole");
        assert_eq!(
            binding["subjects"][0],
            json!({"kind": "ServiceAccount", "name": "op", "namespace": "team"})
        );
        assert_eq!(Rights::default().roles(ACCOUNT), [] as [Value; 0]);
    }
}
