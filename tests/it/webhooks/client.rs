//! A client that calls a webhook endpoint as the API server does, and in ways that it never would.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::client::WantsClientCert;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ConfigBuilder};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The endpoint of a webhook.
pub(super) struct Asker {
    pub(super) port: u16,
    host: String,
    path: String,
    connector: TlsConnector,
}

impl Asker {
    /// Returns a client for the `clientConfig` of a webhook.
    pub(super) fn of(hook: &Value) -> Self {
        type Unfinished = ConfigBuilder<ClientConfig, WantsClientCert>;
        Self::with(hook, Unfinished::with_no_client_auth)
    }

    /// Does the same as [`Self::of`] with a client certificate (PEM).
    pub(super) fn showing(hook: &Value, certificate: &str, key: &str) -> Self {
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes());
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes());
        let (certificate, key) = (certificate.expect("PEM"), key.expect("PEM"));
        Self::with(hook, |config| {
            let config = config.with_client_auth_cert(vec![certificate], key);
            config.expect("they belong together")
        })
    }

    fn with(
        hook: &Value,
        finish: impl FnOnce(ConfigBuilder<ClientConfig, WantsClientCert>) -> ClientConfig,
    ) -> Self {
        let url = hook["clientConfig"]["url"].as_str().expect("a URL");
        let url: http::Uri = url.parse().expect("it is one");
        let bundle = hook["clientConfig"]["caBundle"].as_str();
        let bundle = STANDARD.decode(bundle.expect("a bundle")).expect("base64");
        let mut roots = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&bundle) {
            let certificate = certificate.expect("PEM");
            roots.add(certificate).expect("an authority");
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions();
        let config = config.expect("versions of TLS");
        let config = finish(config.with_root_certificates(roots));
        Self {
            port: url.port_u16().expect("a port"),
            host: url.host().expect("a host").to_owned(),
            path: url.path().to_owned(),
            connector: TlsConnector::from(Arc::new(config)),
        }
    }

    /// Opens a connection, without TLS yet.
    pub(super) async fn dial(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await;
        stream.expect("somebody listens")
    }

    pub(super) async fn connect(&self) -> TlsStream<TcpStream> {
        let host = self.host.trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(host).expect("a name");
        let connected = self.connector.connect(name, self.dial().await).await;
        connected.expect("the certificate is trusted")
    }

    /// Sends a request to the webhook's own path, and returns the code and the body of the answer.
    pub(super) async fn post(&self, body: &[u8]) -> (u16, String) {
        self.ask("POST", &self.path, "", body).await
    }

    /// Returns the code of the answer; `None` if the endpoint rejects the client certificate.
    pub(super) async fn code(&self, body: &[u8]) -> Option<u16> {
        let mut stream = self.connect().await;
        let (path, length) = (&self.path, body.len());
        let head = format!(
            "POST {path}?timeout=10s HTTP/1.1\r\nHost: hooks\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.ok()?;
        stream.write_all(body).await.ok()?;
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes).await;
        let text = String::from_utf8_lossy(&bytes);
        text.split(' ').nth(1)?.parse().ok()
    }

    /// Sends any request.
    pub(super) async fn ask(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> (u16, String) {
        let mut stream = self.connect().await;
        let length = body.len();
        let head = format!(
            "{method} {path}?timeout=10s HTTP/1.1\r\nHost: hooks\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.expect("it is read");
        // The endpoint stops reading a body that is too large.
        let _ = stream.write_all(body).await;
        answer(stream).await
    }
}

/// Reads until the connection ends.
pub(super) async fn answer(mut stream: TlsStream<TcpStream>) -> (u16, String) {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
    let code = head.split(' ').nth(1).and_then(|it| it.parse().ok());
    (code.expect("a code"), body.to_owned())
}
