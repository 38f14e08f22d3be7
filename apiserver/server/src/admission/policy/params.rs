//! The parameters of a policy: objects that a binding names or selects.
//!
//! Must not depend on their use.

use std::sync::Arc;

use serde_json::Value;

use crate::admission::hook::word;
use crate::kind::{Kind, api_version};
use crate::object::Stored;
use crate::selector::object::ObjectSelector;
use crate::store::{Store, key};

/// The reference of a binding to parameters.
#[derive(Clone, Debug)]
pub(super) struct ParamRef {
    name: String,
    namespace: String,
    selector: Option<ObjectSelector>,
    /// Refuses the request if no parameter object exists.
    denies_without: bool,
}

impl ParamRef {
    pub(super) fn of(reference: &Value) -> Self {
        Self {
            name: word(reference, "name").to_owned(),
            namespace: word(reference, "namespace").to_owned(),
            selector: reference.get("selector").map(ObjectSelector::of),
            denies_without: word(reference, "parameterNotFoundAction") == "Deny",
        }
    }

    /// Returns the parameter objects; a request must satisfy the policy for each of them.
    pub(super) fn find(
        &self,
        store: &Store,
        (version, name): &(String, String),
        namespace: &str,
    ) -> Result<Vec<Value>, String> {
        let is_meant = |kind: &&Arc<Kind>| {
            api_version(&kind.group, &kind.version) == *version && kind.kind == *name
        };
        let kind = store.kinds.iter().find(is_meant);
        let kind =
            kind.ok_or_else(|| format!("paramKind kind `{version}, Kind={name}` not known"))?;
        let namespace = if !kind.namespaced {
            if !self.namespace.is_empty() {
                return Err(
                    "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
                        .to_owned(),
                );
            }
            ""
        } else if self.namespace.is_empty() {
            namespace
        } else {
            &self.namespace
        };
        if kind.namespaced && namespace.is_empty() {
            return Err("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources".to_owned());
        }
        let prefix = if kind.namespaced {
            key(Some(namespace), "")
        } else {
            String::new()
        };
        let all = store.under(kind.collection, &prefix);
        let is_chosen = |stored: &&Arc<Stored>| match &self.selector {
            Some(selector) if self.name.is_empty() => selector.matches(&stored.slim.labels),
            _ => stored.slim.name == self.name,
        };
        let chosen = all.iter().filter(is_chosen);
        let found: Vec<_> = chosen.map(|stored| Value::Object(stored.body())).collect();
        if found.is_empty() && self.denies_without {
            return Err(
                "no params found for policy binding with `Deny` parameterNotFoundAction".to_owned(),
            );
        }
        Ok(found)
    }
}
