//! Requests to the liveness endpoint of an operator.
//!
//! This module must not depend on the meaning of the requests.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Returns a free port outside the range that the system assigns to outgoing connections.
pub(super) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let [.., one, two] = std::process::id().to_be_bytes();
    let begin = u16::from_be_bytes([one, two]) % 10_000;
    let ports = std::iter::repeat_with(|| {
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        20_000 + (begin + next % 1_000) % 10_000
    });
    let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    ports.take(1_000).find(free).expect("a port is free")
}

/// Waits until the port accepts connections, and returns status code and body.
pub(super) async fn get(port: u16, path: &str) -> (u16, String) {
    let mut stream = connected(port).await;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("it is read");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("it is answered");
    let (head, text) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    (code.expect("a status code"), text.to_owned())
}

async fn connected(port: u16) -> TcpStream {
    let mut pulse = tokio::time::interval(Duration::from_millis(100));
    for _ in 0..600 {
        pulse.tick().await;
        if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)).await {
            return stream;
        }
    }
    panic!("nobody listens at the port {port}")
}
