//! The user of a request.
//!
//! Must not depend on the origin of users.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value, json};

use crate::rules::names;

/// The group of administrators, to whom everything is permitted.
pub(crate) const MASTERS: &str = "system:masters";
/// The group of all users whose credentials were accepted.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
/// The group of users without credentials.
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The name of users without credentials.
pub(crate) const ANONYMOUS: &str = "system:anonymous";
/// The prefix of the user names of service accounts.
const ACCOUNT: &str = "system:serviceaccount:";
/// The prefix of the user names of nodes.
const NODE: &str = "system:node:";

static NOBODY: LazyLock<Arc<User>> = LazyLock::new(|| {
    let mut user = User::new(ANONYMOUS);
    user.groups.push(UNAUTHENTICATED.to_owned());
    Arc::new(user)
});

/// A user of the server. RBAC grants the permissions; members of `system:masters` may do everything.
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
    /// The name in RBAC.
    pub name: String,
    /// Distinguishes users who had the same name at different times; may be empty.
    pub uid: String,
    /// The groups of the user; they include `system:authenticated` once the credentials have been accepted.
    pub groups: Vec<String>,
    /// Additional attributes.
    pub extra: BTreeMap<String, Vec<String>>,
}

// === impl User ===

impl User {
    /// Returns a user of that name, in no group.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    /// Returns the administrator, to whom everything is permitted.
    #[must_use]
    pub fn admin() -> Self {
        let admin = Self::new("admin").uid("admin").group(MASTERS);
        admin.authenticated()
    }

    /// Adds the user to a group.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.groups.push(group.into());
        self
    }

    /// Sets the uid.
    #[must_use]
    pub fn uid(mut self, uid: impl Into<String>) -> Self {
        self.uid = uid.into();
        self
    }

    /// Returns the user of a service account, with the groups that result from its namespace.
    pub(crate) fn service_account(namespace: &str, name: &str) -> Self {
        Self::new(format!("{ACCOUNT}{namespace}:{name}"))
            .group("system:serviceaccounts")
            .group(format!("system:serviceaccounts:{namespace}"))
    }

    /// Returns the user of requests without credentials.
    pub(crate) fn anonymous() -> Arc<Self> {
        NOBODY.clone()
    }

    pub(crate) fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|found| found == group)
    }

    /// Returns whether the user is a member of `system:masters`.
    pub(crate) fn is_master(&self) -> bool {
        self.is_in(MASTERS)
    }

    /// Adds the group of users whose credentials were accepted.
    pub(crate) fn authenticated(mut self) -> Self {
        self.join(AUTHENTICATED);
        self
    }

    pub(crate) fn join(&mut self, group: &str) {
        if !self.is_in(group) {
            self.groups.push(group.to_owned());
        }
    }

    /// Returns the user in the format of API objects.
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

/// Returns the namespace and name of a service account, if the user name is a valid name of one.
pub(crate) fn account_of(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(ACCOUNT)?.split_once(':')?;
    let valid = names::label(namespace).is_none() && names::subdomain(name).is_none();
    valid.then_some((namespace, name))
}

/// Returns whether a user name is that of this service account; the names need not be valid.
pub(crate) fn is_account(user: &str, namespace: &str, name: &str) -> bool {
    let rest = user.strip_prefix(ACCOUNT);
    let rest = rest.and_then(|rest| rest.strip_prefix(namespace)?.strip_prefix(':'));
    rest == Some(name)
}

/// Returns the name of a node, if the user name is a valid name of one.
pub(crate) fn node_of(user: &str) -> Option<&str> {
    let name = user.strip_prefix(NODE)?;
    names::subdomain(name).is_none().then_some(name)
}
