//! Validates certificates as a client would.
//!
//! Must not know where they come from.

use std::sync::Arc;

use jiff::Timestamp;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::{ServerName, UnixTime};

use crate::admission::certificates::Generation;
use crate::rt::tls::{certificates, provider, roots};

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
