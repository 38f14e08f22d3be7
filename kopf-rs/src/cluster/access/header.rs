//! Builds values of headers that carry credentials.
//!
//! This module guarantees that they are valid, and that printing the request does not reveal them. It does not know
//! where they come from.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;

use crate::cluster::server_url::Login;

/// Returns the header for a token. Tokens may contain any byte except control characters, as in Go's clients.
#[cfg(feature = "cli")]
pub(in crate::cluster) fn bearer(token: &str) -> Result<HeaderValue, String> {
    header(format!("Bearer {token}")).ok_or_else(|| {
        "the token has a line break or another control character, which HTTP headers cannot contain: remove it".to_owned()
    })
}

/// Returns a header value marked as sensitive, so that it is not printed.
pub(in crate::cluster) fn header(value: impl AsRef<[u8]>) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_bytes(value.as_ref()).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Returns the header for basic authentication.
pub(in crate::cluster) fn basic(login: &Login) -> Option<HeaderValue> {
    let Login { user, password } = login;
    let both = STANDARD.encode(format!("{user}:{password}"));
    header(format!("Basic {both}"))
}
