//! The permissions of an operator, as roles of RBAC and as text.
//!
//! Merges what its parts need into few rules, and finds those that are not granted. Must not know the parts.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::object::granted::{Granted, Question};
#[cfg(any(feature = "cli", test))]
use crate::object::requests::RequestedResource;
use crate::object::requests::VERBS;

#[cfg(any(feature = "cli", test))]
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
#[cfg(any(feature = "cli", test))]
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

    /// Returns the permissions without those that are equal in another part.
    pub(crate) fn without(mut self, other: &Self) -> Self {
        for (namespace, permitted) in &mut self.0 {
            if let Some(known) = other.0.get(namespace) {
                permitted.retain(|objects, verbs| known.get(objects) != Some(verbs));
            }
        }
        self
    }

    /// Returns true if nothing is permitted.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.values().all(BTreeMap::is_empty)
    }

    /// Returns the namespaces, or `None` for the whole cluster, in which something is permitted.
    pub(crate) fn places(&self) -> impl Iterator<Item = Option<&str>> {
        let places = self.0.iter().filter(|(_, permitted)| !permitted.is_empty());
        places.map(|(namespace, _)| namespace.as_deref())
    }

    /// Returns each single request that is permitted.
    pub(crate) fn questions(&self) -> impl Iterator<Item = Question<'_>> {
        let all =
            self.0.iter().flat_map(|(namespace, permitted)| permitted.iter().map(move |it| (namespace, it)));
        all.flat_map(|(namespace, (objects, verbs))| {
            verbs.iter().flat_map(move |at| objects.questions(namespace.as_deref(), VERBS[*at]))
        })
    }

    /// Returns the part of these permissions that is not granted.
    pub(crate) fn missing(&self, granted: &Granted) -> Self {
        let mut missing = Self::default();
        for (namespace, permitted) in &self.0 {
            let namespace = namespace.as_deref();
            for (objects, verbs) in permitted {
                for verb in verbs.iter().map(|at| VERBS[*at]) {
                    let refused = objects.questions(namespace, verb).filter(|it| !granted.allows(it));
                    let names: Vec<Option<&str>> = refused.map(|it| it.name).collect();
                    if !names.is_empty() {
                        let names: Vec<&str> = names.into_iter().flatten().collect();
                        missing.permit_named(
                            namespace,
                            (&objects.group, &[&objects.resource]),
                            &names,
                            &[verb],
                        );
                    }
                }
            }
        }
        missing
    }

    /// Returns where rules are to be added for `account`, and the rules as YAML: the rest of a sentence that begins with "Add". Equal rules
    /// of several namespaces are listed once.
    pub(crate) fn to_add(&self, account: &str) -> String {
        let mut places: BTreeMap<String, Vec<Option<&str>>> = BTreeMap::new();
        for (namespace, permitted) in self.0.iter().filter(|(_, permitted)| !permitted.is_empty()) {
            let rules: Vec<String> = rules(permitted).iter().map(yaml).collect();
            places.entry(rules.join("\n")).or_default().push(namespace.as_deref());
        }
        let each = places.iter().map(|(rules, places)| {
            let names: Vec<String> = places.iter().flatten().map(|it| format!("{it:?}")).collect();
            let cluster = places.contains(&None).then(|| "a ClusterRole".to_owned());
            let role = (!names.is_empty()).then(|| match &names[..] {
                [name] => format!("a Role in namespace {name} (or a ClusterRole)"),
                names => format!("a Role in each of the namespaces {} (or a ClusterRole)", names.join(", ")),
            });
            // A ClusterRole also permits the same in namespaces.
            let place = cluster.or(role).unwrap_or_default();
            format!("to {place} bound to {account}:\n{rules}")
        });
        each.collect::<Vec<_>>().join("\nand ")
    }

    /// Returns the permissions in the notation of the option `requires`, without their places: `get,list deployments.apps`.
    #[cfg(any(feature = "cli", test))]
    pub(crate) fn requires(&self) -> BTreeSet<String> {
        let all = self.0.values().flat_map(rules);
        let words = |value: &Value, between: &str| {
            let words = value.as_array().into_iter().flatten().filter_map(Value::as_str);
            words.collect::<Vec<_>>().join(between)
        };
        let each = all.map(|rule| {
            let group = words(&rule["apiGroups"], "");
            let resources = rule["resources"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let resources = resources.map(|it| RequestedResource::of(&group, it).to_string());
            format!("{} {}", words(&rule["verbs"], ","), resources.collect::<Vec<_>>().join(","))
        });
        each.collect()
    }

    /// Returns a role and its binding for the whole cluster and for each namespace.
    #[cfg(any(feature = "cli", test))]
    pub(crate) fn roles(&self, account: Account<'_>) -> Vec<Value> {
        let places = self.0.iter().filter(|(_, permitted)| !permitted.is_empty());
        places.flat_map(|(namespace, permitted)| role(account, namespace.as_deref(), permitted)).collect()
    }
}

impl Permitted {
    /// Returns one request for each name, or one for all objects.
    fn questions<'a>(
        &'a self,
        namespace: Option<&'a str>,
        verb: &'static str,
    ) -> impl Iterator<Item = Question<'a>> {
        let all = self.names.is_empty().then_some(None);
        let names = all.into_iter().chain(self.names.iter().map(|it| Some(it.as_str())));
        names.map(move |name| Question {
            namespace,
            verb,
            group: &self.group,
            resource: &self.resource,
            name,
        })
    }
}

/// Returns a rule as YAML, indented like the items of `rules`.
fn yaml(rule: &Value) -> String {
    let quoted = |words: &Value| {
        let words = words.as_array().into_iter().flatten().map(ToString::to_string);
        words.collect::<Vec<_>>().join(", ")
    };
    let mut lines = Vec::new();
    for field in ["apiGroups", "resources", "resourceNames", "verbs"] {
        if let Some(words) = rule.get(field) {
            let start = if lines.is_empty() { "-" } else { " " };
            lines.push(format!("  {start} {field}: [{}]", quoted(words)));
        }
    }
    lines.join("\n")
}

#[cfg(any(feature = "cli", test))]
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
    use crate::object::granted::GrantedRule;

    const ACCOUNT: Account<'_> = Account { name: "op", namespace: "team" };

    #[test]
    fn permissions_that_are_known_are_left_out() {
        let mut known = Rights::default();
        known.permit(None, "", &["pods"], &["get"]);
        let mut all = known.clone();
        all.permit(Some("team"), "", &["pods"], &["get"]);
        let rest = all.clone().without(&known);
        assert_eq!(rest.places().collect::<Vec<_>>(), [Some("team")]);
        assert!(all.clone().without(&all).is_empty());
    }

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

    fn granted(namespace: Option<&str>, rule: &Value) -> Granted {
        let mut granted = Granted::default();
        granted.add(namespace, [GrantedRule::of(rule)]);
        granted
    }

    #[test]
    fn what_no_rule_grants_is_missing() {
        let mut needed = Rights::default();
        needed.permit(None, "", &["pods"], &["get", "list"]);
        needed.permit(Some("team"), "apps", &["deployments"], &["patch"]);
        needed.permit_named(Some("team"), ("", &["secrets"]), &["a", "b"], &["get", "patch"]);
        assert_eq!(needed.missing(&Granted::default()), needed);
        let all = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
        assert!(needed.missing(&granted(None, &all)).is_empty());
        let missing = needed.missing(&granted(Some("team"), &all));
        assert_eq!(missing.places().collect::<Vec<_>>(), [None]);
        assert_eq!(missing.questions().map(|it| it.verb).collect::<Vec<_>>(), ["get", "list"]);
        let rule = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods", "secrets"], "resourceNames": ["b"]});
        let mut expected = Rights::default();
        expected.permit(None, "", &["pods"], &["get", "list"]);
        expected.permit(Some("team"), "apps", &["deployments"], &["patch"]);
        expected.permit_named(Some("team"), ("", &["secrets"]), &["a", "b"], &["patch"]);
        expected.permit_named(Some("team"), ("", &["secrets"]), &["a"], &["get"]);
        assert_eq!(needed.missing(&granted(None, &rule)), expected);
    }

    #[test]
    fn rules_to_add_are_yaml_and_those_of_several_places_are_listed_once() {
        let mut needed = Rights::default();
        needed.permit_named(Some("b"), ("", &["secrets"]), &["op"], &["get", "patch"]);
        needed.permit(Some("a"), "apps", &["deployments"], &["get"]);
        needed.permit(Some("c"), "apps", &["deployments"], &["get"]);
        assert_eq!(
            needed.to_add("it"),
            "to a Role in namespace \"b\" (or a ClusterRole) bound to it:\n  - apiGroups: [\"\"]\n    resources: [\"secrets\"]\n    \
             resourceNames: [\"op\"]\n    verbs: [\"get\", \"patch\"]\nand to a Role in each of the namespaces \"a\", \"c\" (or a \
             ClusterRole) bound to it:\n  - apiGroups: [\"apps\"]\n    resources: [\"deployments\"]\n    verbs: [\"get\"]"
        );
        let mut everywhere = Rights::default();
        everywhere.permit(None, "", &["pods"], &["list"]);
        everywhere.permit(Some("a"), "", &["pods"], &["list"]);
        assert!(
            everywhere.to_add("it").starts_with("to a ClusterRole bound to it:\n  - apiGroups: [\"\"]\n")
        );
    }

    #[test]
    fn permissions_are_written_in_the_notation_of_the_option() {
        let mut rights = Rights::default();
        rights.permit(None, "", &["pods", "pods/log"], &["list", "get"]);
        rights.permit(Some("a"), "apps", &["deployments/scale"], &["patch"]);
        assert_eq!(
            rights.requires().into_iter().collect::<Vec<_>>(),
            ["get,list pods,pods/log", "patch deployments.apps/scale"]
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
