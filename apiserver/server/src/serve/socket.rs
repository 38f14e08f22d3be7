//! Watches over `WebSocket`, which some clients request: each event is a separate message.
//!
//! Guarantees the same events as a plain watch, which clients get if the upgrade is not possible. Must not depend on requests beyond
//! their headers.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split};

use super::body::ApiBody;

/// The text that RFC 6455 appends to the client's key.
const SALT: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

const TEXT: u8 = 0x1;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xA;

/// The maximum size of a client's frame; pings and close frames are small.
const LARGEST: u64 = 64 * 1024;

/// The prefix of a protocol that carries a token.
const TOKEN: &str = "base64url.bearer.authorization.k8s.io.";

/// A request to upgrade to `WebSocket`.
#[derive(Debug)]
pub(super) struct Wish {
    accept: HeaderValue,
    protocols: Vec<String>,
    upgrade: OnUpgrade,
}

// === impl Wish ===

impl Wish {
    /// Returns the upgrade request, if the request and its connection allow it.
    pub(super) fn of(parts: &mut Parts) -> Option<Self> {
        let names = |name: header::HeaderName, word: &str| has_word(&parts.headers, &name, word);
        if !names(header::UPGRADE, "websocket") || !names(header::CONNECTION, "upgrade") {
            return None;
        }
        let key = parts.headers.get(header::SEC_WEBSOCKET_KEY)?;
        let accept = HeaderValue::from_str(&accept(key.as_bytes())).ok()?;
        let upgrade = parts.extensions.remove::<OnUpgrade>()?;
        let protocols = protocols(&mut parts.headers);
        Some(Self {
            accept,
            protocols,
            upgrade,
        })
    }

    /// Sends an open watch over the `WebSocket`.
    fn fulfil(self, body: ApiBody) -> Response<ApiBody> {
        let mut response = Response::new(ApiBody::full(Bytes::new()));
        if self.protocols.len() > 1 {
            *response.status_mut() = StatusCode::BAD_REQUEST;
            return response;
        }
        tokio::spawn(async move {
            if let Ok(upgraded) = self.upgrade.await {
                serve(TokioIo::new(upgraded), body).await;
            }
        });
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, self.accept);
        // Browsers close the connection unless the server confirms the requested protocol.
        let protocol = self.protocols.first();
        if let Some(protocol) = protocol.and_then(|it| HeaderValue::from_str(it).ok()) {
            headers.insert(header::SEC_WEBSOCKET_PROTOCOL, protocol);
        }
        response
    }
}

/// Sends an open watch over the requested `WebSocket`; other responses stay unchanged.
pub(super) fn over(wish: Option<Wish>, response: Response<ApiBody>) -> Response<ApiBody> {
    match wish {
        Some(wish) if response.body().is_watch() => wish.fulfil(response.into_body()),
        _ => response,
    }
}

/// Returns the requested protocols. Browsers cannot set headers, so a protocol may carry the bearer token; it becomes a header here.
fn protocols(headers: &mut HeaderMap) -> Vec<String> {
    let values = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    let values = values.filter_map(|value| value.to_str().ok());
    let words = values.flat_map(|value| value.split(','));
    let all: Vec<String> = words.map(|word| word.trim().to_owned()).collect();
    let is_token = |word: &String| word.starts_with(TOKEN);
    if headers.contains_key(header::AUTHORIZATION) || !all.iter().any(is_token) {
        return all;
    }
    let (tokens, others): (Vec<String>, Vec<String>) = all.into_iter().partition(is_token);
    // The server can confirm only another protocol than the token, so a token without one is invalid.
    let token = match tokens.as_slice() {
        [one] if !others.is_empty() => URL_SAFE_NO_PAD.decode(&one[TOKEN.len()..]).ok(),
        _ => None,
    };
    let bearer = [b"Bearer ", token.as_deref().unwrap_or(b"-")].concat();
    if let Ok(bearer) = HeaderValue::from_bytes(&bearer) {
        headers.insert(header::AUTHORIZATION, bearer);
    }
    others
}

fn has_word(headers: &HeaderMap, name: &header::HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).iter();
    let mut words = values.filter_map(|value| value.to_str().ok());
    words.any(|value| {
        value
            .split(',')
            .any(|one| one.trim().eq_ignore_ascii_case(word))
    })
}

fn accept(key: &[u8]) -> String {
    let salted = [key, SALT.as_bytes()].concat();
    STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, &salted))
}

/// Sends the body until it ends or the client leaves.
async fn serve(stream: impl AsyncRead + AsyncWrite + Send, mut body: ApiBody) {
    let (mut reader, mut writer) = split(stream);
    let mut incoming = Incoming::default();
    loop {
        let sent = tokio::select! {
            frame = body.frame() => match frame {
                Some(Ok(frame)) => {
                    let line = frame.into_data().unwrap_or_default();
                    writer.write_all(&framed(TEXT, &line)).await
                }
                // A fault resets the connection without a close frame.
                Some(Err(_)) => return,
                None => {
                    // 1000 means a normal end. The client may be gone already.
                    let _told = writer.write_all(&framed(CLOSE, &1000_u16.to_be_bytes())).await;
                    break;
                }
            },
            read = reader.read_buf(&mut incoming.bytes) => match read {
                Ok(0) | Err(_) => return,
                Ok(_) => match incoming.answers() {
                    Some(answers) => writer.write_all(&answers).await,
                    None => break,
                },
            },
        };
        if sent.is_err() {
            return;
        }
    }
    let _closed = writer.shutdown().await;
}

/// Returns a complete, unmasked frame, as servers send them.
fn framed(kind: u8, content: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x80 | kind];
    let length = content.len() as u64;
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short), _) if short < 126 => frame.push(short),
        (_, Ok(medium)) => {
            frame.push(126);
            frame.extend_from_slice(&medium.to_be_bytes());
        }
        _ => {
            frame.push(127);
            frame.extend_from_slice(&length.to_be_bytes());
        }
    }
    frame.extend_from_slice(content);
    frame
}

/// An invalid frame.
#[derive(Clone, Copy, Debug)]
struct Nonsense;

/// The unprocessed bytes from a client.
#[derive(Debug, Default)]
struct Incoming {
    bytes: bytes::BytesMut,
}

// === impl Incoming ===

impl Incoming {
    /// Returns the answers to the complete frames received so far; `None` after a close frame or an invalid one.
    fn answers(&mut self) -> Option<Vec<u8>> {
        let mut answers = Vec::new();
        while let Some((kind, content)) = self.frame().ok()? {
            match kind {
                CLOSE => return None,
                PING => answers.extend(framed(PONG, &content)),
                // Clients have nothing else to say on a watch.
                _ => {}
            }
        }
        Some(answers)
    }

    /// Returns the kind and content of the next frame once it is complete.
    fn frame(&mut self) -> Result<Option<(u8, Vec<u8>)>, Nonsense> {
        let bytes = &self.bytes[..];
        let [first, second, rest @ ..] = bytes else {
            return Ok(None);
        };
        let wide = match second & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let masked = if second & 0x80 == 0 { 0 } else { 4 };
        let Some((head, content)) = rest.split_at_checked(wide + masked) else {
            return Ok(None);
        };
        let (length, mask) = head.split_at(wide);
        let length = match wide {
            0 => u64::from(second & 0x7f),
            _ => length
                .iter()
                .fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
        };
        if length > LARGEST {
            return Err(Nonsense);
        }
        let length = usize::try_from(length).map_err(|_| Nonsense)?;
        let Some(content) = content.get(..length) else {
            return Ok(None);
        };
        let mask: [u8; 4] = mask.try_into().unwrap_or_default();
        let clear = content.iter().zip(mask.iter().cycle());
        let found = (
            first & 0x0f,
            clear.map(|(byte, mask)| byte ^ mask).collect(),
        );
        let _used = self.bytes.split_to(2 + wide + masked + length);
        Ok(Some(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_answered_as_in_the_standard() {
        let accepted = accept(b"dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(accepted, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn a_token_among_the_protocols_says_who_asks() {
        let asked = |asked: &'static str| {
            let mut headers = HeaderMap::new();
            let value = HeaderValue::from_static(asked);
            headers.insert(header::SEC_WEBSOCKET_PROTOCOL, value);
            let left = protocols(&mut headers);
            let bearer = headers.get(header::AUTHORIZATION).cloned();
            (
                left.join(" "),
                bearer.map(|it| it.to_str().unwrap().to_owned()),
            )
        };
        let who = |token: &str| Some(format!("Bearer {token}"));
        let of = "base64url.bearer.authorization.k8s.io.YWI";
        assert_eq!(of, format!("{TOKEN}{}", URL_SAFE_NO_PAD.encode("ab")));
        for (given, left, bearer) in [
            ("a, b", "a b", None),
            (
                "base64url.bearer.authorization.k8s.io.YWI, a",
                "a",
                who("ab"),
            ),
            ("base64url.bearer.authorization.k8s.io.YWI", "", who("-")),
            ("base64url.bearer.authorization.k8s.io.@, a", "a", who("-")),
        ] {
            assert_eq!(asked(given), (left.to_owned(), bearer), "{given}");
        }
    }

    #[test]
    fn frames_by_length() {
        assert_eq!(framed(TEXT, b"ab"), b"\x81\x02ab");
        assert_eq!(framed(TEXT, &[0; 300])[..4], [0x81, 126, 1, 44]);
        let long = framed(TEXT, &vec![0; 70_000]);
        assert_eq!(long[..10], [0x81, 127, 0, 0, 0, 0, 0, 1, 0x11, 0x70]);
    }

    #[test]
    fn a_ping_is_answered_once_it_is_whole_and_a_goodbye_ends() {
        let mut incoming = Incoming::default();
        incoming.bytes.extend_from_slice(&[0x89, 0x82, 1, 2, 3]);
        assert_eq!(incoming.answers(), Some(Vec::new()));
        incoming.bytes.extend_from_slice(&[4, b'a' ^ 1, b'b' ^ 2]);
        assert_eq!(incoming.answers(), Some(b"\x8a\x02ab".to_vec()));
        incoming.bytes.extend_from_slice(&[0x88, 0x80, 0, 0, 0, 0]);
        assert_eq!(incoming.answers(), None);
    }

    #[test]
    fn a_frame_without_end_is_refused() {
        let mut incoming = Incoming::default();
        incoming.bytes.extend_from_slice(&[
            0x82, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0,
        ]);
        assert_eq!(incoming.answers(), None);
    }
}
