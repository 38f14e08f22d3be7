//! Aggregated cluster roles, which collect the rules of other roles by label.
//!
//! Guarantees that they are up to date as soon as a role is written; in a real cluster, a controller needs a moment for that.
//! Must not depend on the writers of roles.

use serde_json::Value;

use super::GROUP;
use super::index::{self, Role};
use super::rule::Rule;
use crate::store::Store;

/// The maximum number of rounds, which nested aggregation needs.
const ROUNDS: usize = 16;

/// Updates all aggregated roles.
pub(crate) fn settle(store: &mut Store) {
    for _ in 0..ROUNDS {
        let gatherers = index::current(store).gatherers();
        let mut changed = false;
        for (name, role) in gatherers {
            changed |= gather(store, &name, &role);
        }
        if !changed {
            return;
        }
    }
}

/// Stores the collected rules of a role if they changed; returns whether they did.
fn gather(store: &mut Store, name: &str, role: &Role) -> bool {
    let Some(kind) = store.kinds.kind(GROUP, "v1", "clusterroles").cloned() else {
        return false;
    };
    let all = store.under(kind.collection, "");
    let mut rules: Vec<Rule> = Vec::new();
    for selector in &role.gathers {
        let chosen = all
            .iter()
            .filter(|found| found.slim.name != name && selector.matches(&found.slim.labels));
        for found in chosen {
            let theirs = index::current(store).cluster_rules(&found.slim.name);
            for rule in theirs.unwrap_or_default() {
                if !rules.contains(rule) {
                    rules.push(rule.clone());
                }
            }
        }
    }
    if rules == role.rules {
        return false;
    }
    let Some(stored) = store.get(kind.collection, name) else {
        return false;
    };
    let mut body = stored.body();
    let rules: Vec<Value> = rules.iter().map(Rule::to_json).collect();
    let rules = Some(rules).filter(|rules| !rules.is_empty());
    body.insert("rules".to_owned(), rules.map_or(Value::Null, Into::into));
    store.put(kind.collection, body);
    true
}
