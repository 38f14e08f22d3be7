//! An index of roles and bindings for authorization, updated with the writes since the last decision.
//!
//! Guarantees that a write to a role or binding takes effect with the next request and costs nothing before. Must not depend on
//! requests.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::GROUP;
use super::attributes::Attributes;
use super::rule::{Rule, rules_of};
use super::user::{User, is_account};
use crate::kind::{CollectionId, Kinds};
use crate::object::{Body, at_path, text};
use crate::selector::object::ObjectSelector;
use crate::store::Store;

/// An authorization decision and its reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) allowed: bool,
    pub(crate) reason: String,
}

/// The rules of a role, and the selectors of the roles that it aggregates.
#[derive(Clone, Debug, Default)]
pub(crate) struct Role {
    pub(crate) rules: Vec<Rule>,
    pub(crate) gathers: Vec<ObjectSelector>,
}

/// A binding of subjects to a role.
#[derive(Clone, Debug, Default)]
struct Binding {
    /// Empty for a cluster role binding.
    namespace: String,
    name: String,
    role_kind: String,
    role: String,
    subjects: Vec<Subject>,
}

#[derive(Clone, Debug)]
struct Subject {
    kind: String,
    name: String,
    namespace: String,
}

/// The collections of the four kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Places {
    cluster_roles: CollectionId,
    roles: CollectionId,
    cluster_bindings: CollectionId,
    bindings: CollectionId,
}

/// Roles and bindings by key.
#[derive(Debug, Default)]
pub(crate) struct Index {
    places: Option<Places>,
    touched: BTreeSet<(CollectionId, String)>,
    cluster_roles: BTreeMap<String, Role>,
    roles: BTreeMap<String, Role>,
    cluster_bindings: BTreeMap<String, Binding>,
    bindings: BTreeMap<String, Binding>,
}

/// A binding that applies to a user: the matching subject, and the granted rules.
struct Grant<'a> {
    binding: &'a Binding,
    subject: &'a Subject,
    rules: Result<&'a [Rule], String>,
}

/// Returns the index after applying all pending writes.
pub(crate) fn current(store: &mut Store) -> &Index {
    let touched = std::mem::take(&mut store.access.index.touched);
    for (id, key) in touched {
        let body = store.get(id, &key).map(|stored| stored.body());
        store.access.index.learn(id, key, body.as_ref());
    }
    &store.access.index
}

// === impl Index ===

impl Index {
    pub(crate) fn new(kinds: &Kinds) -> Self {
        let place = |plural: &str| kinds.kind(GROUP, "v1", plural).map(|kind| kind.collection);
        let places = || {
            Some(Places {
                cluster_roles: place("clusterroles")?,
                roles: place("roles")?,
                cluster_bindings: place("clusterrolebindings")?,
                bindings: place("rolebindings")?,
            })
        };
        Self {
            places: places(),
            ..Self::default()
        }
    }

    /// Records a write.
    pub(crate) fn touch(&mut self, id: CollectionId, key: &str) {
        let ours = self.places.is_some_and(|places| places.all().contains(&id));
        if ours {
            self.touched.insert((id, key.to_owned()));
        }
    }

    fn learn(&mut self, id: CollectionId, key: String, body: Option<&Body>) {
        let Some(places) = self.places else {
            return;
        };
        if id == places.cluster_roles {
            keep(&mut self.cluster_roles, key, body.map(Role::of));
        } else if id == places.roles {
            keep(&mut self.roles, key, body.map(Role::of));
        } else if id == places.cluster_bindings {
            keep(&mut self.cluster_bindings, key, body.map(Binding::of));
        } else {
            keep(&mut self.bindings, key, body.map(Binding::of));
        }
    }

    /// Returns the aggregated cluster roles.
    pub(crate) fn gatherers(&self) -> Vec<(String, Role)> {
        let gathering = self
            .cluster_roles
            .iter()
            .filter(|(_, role)| !role.gathers.is_empty());
        gathering
            .map(|(name, role)| (name.clone(), role.clone()))
            .collect()
    }

    /// Returns the rules of a cluster role.
    pub(crate) fn cluster_rules(&self, name: &str) -> Option<&[Rule]> {
        self.cluster_roles
            .get(name)
            .map(|role| role.rules.as_slice())
    }

    /// Returns the rules of a role that a binding refers to; the error is that of Kubernetes' listers.
    pub(crate) fn rules(
        &self,
        kind: &str,
        name: &str,
        namespace: &str,
    ) -> Result<&[Rule], MissingRole> {
        let found = match kind {
            "ClusterRole" => self.cluster_roles.get(name),
            "Role" => self.roles.get(&format!("{namespace}/{name}")),
            _ => return Err(MissingRole::Unsupported(kind.to_owned())),
        };
        let missing = || MissingRole::Absent(kind.to_lowercase(), name.to_owned());
        found.map(|role| role.rules.as_slice()).ok_or_else(missing)
    }

    /// Decides whether a user may make a request.
    pub(crate) fn decide(&self, user: &User, asked: &Attributes) -> Decision {
        let allowed = |reason: String| Decision {
            allowed: true,
            reason,
        };
        if user.is_master() {
            return allowed(String::new());
        }
        let mut failures = Vec::new();
        for grant in self.grants(user, &asked.namespace) {
            match grant.rules {
                Ok(rules) if rules.iter().any(|rule| rule.allows(asked)) => {
                    return allowed(format!("RBAC: allowed by {}", grant.told()));
                }
                Ok(_) => {}
                Err(why) => failures.push(why),
            }
        }
        Decision {
            allowed: false,
            reason: together(failures).map_or_else(String::new, |why| format!("RBAC: {why}")),
        }
    }

    /// Returns all rules of a user in a namespace, and the errors of the unresolved roles.
    pub(crate) fn rules_for(&self, user: &User, namespace: &str) -> (Vec<Rule>, Option<String>) {
        let (mut all, mut failures) = (Vec::new(), Vec::new());
        for grant in self.grants(user, namespace) {
            match grant.rules {
                Ok(rules) => all.extend_from_slice(rules),
                Err(why) => failures.push(why),
            }
        }
        (all, together(failures))
    }

    fn grants<'a>(
        &'a self,
        user: &'a User,
        namespace: &'a str,
    ) -> impl Iterator<Item = Grant<'a>> + 'a {
        let start = format!("{namespace}/");
        let inside = self
            .bindings
            .range(start.clone()..)
            .take_while(move |(key, _)| key.starts_with(&start))
            .filter(|_| !namespace.is_empty());
        let all = self.cluster_bindings.iter().chain(inside);
        all.filter_map(move |(_, binding)| {
            let mut subjects = binding.subjects.iter();
            let subject = subjects.find(|subject| subject.is(user, &binding.namespace))?;
            let rules = self.rules(&binding.role_kind, &binding.role, &binding.namespace);
            Some(Grant {
                binding,
                subject,
                rules: rules.map_err(|missing| missing.to_string()),
            })
        })
    }
}

/// Inserts the value under a key, or removes the key if there is none.
fn keep<T>(known: &mut BTreeMap<String, T>, key: String, found: Option<T>) {
    match found {
        Some(found) => known.insert(key, found),
        None => known.remove(&key),
    };
}

/// Combines several errors in the format of Kubernetes.
fn together(mut failures: Vec<String>) -> Option<String> {
    let mut seen = BTreeSet::new();
    failures.retain(|failure| seen.insert(failure.clone()));
    match failures.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        many => Some(format!("[{}]", many.join(", "))),
    }
}

/// A role that a binding refers to, but that cannot be resolved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MissingRole {
    #[error("unsupported role reference kind: {0:?}")]
    Unsupported(String),
    #[error("{0}.{GROUP} {1:?} not found")]
    Absent(String, String),
}

// === impl Places ===

impl Places {
    fn all(self) -> [CollectionId; 4] {
        [
            self.cluster_roles,
            self.roles,
            self.cluster_bindings,
            self.bindings,
        ]
    }
}

// === impl Role ===

impl Role {
    fn of(body: &Body) -> Self {
        let selectors = at_path(body, ".aggregationRule.clusterRoleSelectors");
        let selectors = selectors.and_then(Value::as_array).into_iter().flatten();
        Self {
            rules: rules_of(body),
            gathers: selectors.map(ObjectSelector::of).collect(),
        }
    }
}

// === impl Binding ===

impl Binding {
    fn of(body: &Body) -> Self {
        let string = |path: &str| {
            let found = at_path(body, path).and_then(Value::as_str);
            found.unwrap_or_default().to_owned()
        };
        let subjects = body.get("subjects").and_then(Value::as_array);
        let subjects = subjects
            .into_iter()
            .flatten()
            .filter_map(Value::as_object)
            .map(|subject| Subject {
                kind: text(subject, "kind").to_owned(),
                name: text(subject, "name").to_owned(),
                namespace: text(subject, "namespace").to_owned(),
            });
        Self {
            namespace: string(".metadata.namespace"),
            name: string(".metadata.name"),
            role_kind: string(".roleRef.kind"),
            role: string(".roleRef.name"),
            subjects: subjects.collect(),
        }
    }
}

// === impl Subject ===

impl Subject {
    fn is(&self, user: &User, namespace: &str) -> bool {
        match self.kind.as_str() {
            "User" => user.name == self.name,
            "Group" => user.is_in(&self.name),
            "ServiceAccount" => {
                let home = self.home(namespace);
                !home.is_empty() && is_account(&user.name, home, &self.name)
            }
            _ => false,
        }
    }

    fn home<'a>(&'a self, namespace: &'a str) -> &'a str {
        if self.namespace.is_empty() {
            namespace
        } else {
            &self.namespace
        }
    }
}

// === impl Grant ===

impl Grant<'_> {
    fn told(&self) -> String {
        let (binding, subject) = (self.binding, self.subject);
        let named = |kind: &str, name: &str, place: &str| {
            let slash = if place.is_empty() { "" } else { "/" };
            format!("{kind} {:?}", format!("{name}{slash}{place}"))
        };
        let kind = if binding.namespace.is_empty() {
            "ClusterRoleBinding"
        } else {
            "RoleBinding"
        };
        let whom = match subject.kind.as_str() {
            "ServiceAccount" => named(
                &subject.kind,
                &subject.name,
                subject.home(&binding.namespace),
            ),
            other => named(other, &subject.name, ""),
        };
        format!(
            "{} of {} to {whom}",
            named(kind, &binding.name, &binding.namespace),
            named(&binding.role_kind, &binding.role, "")
        )
    }
}
