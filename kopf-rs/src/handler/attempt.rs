//! The argument [`Attempt`]: one attempt of a handler of changes, with an idempotency key that stays the same across
//! retries.
//!
//! This module does not decide when an attempt is retried.

use std::fmt;

use crate::handler::cause::{Attempt, AttemptKey, Cause};
use crate::handler::error::{HandlerError, PermanentError};
use crate::handler::extract::FromCause;
use crate::handler::extract::extractors::{ByType, family};
use crate::handler::options::Callback;
use crate::handler::required::RequiredState;

impl Attempt {
    /// Returns the idempotency key of this attempt: 16 characters out of letters, digits, `-` and `_`. Retries after
    /// an error or a crash get the same key. Another object, another handler and a later change of the object get
    /// another key.
    #[must_use]
    pub fn key(&self) -> String {
        let key = self.key.as_ref();
        key.map(ToString::to_string).unwrap_or_default()
    }
}

impl Cause {
    /// Returns the attempt with its key.
    ///
    /// # Errors
    /// Returns a permanent error if the attempt has no key: in closures without [`Callback::keyed`], in sub-handlers,
    /// and in handlers that are not called for changes.
    pub fn attempt(&self) -> Result<Attempt, PermanentError> {
        let attempt = self.attempt;
        if attempt.key.is_some() {
            return Ok(attempt);
        }
        Err(PermanentError::new(
            "this attempt has no key: those of functions for changes have one that ask for `attempt: Attempt`, and those of closures with `keyed()`; \
             sub-handlers take it from their parent",
        ))
    }
}

impl Callback {
    /// Gives each attempt of a handler of changes an idempotency key, [`Cause::attempt`], which survives a crash.
    /// Costs one write before the first attempt for a change. Off by default.
    #[must_use]
    pub fn keyed(mut self) -> Self {
        self.handler.is_keyed = true;
        self
    }
}

impl FromCause<'_> for Attempt {
    fn from_cause(cause: &Cause) -> Result<Self, HandlerError> {
        Ok(cause.attempt()?)
    }
}

/// Handler families that store the progress of their handlers on the object.
#[diagnostic::on_unimplemented(
    message = "handlers of this attribute have no `Attempt`",
    label = "only handlers of changes keep on the object how far they are",
    note = "it belongs to #[on_create], #[on_update], #[on_delete], #[finalize], #[on_resume] and #[on_field]"
)]
pub trait HasAttempts {}

#[diagnostic::do_not_recommend]
impl HasAttempts for family::Change {}

impl<O> ByType<Attempt, O> {
    /// Compiles only if handlers of this family have attempts.
    pub fn is_given()
    where
        O: HasAttempts,
    {
    }

    /// Returns the requirement that attempts have keys.
    #[must_use]
    pub fn required_state() -> Option<RequiredState> {
        Some(RequiredState::of::<Attempt>())
    }
}

impl fmt::Display for AttemptKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;

    use super::*;

    #[test]
    fn a_key_has_sixteen_characters() {
        let attempt = |started: &str| {
            let started: Timestamp = started.parse().unwrap();
            Attempt {
                retry: 0,
                is_first: true,
                started,
                runtime: Duration::ZERO,
                key: Some(AttemptKey::of(&serde_json::json!([started.to_string()]))),
            }
        };
        let first = attempt("2026-01-01T00:00:00Z").key();
        assert_eq!(first.len(), 16);
        assert_eq!(attempt("2026-01-01T00:00:00Z").key(), first);
        assert_ne!(attempt("2026-01-01T00:00:01Z").key(), first);
    }
}
