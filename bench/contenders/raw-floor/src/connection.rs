//! A connection to the server of a kubeconfig: hyper over TLS, one request at a time.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::Error;

/// The address of a server, and the credentials for it.
pub struct Server {
    authority: String,
    token: String,
    tls: TlsConnector,
}

/// An open connection.
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    authority: String,
    token: String,
}

impl Server {
    /// Reads the server from the file that `$KUBECONFIG` names.
    pub fn of_environment() -> Result<Self, Error> {
        let path = std::env::var_os("KUBECONFIG").ok_or("$KUBECONFIG is not set")?;
        let file: Value = serde_json::from_slice(&std::fs::read(PathBuf::from(path))?)?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let cluster = &file["clusters"][0]["cluster"];
        let mut roots = rustls::RootCertStore::empty();
        for authority in CertificateDer::pem_file_iter(text(&cluster["certificate-authority"]))? {
            roots.add(authority?)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            authority: text(&cluster["server"]).replacen("https://", "", 1),
            token: format!("Bearer {}", text(&file["users"][0]["user"]["token"])),
            tls: TlsConnector::from(Arc::new(config)),
        })
    }

    pub async fn connect(&self) -> Result<Connection, Error> {
        let stream = TcpStream::connect(&self.authority).await?;
        stream.set_nodelay(true)?;
        let host = self.authority.rsplit_once(':').ok_or("no port")?.0;
        let name = ServerName::try_from(host.to_owned())?;
        let stream = self.tls.connect(name, stream).await?;
        let (sender, driver) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(driver);
        Ok(Connection { sender, authority: self.authority.clone(), token: self.token.clone() })
    }
}

impl Connection {
    /// Sends a request; the caller must read the response body to its end before the next request.
    pub async fn send(&mut self, method: &str, url: &str, body: Vec<u8>) -> Result<Incoming, Error> {
        let request = Request::builder()
            .method(method)
            .uri(url)
            .header("host", &self.authority)
            .header("authorization", &self.token)
            .header("accept", "application/json")
            .header("content-type", "application/merge-patch+json")
            .body(Full::from(body))?;
        self.sender.ready().await?;
        let answer = self.sender.send_request(request).await?;
        if answer.status().is_success() {
            Ok(answer.into_body())
        } else {
            Err(format!("{method} {url}: {}", answer.status()).into())
        }
    }
}
