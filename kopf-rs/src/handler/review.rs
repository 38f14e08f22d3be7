//! The data of an admission request beside the object: the user, the operation and the warnings.
//!
//! This module does not know how reviews are transported.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::handler::operation::Operation;

/// The data of an admission request.
#[derive(Clone, Debug)]
pub(crate) struct ReviewFacts {
    pub(crate) operation: Operation,
    pub(crate) subresource: Option<String>,
    pub(crate) dryrun: bool,
    /// The name from the request, since some objects under review have no name yet.
    pub(crate) name: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) userinfo: Value,
    /// The HTTP headers of the API server's call, with names in lower case.
    pub(crate) headers: Value,
    /// The client certificate of the API server, if it presented one.
    pub(crate) sslpeer: Value,
}

/// The user who sent the request: the argument `userinfo` of admission handlers as a type. Any other type that
/// implements `Deserialize` works as well.
///
/// ```
/// use kopf_rs::prelude::*;
///
/// #[on_validate("kopfexamples")]
/// async fn only_admins(userinfo: UserInfo) -> HandlerResult {
///     if !userinfo.groups.iter().any(|group| group == "admins") {
///         return Err(AdmissionError::new("only admins may do that").code(403));
///     }
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct UserInfo {
    /// The name of the user, or of the service account: `system:serviceaccount:NAMESPACE:NAME`.
    pub username: String,
    /// A unique id that distinguishes users of the same name, if the authenticator provides one.
    pub uid: String,
    /// The groups of the user.
    pub groups: Vec<String>,
    /// Additional data from the authenticator.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// Warnings for the sender of the request: the argument `warnings` of admission handlers. The sender sees them even
/// if the request is denied.
///
/// ```
/// use kopf_rs::prelude::*;
///
/// #[on_validate("kopfexamples")]
/// async fn sizes(#[from(spec.size)] size: Option<u32>, warnings: &Warnings) {
///     if size.is_none() {
///         warnings.push("spec.size is not set: it will be 1");
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// // In a unit test:
/// let warnings = Warnings::new();
/// sizes(None, &warnings).await;
/// assert_eq!(warnings.all(), ["spec.size is not set: it will be 1"]);
/// # });
/// ```
///
/// The API server shows at most 4096 characters in total; keep each warning below 120. Clones share the warnings.
#[derive(Clone, Debug, Default)]
pub struct Warnings(Arc<Mutex<Vec<String>>>);

// === impl ===

impl ReviewFacts {
    /// Creates the data of an anonymous request.
    pub(crate) fn of(operation: Operation) -> Self {
        Self {
            operation,
            subresource: None,
            dryrun: false,
            name: None,
            namespace: None,
            userinfo: Value::Object(Map::new()),
            headers: Value::Object(Map::new()),
            sslpeer: Value::Object(Map::new()),
        }
    }
}

impl Warnings {
    /// Creates an empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a warning.
    pub fn push(&self, warning: impl Into<String>) {
        let warning = warning.into();
        let mut all = self.0.lock();
        all.push(warning);
    }

    /// Returns all warnings in order.
    #[must_use]
    pub fn all(&self) -> Vec<String> {
        let all = self.0.lock();
        all.clone()
    }
}
