//! Happenings of logins by user-defined handlers.
//!
//! This module contains no wording.

use std::time::Duration;

use crate::object::login::{LoginReason, LoginSetback};

/// A happening of a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Login {
    /// The operator calls the login handlers.
    Initiated(LoginReason),
    /// The handlers have returned new credentials.
    Finished(LoginReason),
    /// The handlers have returned no credentials.
    Empty(LoginReason),
    /// The handlers' result cannot be used; they are called again after a pause.
    Setback {
        setback: LoginSetback,
        pause: Duration,
    },
    /// There are no credentials during shutdown, so failing cleanup handlers are not retried.
    CleanupWithout,
}
