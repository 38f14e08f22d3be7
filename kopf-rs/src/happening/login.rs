//! What happens when the operator logs in by handlers of users.
//!
//! Must not know any wording.

use std::sync::Arc;
use std::time::Duration;

/// Something that has happened to a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Login {
    /// Login handlers are called.
    Initiated(WhyLogin),
    /// There are new credentials.
    Finished(WhyLogin),
    /// The handlers have returned none.
    Empty(WhyLogin),
    /// What they have returned is no good: they are called again after a pause.
    Setback {
        setback: LoginSetback,
        pause: Duration,
    },
    /// There are no credentials, and there will be none: cleanup handlers that fail are not called again.
    CleanupWithout,
}

/// Credentials that were no good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LoginSetback {
    /// The server has refused those of this handler: so many times in a row.
    Refused { id: Arc<str>, times: u32 },
    /// Those of this handler have expired after so short a time: so many times in a row.
    ShortLived {
        id: Arc<str>,
        times: u32,
        lived: Duration,
    },
    /// They cannot be used at all: why, and what to do.
    Unusable(String),
}

/// Why credentials are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WhyLogin {
    First,
    /// Those of this handler have expired.
    Expired(Arc<str>),
    /// The server has refused those of this handler.
    Refused(Arc<str>),
}
