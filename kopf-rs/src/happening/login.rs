//! What happens when the operator logs in by handlers of users.
//!
//! Must not know any wording.

use std::time::Duration;

use crate::object::login::{LoginReason, LoginSetback};

/// Something that has happened to a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Login {
    /// Login handlers are called.
    Initiated(LoginReason),
    /// There are new credentials.
    Finished(LoginReason),
    /// The handlers have returned none.
    Empty(LoginReason),
    /// What they have returned is no good: they are called again after a pause.
    Setback {
        setback: LoginSetback,
        pause: Duration,
    },
    /// There are no credentials, and there will be none: cleanup handlers that fail are not called again.
    CleanupWithout,
}
