//! Why credentials for the API server are asked for, and what is wrong with those that were given.
//!
//! Those who ask and those who tell of it share these values. Must not know the credentials.

use std::sync::Arc;
use std::time::Duration;

/// Why credentials are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LoginReason {
    First,
    /// Those of this handler have expired.
    Expired(Arc<str>),
    /// The server has refused those of this handler.
    Refused(Arc<str>),
    /// The certificate of the server is signed by none of the authorities that this handler has given.
    Distrusted(Arc<str>),
}

/// Credentials that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LoginSetback {
    /// The server has refused those of this handler, as it has refused the ones before: so many times in a row.
    Refused { id: Arc<str>, times: u32 },
    /// Those of this handler have expired after so short a time, as the ones before: so many times in a row.
    ShortLived {
        id: Arc<str>,
        times: u32,
        lived: Duration,
    },
    /// Those that the login has given cannot be used at all: why, and what to do.
    Unusable(String),
}
