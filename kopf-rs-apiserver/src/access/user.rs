//! A user, as every request has one.
//!
//! Must not know where users come from.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value, json};

use crate::rules::names;

/// May do everything.
pub(crate) const MASTERS: &str = "system:masters";
/// Everybody whose credentials were accepted.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
/// Everybody without credentials.
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The name of everybody without credentials.
pub(crate) const ANONYMOUS: &str = "system:anonymous";
/// The beginning of the names of service accounts.
const ACCOUNT: &str = "system:serviceaccount:";
/// The beginning of the names of nodes.
const NODE: &str = "system:node:";

static NOBODY: LazyLock<Arc<User>> = LazyLock::new(|| {
    let mut user = User::new(ANONYMOUS);
    user.groups.push(UNAUTHENTICATED.to_owned());
    Arc::new(user)
});

/// A user of the server. RBAC says what they may do; members of `system:masters` may do everything.
///
/// ```
/// use kopf_rs_apiserver::{ApiServer, User};
///
/// let server = ApiServer::new();
/// server.add_user("secret", User::new("jane").group("developers"));
/// // In the same process no token is needed:
/// let service = server.service().as_user(User::new("jane").group("developers"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct User {
    /// What RBAC calls them.
    pub name: String,
    /// Tells them apart from others of the same name at other times; may be empty.
    pub uid: String,
    /// The groups they are in, `system:authenticated` among them once they have been accepted.
    pub groups: Vec<String>,
    /// Whatever else is known of them.
    pub extra: BTreeMap<String, Vec<String>>,
}

// === impl User ===

impl User {
    /// A user of that name, in no group.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    /// The administrator, who may do everything.
    #[must_use]
    pub fn admin() -> Self {
        let admin = Self::new("admin").uid("admin").group(MASTERS);
        admin.authenticated()
    }

    /// The user as a member of that group too.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.groups.push(group.into());
        self
    }

    /// The user with that uid.
    #[must_use]
    pub fn uid(mut self, uid: impl Into<String>) -> Self {
        self.uid = uid.into();
        self
    }

    /// A service account; its name says its namespace and its groups.
    pub(crate) fn service_account(namespace: &str, name: &str) -> Self {
        Self::new(format!("{ACCOUNT}{namespace}:{name}"))
            .group("system:serviceaccounts")
            .group(format!("system:serviceaccounts:{namespace}"))
    }

    /// Somebody without credentials.
    pub(crate) fn anonymous() -> Arc<Self> {
        NOBODY.clone()
    }

    pub(crate) fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|found| found == group)
    }

    /// Whether nothing is forbidden to them.
    pub(crate) fn is_master(&self) -> bool {
        self.is_in(MASTERS)
    }

    /// The user among those whose credentials were accepted.
    pub(crate) fn authenticated(mut self) -> Self {
        self.join(AUTHENTICATED);
        self
    }

    pub(crate) fn join(&mut self, group: &str) {
        if !self.is_in(group) {
            self.groups.push(group.to_owned());
        }
    }

    /// What API objects say of a user.
    pub(crate) fn to_json(&self) -> Value {
        let mut found = Map::new();
        found.insert("username".to_owned(), self.name.as_str().into());
        if !self.uid.is_empty() {
            found.insert("uid".to_owned(), self.uid.as_str().into());
        }
        if !self.groups.is_empty() {
            found.insert("groups".to_owned(), json!(self.groups));
        }
        if !self.extra.is_empty() {
            found.insert("extra".to_owned(), json!(self.extra));
        }
        Value::Object(found)
    }
}

/// The namespace and the name of a service account, if a user name is one's that can be there.
pub(crate) fn account_of(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(ACCOUNT)?.split_once(':')?;
    let valid = names::label(namespace).is_none() && names::subdomain(name).is_none();
    valid.then_some((namespace, name))
}

/// Whether a user name is that of this service account, whether or not there can be one.
pub(crate) fn is_account(user: &str, namespace: &str, name: &str) -> bool {
    let rest = user.strip_prefix(ACCOUNT);
    let rest = rest.and_then(|rest| rest.strip_prefix(namespace)?.strip_prefix(':'));
    rest == Some(name)
}

/// The name of a node, if a user name is one's that can be there.
pub(crate) fn node_of(user: &str) -> Option<&str> {
    let name = user.strip_prefix(NODE)?;
    names::subdomain(name).is_none().then_some(name)
}
