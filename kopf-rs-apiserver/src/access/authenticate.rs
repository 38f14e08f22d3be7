//! From credentials to a user.
//!
//! Promise: wrong credentials are refused, absent ones are somebody's too. Must not know what is asked for.

use std::sync::Arc;

use super::token;
use super::user::User;
use crate::status::Refusal;
use crate::store::Store;

/// Whose credentials these are; `unnamed` is who comes without any.
pub(super) fn identify(
    store: &Store,
    authorization: Option<&str>,
    unnamed: Option<&Arc<User>>,
) -> Result<Arc<User>, Refusal> {
    let Some(token) = authorization.and_then(bearer) else {
        return Ok(unnamed.cloned().unwrap_or_else(User::anonymous));
    };
    if let Some(user) = store.access.tokens.get(token) {
        return Ok(user.clone());
    }
    let audiences = [token::AUDIENCE.to_owned()];
    match token::read(store, token, &audiences) {
        Ok(bearer) => Ok(Arc::new(bearer.user)),
        Err(_) => Err(Refusal::unauthorized()),
    }
}

/// The token of an `Authorization` header, if it holds one.
fn bearer(header: &str) -> Option<&str> {
    let mut words = header.trim().splitn(3, ' ');
    let scheme = words.next()?;
    let token = words.next()?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_by_table() {
        for (header, expected) in [
            ("Bearer abc", Some("abc")),
            ("bearer abc rest", Some("abc")),
            ("Bearer", None),
            ("Bearer  abc", None),
            ("Basic abc", None),
        ] {
            assert_eq!(bearer(header), expected, "{header}");
        }
    }
}
