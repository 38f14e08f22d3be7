//! What a login handler returns: where the API server is, and what is shown to it.
//!
//! Promises that nothing of it is printed but the server, without a password that its URL may have. Must not know how a connection is made of it.

use std::fmt;
use std::path::PathBuf;
use std::time::SystemTime;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cluster::server_url::shown_url;

/// Where the API server is, and what to show it: what functions with [`on_login`](macro@crate::on_login) return.
///
/// ```
/// use kopf_rs::ConnectionInfo;
/// use std::time::{Duration, SystemTime};
///
/// let info = ConnectionInfo::new("https://10.0.0.1:6443")
///     .ca_path("/etc/kubernetes/ca.crt")
///     .token("abc")
///     .expiration(SystemTime::now() + Duration::from_secs(3600));
/// assert!(!format!("{info:?}").contains("abc"));
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ConnectionInfo {
    pub(super) server: String,
    pub(super) ca_path: Option<PathBuf>,
    pub(super) ca_data: Option<String>,
    pub(super) insecure: bool,
    pub(super) username: Option<String>,
    pub(super) password: Option<String>,
    pub(super) scheme: Option<String>,
    pub(super) token: Option<String>,
    pub(super) certificate_path: Option<PathBuf>,
    pub(super) certificate_data: Option<String>,
    pub(super) private_key_path: Option<PathBuf>,
    pub(super) private_key_data: Option<String>,
    pub(super) proxy_url: Option<String>,
    pub(super) trust_env: bool,
    pub(super) priority: i32,
    pub(super) expiration: Option<Timestamp>,
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, $name: impl Into<$type>) -> Self {
            self.$name = Some($name.into());
            self
        }
    )*};
}

impl ConnectionInfo {
    /// The API server at this URL, and nothing to show it.
    #[must_use]
    pub fn new(server: impl Into<String>) -> Self {
        Self {
            server: server.into(),
            ca_path: None,
            ca_data: None,
            insecure: false,
            username: None,
            password: None,
            scheme: None,
            token: None,
            certificate_path: None,
            certificate_data: None,
            private_key_path: None,
            private_key_data: None,
            proxy_url: None,
            trust_env: false,
            priority: 0,
            expiration: None,
        }
    }

    setters! {
        /// The file with the certificates of the authorities that the server's certificate may be signed by. It is read again when it changes.
        ca_path: PathBuf;
        /// The same certificates as PEM, or as base64 of PEM.
        ca_data: String;
        /// The name of the user, for basic authentication.
        username: String;
        /// The user's password, for basic authentication.
        password: String;
        /// What the header `Authorization` has before the token. Default: `Bearer`.
        scheme: String;
        /// The token.
        token: String;
        /// The file with the client's certificate.
        certificate_path: PathBuf;
        /// The client's certificate as PEM, or as base64 of PEM.
        certificate_data: String;
        /// The file with the key of the client's certificate.
        private_key_path: PathBuf;
        /// The key as PEM, or as base64 of PEM.
        private_key_data: String;
        /// The HTTP proxy in front of the server.
        proxy_url: String;
    }

    /// Do not verify the server's certificate.
    #[must_use]
    pub fn insecure(mut self) -> Self {
        self.insecure = true;
        self
    }

    /// Reach the server through the proxy that `HTTPS_PROXY` and its siblings name.
    #[must_use]
    pub fn trust_env(mut self) -> Self {
        self.trust_env = true;
        self
    }

    /// Of several credentials those with the highest priority are used first. Default: 0.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// From then on they are not used any more: the login handlers are called again.
    #[must_use]
    pub fn expiration(mut self, at: SystemTime) -> Self {
        self.expiration = Some(Timestamp::try_from(at).unwrap_or(Timestamp::MAX));
        self
    }

    /// Whether the server would be shown the same.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let plain = |info: &Self| Self {
            priority: 0,
            expiration: None,
            ..info.clone()
        };
        plain(self) == plain(other)
    }

    pub(super) fn is_expired(&self, now: Timestamp) -> bool {
        self.expiration.is_some_and(|at| at <= now)
    }
}

impl fmt::Debug for ConnectionInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionInfo")
            .field("server", &shown_url(&self.server))
            .field("priority", &self.priority)
            .field("expiration", &self.expiration)
            .finish_non_exhaustive()
    }
}
