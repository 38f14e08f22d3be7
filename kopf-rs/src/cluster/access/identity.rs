//! A client certificate and its key in the form that TLS needs.
//!
//! This module guarantees that they belong together. It does not know where they come from.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::cluster::crypto::provider;

/// Parses a client certificate with its chain, and its key, both in PEM.
pub(in crate::cluster) fn identity(certificate: &[u8], key: &[u8]) -> Result<Arc<CertifiedKey>, String> {
    let chain = CertificateDer::pem_slice_iter(certificate);
    let chain: Result<Vec<_>, _> = chain.collect();
    let chain = chain.map_err(|_| "the client certificate is not valid PEM")?;
    if chain.is_empty() {
        return Err("the client certificate has no section `BEGIN CERTIFICATE`".to_owned());
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| {
        "the client key has no section `BEGIN PRIVATE KEY`, `BEGIN RSA PRIVATE KEY` or `BEGIN EC PRIVATE KEY` (encrypted keys are not supported)"
    })?;
    let found = CertifiedKey::from_der(chain, key, &provider());
    match found {
        Ok(found) => Ok(Arc::new(found)),
        Err(rustls::Error::InconsistentKeys(_)) => {
            Err("the client key is not the one of the client certificate".to_owned())
        }
        Err(error) => Err(format!("the client certificate and its key cannot be used: {error}")),
    }
}
