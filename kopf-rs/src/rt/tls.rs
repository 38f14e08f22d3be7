//! TLS of the operator's endpoints: configurations from PEM texts, and the certificate that new connections get.
//!
//! This module does not know where certificates come from, nor who connects.

use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};

/// A version of TLS: [`Networking::minimum_tls`](crate::Networking::minimum_tls).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TlsVersion {
    /// TLS 1.2, with forward secrecy and authenticated encryption only.
    #[default]
    V1_2,
    /// TLS 1.3.
    V1_3,
}

static ONLY_1_3: [&SupportedProtocolVersion; 1] = [&rustls::version::TLS13];

impl TlsVersion {
    /// Returns this version and the later ones.
    pub(crate) fn or_later(self) -> &'static [&'static SupportedProtocolVersion] {
        match self {
            Self::V1_2 => rustls::ALL_VERSIONS,
            Self::V1_3 => &ONLY_1_3,
        }
    }
}

impl fmt::Display for TlsVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1_2 => "1.2",
            Self::V1_3 => "1.3",
        })
    }
}

/// The certificate that new connections get. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Identity(Arc<RwLock<Shown>>);

#[derive(Debug)]
struct Shown {
    /// The certificate as it was read.
    certificate: String,
    config: Arc<ServerConfig>,
}

impl Identity {
    pub(crate) fn new(certificate: &str, config: Arc<ServerConfig>) -> Self {
        Self(Arc::new(RwLock::new(Shown { certificate: certificate.to_owned(), config })))
    }

    /// Presents this certificate to new connections. Returns whether it differs. Existing connections continue.
    pub(crate) fn replace(&self, certificate: &str, config: Arc<ServerConfig>) -> bool {
        let mut shown = self.0.write();
        let is_other = shown.certificate != certificate;
        certificate.clone_into(&mut shown.certificate);
        shown.config = config;
        is_other
    }

    pub(crate) fn current(&self) -> Arc<ServerConfig> {
        let shown = self.0.read();
        shown.config.clone()
    }
}

/// Returns the TLS configuration: the certificate with its key, the authorities of client certificates if they are demanded, and the lowest
/// version that clients may use.
pub(crate) fn server_config(
    certificate: &str,
    key: &str,
    client_authorities: Option<&str>,
    minimum: TlsVersion,
) -> Result<Arc<ServerConfig>, String> {
    let certificates = certificates(certificate)?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes());
    let key = key.map_err(|error| format!("the private key cannot be read: {error}"))?;
    let config = ServerConfig::builder_with_provider(provider());
    let config = config.with_protocol_versions(minimum.or_later());
    let config = config.map_err(|error| error.to_string())?;
    let config = match client_authorities {
        None => config.with_no_client_auth(),
        Some(authorities) => {
            let roots = Arc::new(roots(authorities)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider());
            let verifier = verifier.allow_unauthenticated().build();
            config.with_client_cert_verifier(verifier.map_err(|error| error.to_string())?)
        }
    };
    let config = config.with_single_cert(certificates, key);
    let mut config = config.map_err(|error| format!("the certificate cannot be served: {error}"))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // API servers do not resume sessions, and scrapes are rare.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// Returns the certificates of a PEM text, of which there must be one.
pub(crate) fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let read = read.map_err(|error| format!("the certificate cannot be read: {error}"))?;
    if read.is_empty() {
        return Err("there is no certificate in it".to_owned());
    }
    Ok(read)
}

/// Returns the authorities of a PEM text.
pub(crate) fn roots(pem: &str) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem)? {
        let added = roots.add(certificate);
        added.map_err(|error| format!("an authority cannot be trusted: {error}"))?;
    }
    Ok(roots)
}

/// Returns the cryptography of the endpoints.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
