//! One connection: HTTP/1.1 over TLS, one request at a time, as lean as can be, so that the servers are what is measured.
//!
//! Promises that whatever is not a success is an error. Must not know what is asked.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::contender::credentials;

/// Where a server is, and how it is convinced.
#[derive(Clone)]
pub struct Place {
    authority: String,
    token: String,
    tls: TlsConnector,
}

/// An open connection.
pub struct Connection {
    place: Place,
    sender: SendRequest<Full<Bytes>>,
}

impl Place {
    pub async fn of(kubeconfig: &Path) -> Result<Self> {
        let (url, token, authorities) = credentials(kubeconfig).await?;
        let mut roots = rustls::RootCertStore::empty();
        for authority in authorities {
            roots.add(CertificateDer::from(authority))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            authority: url.authority().context("a host")?.to_string(),
            token: format!("Bearer {token}"),
            tls: TlsConnector::from(Arc::new(config)),
        })
    }

    pub async fn connect(&self) -> Result<Connection> {
        let stream = TcpStream::connect(&self.authority).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("127.0.0.1")?;
        let stream = self.tls.connect(name, stream).await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        // It ends with its sender.
        tokio::spawn(connection);
        Ok(Connection {
            place: self.clone(),
            sender,
        })
    }
}

impl Connection {
    /// Sends a request; the answer's body is still to be read.
    pub async fn open(&mut self, method: &str, path: &str, body: Bytes) -> Result<Incoming> {
        let kind = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("host", &self.place.authority)
            .header("authorization", &self.place.token)
            .header("content-type", kind)
            .header("accept", "application/json")
            .body(Full::new(body))?;
        self.sender.ready().await?;
        let answer = self.sender.send_request(request).await?;
        let status = answer.status();
        if !status.is_success() {
            let said = answer.into_body().collect().await?.to_bytes();
            bail!(
                "{method} {path}: {status}: {}",
                String::from_utf8_lossy(&said)
            );
        }
        Ok(answer.into_body())
    }

    /// Sends a request and reads the whole answer.
    pub async fn ask(&mut self, method: &str, path: &str, body: Bytes) -> Result<Bytes> {
        let answer = self.open(method, path, body).await?;
        Ok(answer.collect().await?.to_bytes())
    }
}
