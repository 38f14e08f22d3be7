//! The argument [`Attempt`]: one attempt of a handler of changes, with an idempotency key that stays the same across
//! retries.
//!
//! This module does not decide when an attempt is retried.

use crate::handler::cause::{Attempt, Cause};
use crate::handler::error::HandlerError;
use crate::handler::extract::FromCause;
use crate::handler::extract::extractors::{ByType, family};
use crate::handler::required::RequiredState;

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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;

    use super::*;
    use crate::handler::cause::AttemptKey;

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
