//! What admission handlers are told beside the object: who asks for what, and in which way. And where their warnings go.
//!
//! Must not know how a review travels.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::handler::operation::Operation;

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct ReviewFacts {
    pub(crate) operation: Operation,
    pub(crate) subresource: Option<String>,
    pub(crate) dryrun: bool,
    /// The name in the request: not all objects under review have one.
    pub(crate) name: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) userinfo: Value,
    /// Of the API server's call, by their names in lower case.
    pub(crate) headers: Value,
    /// The certificate that the API server has shown, if it has.
    pub(crate) sslpeer: Value,
}

/// Who asks: the argument `userinfo` of admission handlers as a type. Any other type that can be deserialized does as well.
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
    /// What tells the user from others of that name, where there is such a thing.
    pub uid: String,
    /// The groups of the user.
    pub groups: Vec<String>,
    /// What else the authenticator says.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// Warnings for whoever has sent the request: the argument `warnings` of admission handlers. They are shown also if the request is denied.
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
/// The API server shows 4096 characters in all; a warning should have less than 120. Clones share the warnings.
#[derive(Clone, Debug, Default)]
pub struct Warnings(Arc<Mutex<Vec<String>>>);

// === impl ===

impl ReviewFacts {
    /// A request of nobody in particular.
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
    /// None so far.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Add one.
    pub fn push(&self, warning: impl Into<String>) {
        let warning = warning.into();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(warning);
    }

    /// All of them, in order.
    #[must_use]
    pub fn all(&self) -> Vec<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.clone()
    }
}
