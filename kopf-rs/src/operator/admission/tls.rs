//! Converts certificates for rustls, and validates them.
//!
//! Must not know where they come from.

use std::sync::Arc;

use jiff::Timestamp;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use crate::admission::certificates::Generation;

/// Returns the TLS configuration: the certificate with its key, and the authorities of client certificates if they are demanded.
pub(super) fn server_config(
    certificate: &str,
    key: &str,
    client_authorities: Option<&str>,
) -> Result<Arc<ServerConfig>, String> {
    let certificates = certificates(certificate)?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes());
    let key = key.map_err(|error| format!("the private key cannot be read: {error}"))?;
    let config = ServerConfig::builder_with_provider(provider());
    let config = config.with_safe_default_protocol_versions();
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
    // API servers do not resume sessions.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// Returns why a client that trusts the generation's authority would reject its certificate for one of its names at this time.
pub(super) fn flaw(generation: &Generation, now: Timestamp) -> Option<String> {
    verify(generation, now).err()
}

/// Returns why these cannot be authorities.
pub(super) fn flaw_of_authorities(pem: &str) -> Option<String> {
    roots(pem).err()
}

fn verify(generation: &Generation, now: Timestamp) -> Result<(), String> {
    let certificates = certificates(&generation.certificate)?;
    let roots = Arc::new(roots(&generation.authority)?);
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider());
    let verifier = verifier.build().map_err(|error| error.to_string())?;
    let seconds = u64::try_from(now.as_second()).unwrap_or_default();
    let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
    let (end, others) = certificates.split_first().ok_or("there is no certificate")?;
    for name in &generation.names {
        let server = ServerName::try_from(name.as_str());
        let server = server.map_err(|error| format!("`{name}`: {error}"))?;
        let outcome = verifier.verify_server_cert(end, others, &server, &[], now);
        outcome.map_err(|error| format!("`{name}`: {error}"))?;
    }
    Ok(())
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let read = read.map_err(|error| format!("the certificate cannot be read: {error}"))?;
    if read.is_empty() {
        return Err("there is no certificate in it".to_owned());
    }
    Ok(read)
}

fn roots(pem: &str) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem)? {
        let added = roots.add(certificate);
        added.map_err(|error| format!("an authority cannot be trusted: {error}"))?;
    }
    Ok(roots)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
