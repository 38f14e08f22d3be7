//! A certificate authority and a serving certificate, made for one listener.
//!
//! Promise: valid for the addresses the server is reached at; the provider is `ring`, never the process default.
//! Must not know HTTP.

use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// What a listener needs to speak TLS, and what its clients need to trust it.
pub(crate) struct Identity {
    pub(crate) config: Arc<rustls::ServerConfig>,
    pub(crate) authority_pem: String,
}

/// Why no certificate could be made.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A certificate could not be made.
    #[error("failed to make a certificate")]
    Certificate(#[from] rcgen::Error),
    /// The TLS configuration was refused.
    #[error("failed to configure TLS")]
    Config(#[from] rustls::Error),
}

pub(crate) fn identity(address: IpAddr, now: i64) -> Result<Identity, TlsError> {
    let authority_key = KeyPair::generate()?;
    let mut authority = CertificateParams::new(Vec::<String>::new())?;
    authority
        .distinguished_name
        .push(DnType::CommonName, "kopf-rs-apiserver-ca");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    limit(&mut authority, now);
    let authority_pem = authority.self_signed(&authority_key)?.pem();
    let issuer = Issuer::new(authority, authority_key);

    let mut names = vec![
        "localhost".to_owned(),
        "kubernetes".to_owned(),
        "kubernetes.default.svc".to_owned(),
        "127.0.0.1".to_owned(),
        "::1".to_owned(),
    ];
    let address = address.to_string();
    if !names.contains(&address) {
        names.push(address);
    }
    let serving_key = KeyPair::generate()?;
    let mut serving = CertificateParams::new(names)?;
    serving
        .distinguished_name
        .push(DnType::CommonName, "kopf-rs-apiserver");
    serving.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    limit(&mut serving, now);
    let certificate = serving.signed_by(&serving_key, &issuer)?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(serving_key.serialize_der()));

    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Identity {
        config: Arc::new(config),
        authority_pem,
    })
}

/// Valid from an hour ago for ten years.
fn limit(params: &mut CertificateParams, now: i64) {
    const HOUR: i64 = 3600;
    const YEAR: i64 = 365 * 24 * HOUR;
    let year = |seconds: i64| jiff::Timestamp::from_second(seconds).map(date);
    if let (Ok(from), Ok(to)) = (year(now - 24 * HOUR), year(now + 10 * YEAR)) {
        params.not_before = rcgen::date_time_ymd(from.0, from.1, from.2);
        params.not_after = rcgen::date_time_ymd(to.0, to.1, to.2);
    }
}

fn date(at: jiff::Timestamp) -> (i32, u8, u8) {
    let date = at.to_zoned(jiff::tz::TimeZone::UTC).date();
    (
        i32::from(date.year()),
        date.month().unsigned_abs(),
        date.day().unsigned_abs(),
    )
}
