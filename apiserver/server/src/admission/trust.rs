//! The TLS trust of a webhook's `caBundle`, as in Go.
//!
//! Guarantees that a certificate in the bundle is trusted even if it is a CA's, which self-signed certificates usually are.
//! Must not depend on webhooks.

use std::io;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

/// Returns a client configuration that trusts only the certificates of the bundle.
pub(super) fn trust(authority: &str) -> Result<Arc<rustls::ClientConfig>, String> {
    let mut roots = rustls::RootCertStore::empty();
    let pem = STANDARD.decode(authority).map_err(|why| why.to_string())?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let certificates = certificates.map_err(|why| why.to_string())?;
    for certificate in &certificates {
        let added = roots.add(certificate.clone());
        added.map_err(|why| why.to_string())?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|why| why.to_string())?;
    if certificates.is_empty() {
        return Ok(Arc::new(
            config.with_root_certificates(roots).with_no_client_auth(),
        ));
    }
    let usual = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
    let usual = usual.build().map_err(|why| why.to_string())?;
    let trusting = Trusting {
        usual,
        certificates,
    };
    let config = config
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(trusting));
    Ok(Arc::new(config.with_no_client_auth()))
}

/// Returns Go's error message for a failed handshake.
pub(super) fn handshake(why: &io::Error) -> String {
    let error = why
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<Error>());
    let start = "tls: failed to verify certificate: x509: ";
    match error {
        Some(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            format!("{start}certificate signed by unknown authority")
        }
        Some(Error::InvalidCertificate(other)) => format!("{start}{other}"),
        _ => why.to_string(),
    }
}

/// The standard verification, except that a CA certificate of the bundle may also be the server's own.
#[derive(Debug)]
struct Trusting {
    usual: Arc<WebPkiServerVerifier>,
    certificates: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let usual = self.usual.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match usual {
            // rustls has checked the validity period before it reports this error.
            Err(Error::InvalidCertificate(CertificateError::Other(why)))
                if format!("{why:?}").contains("CaUsedAsEndEntity") =>
            {
                if !self.certificates.contains(end_entity) {
                    return Err(CertificateError::UnknownIssuer.into());
                }
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            usual => usual,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
    use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
    use tokio_rustls::{TlsAcceptor, TlsConnector};

    use super::*;

    /// Returns the result of a handshake with a server whose certificate is a self-signed CA; with `others`, the bundle contains a
    /// different certificate.
    async fn meeting(name: &str, until: i32, others: bool) -> Result<(), String> {
        let certificate = |until: i32| {
            let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.not_after = rcgen::date_time_ymd(until, 1, 1);
            params.not_before = rcgen::date_time_ymd(1990, 1, 1);
            let key = KeyPair::generate().unwrap();
            (params.self_signed(&key).unwrap(), key)
        };
        let (own, key) = certificate(until);
        let trusted = if others {
            certificate(until).0.pem()
        } else {
            own.pem()
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let server = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![own.der().clone()],
                PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der())),
            )
            .unwrap();
        let (near, far) = tokio::io::duplex(16 * 1024);
        let client = TlsConnector::from(trust(&STANDARD.encode(trusted)).unwrap());
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let (met, _) = tokio::join!(
            client.connect(name, near),
            TlsAcceptor::from(Arc::new(server)).accept(far)
        );
        met.map(drop).map_err(|why| handshake(&why))
    }

    #[tokio::test]
    async fn an_authority_may_serve_with_its_own_certificate() {
        assert_eq!(meeting("localhost", 3000, false).await, Ok(()));
        let elsewhere = meeting("elsewhere", 3000, false).await.unwrap_err();
        assert!(elsewhere.contains("not valid for name"), "{elsewhere}");
        let late = meeting("localhost", 2001, false).await.unwrap_err();
        assert!(late.contains("expired"), "{late}");
        let strange = meeting("localhost", 3000, true).await.unwrap_err();
        assert!(strange.contains("signed by unknown authority"), "{strange}");
    }
}
