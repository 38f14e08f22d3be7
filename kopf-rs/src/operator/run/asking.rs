//! Asks a running operator about an object, at its liveness endpoint on this machine.
//!
//! Must not know the contents of the answer.

use std::time::Duration;

use http::Uri;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The time limit: a working operator answers at once.
const PATIENCE: Duration = Duration::from_secs(3);

/// Returns the status of the object from the operator with this liveness endpoint, or the reason why it is not known.
pub(super) async fn ask(endpoint: &str, uid: &str) -> Result<Value, String> {
    let url: Uri = endpoint.parse().map_err(|error| format!("`{endpoint}` is no URL: {error}"))?;
    let host = url.host().unwrap_or_default();
    let host = match host.trim_start_matches('[').trim_end_matches(']') {
        // The operator listens on all addresses.
        "" | "0.0.0.0" | "::" => "127.0.0.1",
        host => host,
    };
    let port = url.port_u16().unwrap_or(80);
    let asking = exchange(host, port, uid);
    let (code, body) = timeout(PATIENCE, asking)
        .await
        .map_err(|_| format!("no answer at {host}:{port} within {} seconds", PATIENCE.as_secs()))?
        .map_err(|error| format!("nobody can be asked at {host}:{port}: {error}"))?;
    if code != "200" {
        return Err(format!("{host}:{port} answers with {code}: {}", body.trim()));
    }
    let said: Value = serde_json::from_str(&body)
        .map_err(|error| format!("{host}:{port} answers with no JSON: {error}"))?;
    if said["uid"] != uid {
        return Err(format!(
            "what answers at {host}:{port} tells nothing of single objects: it is another program, or older than this one"
        ));
    }
    Ok(said)
}

async fn exchange(host: &str, port: u16, uid: &str) -> std::io::Result<(String, String)> {
    let mut stream = TcpStream::connect((host, port)).await?;
    let uid: String = uid.chars().filter(|it| it.is_ascii_graphic() && *it != '&').collect();
    let request = format!("GET /statusz?uid={uid} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let code = head.split(' ').nth(1).unwrap_or("nothing");
    Ok((code.to_owned(), body.to_owned()))
}
