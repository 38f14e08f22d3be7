//! Creates a certificate authority, and a serving certificate for each listener.
//!
//! Guarantees certificates that are valid for the server's addresses, and uses `ring` as provider instead of the process default.
//! Must not depend on HTTP.

use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// The reason why a certificate cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A certificate could not be created.
    #[error("failed to make a certificate")]
    Certificate(#[from] rcgen::Error),
    /// The TLS configuration was refused.
    #[error("failed to configure TLS")]
    Config(#[from] rustls::Error),
}

/// Returns the certificate and key of a new authority, as PEM.
pub(crate) fn authority(now: i64) -> Result<(String, String), TlsError> {
    let key = KeyPair::generate()?;
    let certificate = authority_params(now)?.self_signed(&key)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

fn authority_params(now: i64) -> Result<CertificateParams, TlsError> {
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params
        .distinguished_name
        .push(DnType::CommonName, "kopf-rs-apiserver-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    limit(&mut params, now);
    Ok(params)
}

/// Returns the TLS configuration for a listener at this address, with a certificate signed by the authority.
pub(crate) fn serving(
    address: IpAddr,
    now: i64,
    authority_key: &str,
) -> Result<Arc<rustls::ServerConfig>, TlsError> {
    let issuer = Issuer::new(authority_params(now)?, KeyPair::from_pem(authority_key)?);
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
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(names)?;
    params
        .distinguished_name
        .push(DnType::CommonName, "kopf-rs-apiserver");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    limit(&mut params, now);
    let certificate = params.signed_by(&key, &issuer)?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));

    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Sets the validity from a day ago to ten years from now.
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
