//! Certificates of servers and of a client, generated in each process.
//!
//! This module must not depend on their users.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::DigitallySignedStruct;
use rustls::DistinguishedName;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{ServerConfig, SignatureScheme};

/// The certificates as PEM.
pub(super) struct Keys {
    pub(super) authority: String,
    pub(super) good: Pair,
    /// A certificate that signs itself.
    pub(super) selfsigned: Pair,
    pub(super) expired: Pair,
    pub(super) client: Pair,
    pub(super) other: Pair,
}

/// A certificate and its key.
pub(super) struct Pair {
    pub(super) certificate: String,
    pub(super) key: String,
}

impl Keys {
    pub(super) fn generate() -> Self {
        let mut root = CertificateParams::new(Vec::new()).expect("it has no names");
        root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root_key = KeyPair::generate().expect("a key");
        let authority = root.self_signed(&root_key).expect("a certificate").pem();
        let issuer = Issuer::new(root, root_key);
        let names = ["127.0.0.1", "localhost", "10.1.2.3", "cluster.example", "cluster.invalid"];
        let wanted = || {
            let names = names.map(str::to_owned).to_vec();
            CertificateParams::new(names).expect("its names are valid")
        };
        let signed = |wanted: CertificateParams| {
            let key = KeyPair::generate().expect("a key");
            let certificate = wanted.signed_by(&key, &issuer).expect("a certificate");
            Pair { certificate: certificate.pem(), key: key.serialize_pem() }
        };
        let mut own = wanted();
        own.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let own_key = KeyPair::generate().expect("a key");
        let mut expired = wanted();
        expired.not_before = date_time_ymd(2000, 1, 1);
        expired.not_after = date_time_ymd(2001, 1, 1);
        Self {
            selfsigned: Pair {
                certificate: own.self_signed(&own_key).expect("a certificate").pem(),
                key: own_key.serialize_pem(),
            },
            authority,
            good: signed(wanted()),
            expired: signed(expired),
            client: signed(wanted()),
            other: signed(wanted()),
        }
    }

    /// Returns the name of the certificate that a client has presented.
    pub(super) fn name(&self, shown: &CertificateDer<'_>) -> &'static str {
        let p521 = include_str!("../../../kubeconfigs/p521.crt");
        let known = [("client", self.client.certificate.as_str()), ("p521", p521)];
        let is = |pem: &str| *shown == der(pem);
        known.into_iter().find(|(_, pem)| is(pem)).map_or("unknown", |(name, _)| name)
    }
}

impl Pair {
    /// Returns a TLS configuration for HTTP/1.1 that requests a client certificate.
    pub(super) fn config(&self) -> Arc<ServerConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions();
        let config = config.expect("ring knows the versions");
        let config = config.with_client_cert_verifier(Arc::new(Anybody));
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).expect("a key");
        let chain = vec![der(&self.certificate)];
        let mut config = config.with_single_cert(chain, key).expect("a pair");
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Arc::new(config)
    }
}

fn der(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate")
}

/// Accepts every client certificate, because only its identity is of interest.
#[derive(Debug)]
struct Anybody;

impl ClientCertVerifier for Anybody {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![
            SignatureScheme::ECDSA_NISTP256_SHA256,
            SignatureScheme::ECDSA_NISTP384_SHA384,
            SignatureScheme::ECDSA_NISTP521_SHA512,
            SignatureScheme::ED25519,
            SignatureScheme::RSA_PSS_SHA256,
        ]
    }
}
