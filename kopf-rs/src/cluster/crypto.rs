//! The cryptography provider for TLS: ring, plus the curve P-521, which Go's clients support too.
//!
//! This module must not depend on connections.

use rustls::crypto::CryptoProvider;

mod p521;

/// Returns the provider for every TLS connection to an API server.
pub(super) fn provider() -> CryptoProvider {
    p521::added_to(rustls::crypto::ring::default_provider())
}
