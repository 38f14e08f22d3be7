//! A minimal connection: HTTP/1.1 over TLS, one request at a time, so that the client's cost does not affect the measurement.
//!
//! A response without success is an error. Must not know the requests.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail, ensure};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The address of a server, and the credentials for it.
#[derive(Clone)]
pub struct Place {
    authority: String,
    /// A header, or nothing.
    credentials: String,
    tls: TlsConnector,
}

/// An open connection.
pub struct Connection {
    place: Place,
    stream: TlsStream<TcpStream>,
    /// The received bytes.
    input: Vec<u8>,
    /// The number of bytes that were read.
    read: usize,
    output: Vec<u8>,
    left: Left,
}

/// The rest of a response body.
#[derive(Clone, Copy)]
enum Left {
    Bytes(usize),
    Chunks,
}

impl Place {
    pub async fn of(kubeconfig: &Path) -> Result<Self> {
        let (url, token, trusted) = credentials(kubeconfig).await?;
        let authority = url.authority().context("a host")?.to_string();
        let token = format!("Authorization: Bearer {token}\r\n");
        Self::at(authority, token, trusted, ring::default_provider())
    }

    /// At an address of this machine, with a certificate of one of those that are trusted.
    pub fn at(
        authority: String,
        credentials: String,
        trusted: Vec<Vec<u8>>,
        provider: CryptoProvider,
    ) -> Result<Self> {
        let mut roots = rustls::RootCertStore::empty();
        for one in trusted {
            roots.add(CertificateDer::from(one))?;
        }
        let mut config = rustls::ClientConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            authority,
            credentials,
            tls: TlsConnector::from(Arc::new(config)),
        })
    }

    pub async fn connect(&self) -> Result<Connection> {
        let stream = TcpStream::connect(&self.authority).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("127.0.0.1")?;
        Ok(Connection {
            stream: self.tls.connect(name, stream).await?,
            place: self.clone(),
            input: Vec::new(),
            read: 0,
            output: Vec::new(),
            left: Left::Bytes(0),
        })
    }
}

impl Connection {
    /// Sends a request; the caller must still read the response body.
    pub async fn open(&mut self, method: &str, path: &str, body: &str) -> Result<()> {
        let kind = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let Place {
            authority,
            credentials,
            ..
        } = &self.place;
        self.output.clear();
        write!(
            self.output,
            "{method} {path} HTTP/1.1\r\nHost: {authority}\r\n{credentials}Content-Type: {kind}\r\n\
             Accept: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len(),
        )?;
        self.stream.write_all(&self.output).await?;
        self.stream.flush().await?;
        let status = self.head().await?;
        if !(200..300).contains(&status) {
            let said = self.rest().await?;
            bail!(
                "{method} {path}: {status}: {}",
                String::from_utf8_lossy(&said)
            );
        }
        Ok(())
    }

    /// Sends a request and returns the whole response body.
    pub async fn ask(&mut self, method: &str, path: &str, body: &str) -> Result<Vec<u8>> {
        self.open(method, path, body).await?;
        self.rest().await
    }

    /// Returns the next part of the response body; empty at its end.
    pub async fn part(&mut self) -> Result<&[u8]> {
        let (size, end) = match self.left {
            Left::Bytes(0) => return Ok(&[]),
            Left::Bytes(left) => {
                if self.read == self.input.len() {
                    self.more().await?;
                }
                (left.min(self.input.len() - self.read), 0)
            }
            Left::Chunks => (self.chunk_size().await?, 2),
        };
        while self.input.len() < self.read + size + end {
            self.more().await?;
        }
        match &mut self.left {
            Left::Bytes(left) => *left -= size,
            Left::Chunks if size == 0 => self.left = Left::Bytes(0),
            Left::Chunks => {}
        }
        let part = self.read..self.read + size;
        self.read = part.end + end;
        Ok(&self.input[part])
    }

    /// Returns the rest of the response body.
    async fn rest(&mut self) -> Result<Vec<u8>> {
        let mut all = Vec::new();
        loop {
            let part = self.part().await?;
            if part.is_empty() {
                return Ok(all);
            }
            all.extend_from_slice(part);
        }
    }

    /// Reads the head of a response and returns its status.
    async fn head(&mut self) -> Result<u16> {
        loop {
            let mut headers = [httparse::EMPTY_HEADER; 32];
            let mut answer = httparse::Response::new(&mut headers);
            let httparse::Status::Complete(size) = answer.parse(&self.input[self.read..])? else {
                self.more().await?;
                continue;
            };
            let length = answer
                .headers
                .iter()
                .find(|header| header.name.eq_ignore_ascii_case("content-length"));
            self.left = match length {
                Some(length) => Left::Bytes(std::str::from_utf8(length.value)?.parse()?),
                None => Left::Chunks,
            };
            self.read += size;
            return answer.code.context("an answer without a status");
        }
    }

    async fn chunk_size(&mut self) -> Result<usize> {
        loop {
            let found = httparse::parse_chunk_size(&self.input[self.read..]);
            if let httparse::Status::Complete((start, size)) =
                found.map_err(|_| anyhow::anyhow!("a chunk without a size"))?
            {
                self.read += start;
                return Ok(usize::try_from(size)?);
            }
            self.more().await?;
        }
    }

    async fn more(&mut self) -> Result<()> {
        self.input.drain(..self.read);
        self.read = 0;
        let came = self.stream.read_buf(&mut self.input).await?;
        ensure!(came > 0, "the server has hung up");
        Ok(())
    }
}

/// Returns the address, the token and the certificates of a kubeconfig.
async fn credentials(kubeconfig: &Path) -> Result<(http::Uri, String, Vec<Vec<u8>>)> {
    use kube::config::{Config, KubeConfigOptions, Kubeconfig};
    let file = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    let text = std::fs::read_to_string(kubeconfig)?;
    // Search the text, because the client's types do not expose the token.
    let keys = ["\"token\":\"", "token: "];
    let found = keys.iter().find_map(|key| text.split_once(key));
    let (_, token) = found.context("a token")?;
    let end = token.find(['"', '\n', ' ']).unwrap_or(token.len());
    let authorities = config.root_cert.context("an authority")?;
    Ok((config.cluster_url, token[..end].to_owned(), authorities))
}
