//! The parts of a connection, from any source: a kubeconfig, the service account of a Pod, or a login handler.
//!
//! This module guarantees that each part is valid, so that building a client from it cannot panic and cannot send
//! unintended values. Implements no `Debug`, because most of the parts are secret. It does not know where the parts
//! come from.

use std::path::PathBuf;
use std::sync::Arc;

use http::{HeaderName, HeaderValue, Uri};
use rustls::sign::CertifiedKey;

#[cfg(feature = "cli")]
use crate::cluster::access::plugin::Plugin;
use crate::cluster::proxy::ProxyChoice;
use crate::rt::tls::TlsVersion;

pub(super) mod header;
pub(super) mod identity;
#[cfg(feature = "cli")]
pub(super) mod plugin;

/// The server's address, the trusted authorities, and the credentials to present.
pub(super) struct Access {
    /// Has a scheme and a host, a valid port if it has a port, and no user.
    pub(super) server: Uri,
    pub(super) trust: Trust,
    pub(super) minimum_tls: TlsVersion,
    /// The name that the server's certificate must match, if it is not the host.
    pub(super) server_name: Option<String>,
    pub(super) identity: Option<Arc<CertifiedKey>>,
    pub(super) authorization: Authorization,
    /// Headers to send with each request.
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) proxy: ProxyChoice,
    /// The namespace for requests that specify none.
    pub(super) namespace: String,
}

/// The authorities that may sign the server's certificate.
pub(super) enum Trust {
    /// The authorities that this machine trusts.
    System,
    /// These authorities, in PEM.
    Authorities(Vec<u8>),
    /// The authorities in this file, which may be replaced at any time.
    File(PathBuf),
    /// Any authority: the certificate is not verified.
    Anybody,
}

/// The source of the `Authorization` header.
pub(super) enum Authorization {
    None,
    Fixed(HeaderValue),
    #[cfg(feature = "cli")]
    /// The token in this file, which is read again every minute. `first` is used until the file can be read.
    File {
        path: PathBuf,
        first: HeaderValue,
    },
    #[cfg(feature = "cli")]
    Plugin(Arc<Plugin>),
}

impl Access {
    /// Creates an access to this server without credentials.
    pub(super) fn to(server: Uri) -> Self {
        Self {
            server,
            trust: Trust::System,
            minimum_tls: TlsVersion::default(),
            server_name: None,
            identity: None,
            authorization: Authorization::None,
            headers: Vec::new(),
            proxy: ProxyChoice::None,
            namespace: "default".to_owned(),
        }
    }
}

impl Access {
    /// Returns a fingerprint to compare two accesses. It contains secrets in plain text, and leaves out the output of a plugin.
    #[cfg(feature = "cli")]
    pub(super) fn digest(&self) -> String {
        let trusted = match &self.trust {
            Trust::System => None,
            Trust::Anybody => Some(Vec::new()),
            Trust::Authorities(pem) => Some(pem.clone()),
            Trust::File(path) => std::fs::read(path).ok(),
        };
        let shown = match &self.authorization {
            Authorization::Fixed(value) | Authorization::File { first: value, .. } => value.as_bytes(),
            Authorization::None | Authorization::Plugin(_) => b"",
        };
        let identity = self.identity.as_ref();
        let certificate = identity.map(|it| (&it.cert, it.key.public_key()));
        let headers = self.headers.iter().map(|(name, value)| (name, value.as_bytes()));
        let headers: Vec<_> = headers.collect();
        format!(
            "{} {:?} {trusted:?} {certificate:?} {shown:?} {headers:?} {:?}",
            self.server, self.server_name, self.proxy
        )
    }
}
