//! TLS with the server: the trusted authorities and the client certificate.
//!
//! Accepts, beyond webpki's rules, a server certificate that is itself one of the authorities, as Go's clients do.
//! Self-signed CA certificates of servers need that. This module does not know where certificates come from.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::SingleCertAndKey;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_platform_verifier::Verifier;
use tokio::time::Instant;

#[cfg(feature = "cli")]
use crate::cluster::access::Authorization;
use crate::cluster::access::{Access, Trust};
use crate::cluster::crypto;

/// The interval between two reads of a file with authorities.
const PERIOD: Duration = Duration::from_secs(60);

/// Returns the TLS configuration for a connection.
pub(super) fn tls(access: &Access) -> Result<ClientConfig, String> {
    let provider = Arc::new(crypto::provider());
    // Without a default provider, rustls panics if a program links two. The first one installed stays.
    let _ = CryptoProvider::clone(&provider).install_default();
    // kube's `Config::rustls_client_config` is not called, because it links all of kube's credential plugins.
    let nobody = ClientConfig::builder_with_protocol_versions(access.minimum_tls.or_later());
    let nobody = nobody.with_root_certificates(RootCertStore::empty());
    let mut tls = nobody.with_no_client_auth();
    if let Some(verifier) = verifier(access, &provider)? {
        tls.dangerous().set_certificate_verifier(verifier);
    }
    let shown = access.identity.clone().map(SingleCertAndKey::from);
    let shown = shown.map(|it| Arc::new(it) as Arc<dyn ResolvesClientCert>);
    #[cfg(feature = "cli")]
    let shown = match &access.authorization {
        Authorization::Plugin(plugin) => shown.or_else(|| Some(plugin.clone())),
        _ => shown,
    };
    if let Some(shown) = shown {
        tls.client_auth_cert_resolver = shown;
    }
    Ok(tls)
}

/// Returns the verifier of the server's certificate, or `None` to trust nobody.
fn verifier(
    access: &Access,
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ServerCertVerifier>>, String> {
    Ok(Some(match &access.trust {
        // Without TLS the system's authorities are not needed, and there may be none.
        Trust::System if access.server.scheme_str() == Some("http") => return Ok(None),
        Trust::System => {
            let system = Verifier::new(provider.clone());
            Arc::new(system.map_err(|why| format!("the authorities of this machine cannot be used: {why}"))?)
        }
        Trust::Authorities(pem) => Arc::new(Authorities::inline(pem, provider)?),
        Trust::File(path) => Arc::new(Authorities::file(path.clone(), provider)?),
        Trust::Anybody => Arc::new(Anybody),
    }))
}

/// Accepts every certificate.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
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
        // Lists every scheme that a server may offer, because no signature is verified.
        vec![
            SignatureScheme::RSA_PKCS1_SHA1,
            SignatureScheme::ECDSA_SHA1_Legacy,
            SignatureScheme::RSA_PKCS1_SHA256,
            SignatureScheme::ECDSA_NISTP256_SHA256,
            SignatureScheme::RSA_PKCS1_SHA384,
            SignatureScheme::ECDSA_NISTP384_SHA384,
            SignatureScheme::RSA_PKCS1_SHA512,
            SignatureScheme::ECDSA_NISTP521_SHA512,
            SignatureScheme::RSA_PSS_SHA256,
            SignatureScheme::RSA_PSS_SHA384,
            SignatureScheme::RSA_PSS_SHA512,
            SignatureScheme::ED25519,
            SignatureScheme::ED448,
        ]
    }
}

/// The authorities that may sign the server's certificate.
struct Authorities {
    /// The file to read them from again.
    file: Option<PathBuf>,
    provider: Arc<CryptoProvider>,
    current: RwLock<(Arc<Known>, Instant)>,
}

struct Known {
    verifier: Arc<WebPkiServerVerifier>,
    certificates: Vec<CertificateDer<'static>>,
}

impl Authorities {
    fn inline(pem: &[u8], provider: &Arc<CryptoProvider>) -> Result<Self, String> {
        Ok(Self {
            file: None,
            provider: provider.clone(),
            current: RwLock::new((Known::of(pem, provider)?, Instant::now())),
        })
    }

    fn file(path: PathBuf, provider: &Arc<CryptoProvider>) -> Result<Self, String> {
        let pem = std::fs::read(&path);
        let pem = pem.map_err(|error| format!("{}: {error}", path.display()))?;
        let authorities = Self::inline(&pem, provider);
        let authorities = authorities.map_err(|why| format!("{}: {why}", path.display()))?;
        Ok(Self { file: Some(path), ..authorities })
    }

    fn current(&self) -> Arc<Known> {
        let Some(path) = &self.file else {
            return self.current.read().0.clone();
        };
        let mut current = self.current.write();
        if current.1.elapsed() >= PERIOD {
            current.1 = Instant::now();
            let pem = std::fs::read(path).map_err(|error| error.to_string());
            match pem.and_then(|pem| Known::of(&pem, &self.provider)) {
                Ok(known) => current.0 = known,
                Err(why) => tracing::warn!(
                    "The authorities in {} cannot be read again, so those read before stay in use: {why}",
                    path.display()
                ),
            }
        }
        current.0.clone()
    }
}

impl Known {
    /// As in Go, invalid certificates and other sections are ignored if at least one certificate is valid.
    fn of(pem: &[u8], provider: &Arc<CryptoProvider>) -> Result<Arc<Self>, String> {
        let found = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok);
        let certificates: Vec<_> = found.collect();
        let mut store = RootCertStore::empty();
        let (valid, _) = store.add_parsable_certificates(certificates.iter().cloned());
        if valid == 0 {
            return Err(
                "there is no valid certificate of an authority: expected PEM with a section `BEGIN CERTIFICATE`"
                    .to_owned(),
            );
        }
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider.clone());
        let verifier = verifier.build().map_err(|error| error.to_string())?;
        Ok(Arc::new(Self { verifier, certificates }))
    }
}

impl fmt::Debug for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorities").field("file", &self.file).finish_non_exhaustive()
    }
}

impl ServerCertVerifier for Authorities {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let known = self.current();
        let verified =
            known.verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            // webpki has checked the validity period before it reports this error.
            Err(rustls::Error::InvalidCertificate(CertificateError::Other(why)))
                if is_authority(&why) && known.certificates.iter().any(|it| it == end_entity) =>
            {
                let certificate = ParsedCertificate::try_from(end_entity)?;
                verify_server_name(&certificate, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = self.current();
        known.verifier.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = self.current();
        known.verifier.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.current().verifier.supported_verify_schemes()
    }
}

/// Returns true if webpki rejects a CA certificate because it is used as a server certificate.
fn is_authority(why: &rustls::OtherError) -> bool {
    // The error's type belongs to webpki, which is not a direct dependency.
    why.0.to_string() == "CaUsedAsEndEntity"
}
