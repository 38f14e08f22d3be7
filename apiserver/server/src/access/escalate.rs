//! Prevents privilege escalation: users can write a role or binding only if it grants nothing beyond their own permissions.
//!
//! Guarantees the real server's exceptions: members of `system:masters`, the verbs `escalate` and `bind`, and changes that only
//! concern garbage collection. Must not depend on how roles are stored.

use std::collections::BTreeSet;

use serde_json::Value;

use super::GROUP;
use super::attributes::Attributes;
use super::index::{self, MissingRole};
use super::rule::{Rule, quoted, rules_of};
use super::user::User;
use crate::kind::Kind;
use crate::object::{Body, MANAGED, at_path, meta_text, metadata_mut};
use crate::status::Refusal;
use crate::store::Store;

/// A write of a role or binding by a user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish<'a> {
    pub(crate) user: &'a User,
    pub(crate) kind: &'a Kind,
    /// The name in the path.
    pub(crate) name: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) old: Option<&'a Body>,
    pub(crate) new: &'a Body,
}

/// Refuses a role or binding that grants more permissions than its author has.
pub(crate) fn check(store: &mut Store, wish: Wish<'_>) -> Result<(), Refusal> {
    if wish.kind.group != GROUP || wish.user.is_master() {
        return Ok(());
    }
    let is_role = matches!(wish.kind.plural.as_str(), "roles" | "clusterroles");
    let may = |store: &mut Store, asked: &Attributes| {
        index::current(store).decide(wish.user, asked).allowed
    };
    let mut asked = Attributes {
        group: GROUP.to_owned(),
        namespace: wish.namespace.to_owned(),
        ..Attributes::default()
    };
    if is_role {
        "escalate".clone_into(&mut asked.verb);
        wish.kind.plural.clone_into(&mut asked.resource);
        wish.name.clone_into(&mut asked.name);
        if may(store, &asked) || wish.is_for_the_collector() {
            return Ok(());
        }
        return check_role(store, wish);
    }
    if wish.is_for_the_collector() {
        return Ok(());
    }
    let referred = |field: &str| {
        let found = at_path(wish.new, &format!(".roleRef.{field}"));
        found.and_then(Value::as_str).unwrap_or_default()
    };
    let (kind, role) = (referred("kind"), referred("name"));
    "bind".clone_into(&mut asked.verb);
    asked.resource = format!("{}s", kind.to_lowercase());
    role.clone_into(&mut asked.name);
    if matches!(kind, "Role" | "ClusterRole") && may(store, &asked) {
        return Ok(());
    }
    let rules = index::current(store).rules(kind, role, wish.namespace);
    let rules = rules
        .map(<[Rule]>::to_vec)
        .map_err(|missing| match missing {
            MissingRole::Unsupported(_) => Refusal::internal(missing.to_string()),
            MissingRole::Absent(..) => Refusal::not_found(wish.kind.subject(role)),
        })?;
    wish.demand(store, &rules)
}

fn check_role(store: &mut Store, wish: Wish<'_>) -> Result<(), Refusal> {
    wish.demand(store, &rules_of(wish.new))?;
    let gathers = |body: &Body| {
        let selectors = at_path(body, ".aggregationRule.clusterRoleSelectors");
        selectors
            .and_then(Value::as_array)
            .is_some_and(|items| !items.is_empty())
    };
    if !gathers(wish.new) && !wish.old.is_some_and(gathers) {
        return Ok(());
    }
    let any = || vec!["*".to_owned()];
    let everything = [
        Rule {
            verbs: any(),
            groups: any(),
            resources: any(),
            ..Rule::default()
        },
        Rule {
            verbs: any(),
            pages: any(),
            ..Rule::default()
        },
    ];
    wish.demand(store, &everything).map_err(|_| {
        Refusal::forbidden(
            wish.kind.subject(meta_text(wish.new, "name")),
            "must have cluster-admin privileges to use the aggregationRule",
        )
    })
}

// === impl Wish ===

impl Wish<'_> {
    /// Returns whether only finalizers and owner references change.
    fn is_for_the_collector(&self) -> bool {
        let rest = |body: &Body| {
            let mut body = body.clone();
            for field in ["apiVersion", "kind"] {
                body.remove(field);
            }
            let meta = metadata_mut(&mut body);
            for field in ["finalizers", "ownerReferences", "resourceVersion", MANAGED] {
                meta.remove(field);
            }
            body
        };
        self.old.is_some_and(|old| rest(old) == rest(self.new))
    }

    /// Refuses the write unless the user has all of these rules.
    fn demand(&self, store: &mut Store, rules: &[Rule]) -> Result<(), Refusal> {
        let (own, failures) = index::current(store).rules_for(self.user, self.namespace);
        let parts = rules.iter().flat_map(Rule::parts);
        let missing: Vec<Rule> = parts
            .filter(|part| !own.iter().any(|rule| rule.covers(part)))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let told: BTreeSet<String> = compact(missing).iter().map(Rule::told).collect();
        let told: Vec<String> = told.into_iter().collect();
        let failures =
            failures.map_or_else(String::new, |why| format!("; resolution errors: [{why}]"));
        let why = format!(
            "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}{failures}",
            self.user.name,
            quoted(&self.user.groups),
            told.join("\n")
        );
        let name = meta_text(self.new, "name");
        Err(Refusal::forbidden(self.kind.subject(name), &why))
    }
}

/// Merges rules that differ only in their verbs.
fn compact(rules: Vec<Rule>) -> Vec<Rule> {
    let mut compact: Vec<Rule> = Vec::new();
    for rule in rules {
        match compact
            .iter_mut()
            .find(|found| found.is_about_the_same(&rule))
        {
            Some(found) => found.verbs.extend(rule.verbs),
            None => compact.push(rule),
        }
    }
    compact
}
