//! The return value of a login handler: the API server's address and the credentials for it.
//!
//! This module guarantees that only the server is printed, without the password that its URL may contain. It does not
//! know how a connection is made from it.

use std::fmt;
use std::path::PathBuf;
use std::time::SystemTime;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cluster::server_url::shown_url;

/// The API server's address and the credentials for it, which functions with [`on_login`](macro@crate::on_login) return.
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
    /// Creates a connection info for the API server at this URL, without credentials. The URL needs a scheme: `https://HOST:PORT`.
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
        /// The file with the certificates of the authorities that may sign the server's certificate. It is read again when it changes.
        ca_path: PathBuf;
        /// The same certificates as PEM, or as base64 of PEM.
        ca_data: String;
        /// The user name for basic authentication.
        username: String;
        /// The password for basic authentication.
        password: String;
        /// The scheme before the token in the `Authorization` header. Default: `Bearer`.
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
        /// The proxy in front of the server: `http://`, `https://` or `socks5://`, with a user and a password if the proxy requires them.
        proxy_url: String;
    }

    /// Disables the verification of the server's certificate.
    #[must_use]
    pub fn insecure(mut self) -> Self {
        self.insecure = true;
        self
    }

    /// Reaches the server through the proxy that `HTTPS_PROXY` and related variables name.
    #[must_use]
    pub fn trust_env(mut self) -> Self {
        self.trust_env = true;
        self
    }

    /// Sets the priority: among several credentials, those with the highest priority are used first. Default: 0.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Sets the expiration: from then on the credentials are not used, and the login handlers are called again.
    #[must_use]
    pub fn expiration(mut self, at: SystemTime) -> Self {
        self.expiration = Some(Timestamp::try_from(at).unwrap_or(Timestamp::MAX));
        self
    }

    /// Returns true if both would present the same to the server.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let plain = |info: &Self| Self { priority: 0, expiration: None, ..info.clone() };
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
