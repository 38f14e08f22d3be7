//! Authenticates requests.
//!
//! Guarantees that invalid credentials are refused and that requests without credentials have a user, too. Must not depend on the
//! requested action.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::token;
use super::user::User;
use crate::status::Refusal;
use crate::store::Store;

/// Bearer tokens that were registered by hand; clones share them. They have a separate lock, so that requests of administrators
/// do not wait for the store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tokens(Arc<RwLock<HashMap<String, Arc<User>>>>);

// === impl Tokens ===

impl Tokens {
    pub(super) fn add(&self, token: String, user: User) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(token, Arc::new(user.authenticated()));
    }

    pub(super) fn find(&self, token: &str) -> Option<Arc<User>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.get(token).cloned()
    }

    /// Returns the user of a header's token if it is a member of `system:masters`.
    pub(crate) fn master(&self, authorization: Option<&str>) -> Option<Arc<User>> {
        let user = self.find(bearer(authorization?)?)?;
        Some(user).filter(|user| user.is_master())
    }
}

/// Returns the user of the credentials; `unnamed` is the user of requests without credentials.
pub(super) fn identify(
    store: &Store,
    authorization: Option<&str>,
    unnamed: Option<&Arc<User>>,
) -> Result<Arc<User>, Refusal> {
    let Some(token) = authorization.and_then(bearer) else {
        return Ok(unnamed.cloned().unwrap_or_else(User::anonymous));
    };
    if let Some(user) = store.access.tokens.find(token) {
        return Ok(user);
    }
    let audiences = [token::AUDIENCE.to_owned()];
    match token::read(store, token, &audiences) {
        Ok(bearer) => Ok(Arc::new(bearer.user)),
        Err(_) => Err(Refusal::unauthorized()),
    }
}

/// Returns the bearer token of an `Authorization` header.
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
