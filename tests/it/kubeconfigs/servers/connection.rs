//! One listener: a server, an HTTP proxy or a SOCKS proxy. Behind every proxy is a server with a valid certificate.
//!
//! This module must not depend on the clients.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::keys::Keys;

/// The answer to every request: the request alone is of interest, so the servers refuse all.
const ANSWER: &str = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":"Forbidden","code":403}"#;
/// The recorded headers of a request.
const HEADERS: [&str; 3] = ["host", "authorization", "proxy-authorization"];

/// The byte stream of a client, with or without TLS.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

#[derive(Clone, Copy)]
pub(super) enum Role {
    Server,
    Proxy,
    Socks,
}

#[derive(Clone)]
pub(super) struct Connection {
    pub(super) name: &'static str,
    pub(super) role: Role,
    /// The TLS configuration of the listener itself.
    pub(super) tls: Option<TlsAcceptor>,
    /// The TLS configuration of the server behind a proxy.
    pub(super) behind: TlsAcceptor,
    pub(super) seen: Arc<Mutex<Vec<String>>>,
    pub(super) keys: Arc<Keys>,
}

impl Connection {
    pub(super) async fn serve(self, listener: TcpListener) {
        while let Ok((stream, _)) = listener.accept().await {
            let connection = self.clone();
            tokio::spawn(async move {
                // If a client disconnects early, its earlier requests are recorded.
                let _ = connection.answer(stream).await;
            });
        }
    }

    async fn answer(&self, stream: TcpStream) -> io::Result<()> {
        match self.role {
            Role::Server => self.as_server(self.name, stream, self.tls.as_ref()).await,
            Role::Socks => self.as_socks(stream).await,
            Role::Proxy => match &self.tls {
                None => self.as_proxy(stream).await,
                Some(tls) => self.as_proxy(tls.accept(stream).await?).await,
            },
        }
    }

    fn note(&self, line: String) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.push(line);
    }

    /// Answers one request.
    async fn as_server(
        &self,
        name: &str,
        stream: impl Stream + 'static,
        tls: Option<&TlsAcceptor>,
    ) -> io::Result<()> {
        let Some(tls) = tls else {
            return self.refuse(&format!("{name}:"), stream).await;
        };
        let stream = tls.accept(stream).await?;
        let (_, session) = stream.get_ref();
        let shown = session.peer_certificates().and_then(<[_]>::first);
        let shown = shown.map_or("none", |shown| self.keys.name(shown));
        let sni = session.server_name().unwrap_or("none");
        let name = format!("{name}: sni={sni} certificate={shown}");
        self.refuse(&name, stream).await
    }

    async fn refuse(&self, name: &str, mut stream: impl Stream) -> io::Result<()> {
        let head = head(&mut stream).await?;
        self.note(format!("{name} {}", told(&head)));
        let length = ANSWER.len();
        let answer = format!(
            "HTTP/1.1 403 Forbidden\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{ANSWER}"
        );
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await
    }

    async fn as_proxy(&self, mut stream: impl Stream + 'static) -> io::Result<()> {
        // Peek at the first byte only, because the server behind the proxy must read the request.
        let mut first = [0];
        stream.read_exact(&mut first).await?;
        let rest = io::Cursor::new(first.to_vec());
        let (read, write) = tokio::io::split(stream);
        let mut stream = tokio::io::join(rest.chain(read), write);
        if first != *b"C" {
            return self.refuse(&format!("{}:", self.name), stream).await;
        }
        let head = head(&mut stream).await?;
        self.note(format!("{}: {}", self.name, told(&head)));
        stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
        self.as_server("behind", stream, Some(&self.behind)).await
    }

    async fn as_socks(&self, mut stream: TcpStream) -> io::Result<()> {
        let mut greeting = [0; 2];
        stream.read_exact(&mut greeting).await?;
        let mut methods = vec![0; usize::from(greeting[1])];
        stream.read_exact(&mut methods).await?;
        let mut who = "nobody".to_owned();
        if methods.contains(&2) {
            stream.write_all(&[5, 2]).await?;
            let mut version = [0];
            stream.read_exact(&mut version).await?;
            let (user, password) = (text(&mut stream).await?, text(&mut stream).await?);
            who = format!("{user}:{password}");
            stream.write_all(&[1, 0]).await?;
        } else {
            stream.write_all(&[5, 0]).await?;
        }
        let mut asked = [0; 4];
        stream.read_exact(&mut asked).await?;
        let host = match asked[3] {
            1 => {
                let mut address = [0; 4];
                stream.read_exact(&mut address).await?;
                std::net::Ipv4Addr::from(address).to_string()
            }
            _ => text(&mut stream).await?,
        };
        let port = stream.read_u16().await?;
        self.note(format!("{}: {host}:{port} as {who}", self.name));
        stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
        let tls = (port != 80).then_some(&self.behind);
        self.as_server("behind", stream, tls).await
    }
}

/// Reads a text that follows its length.
async fn text(stream: &mut TcpStream) -> io::Result<String> {
    let mut text = vec![0; usize::from(stream.read_u8().await?)];
    stream.read_exact(&mut text).await?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Reads the head of a request.
async fn head(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// Returns the request line and the headers with credentials.
fn told(head: &str) -> String {
    let mut lines = head.lines();
    let mut told = vec![lines.next().unwrap_or_default().to_owned()];
    let mut headers: Vec<String> = lines
        .filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            let name = name.to_lowercase();
            let is_told = HEADERS.contains(&name.as_str()) || name.starts_with("impersonate-");
            is_told.then(|| format!("{name}={}", value.trim()))
        })
        .collect();
    headers.sort();
    told.extend(headers);
    told.join(" ")
}
