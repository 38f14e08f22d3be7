//! The reasons for a login, and the problems with the credentials of a login.
//!
//! The requesting and the reporting side share these values. This module must not depend on the credentials.

use std::sync::Arc;
use std::time::Duration;

/// The reason for a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LoginReason {
    First,
    /// The credentials of this handler have expired.
    Expired(Arc<str>),
    /// The server has refused the credentials of this handler.
    Refused(Arc<str>),
    /// The server's certificate is not signed by any authority that this handler has returned.
    Distrusted(Arc<str>),
}

/// Credentials that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LoginSetback {
    /// The server has repeatedly refused the credentials of this handler.
    Refused { id: Arc<str>, times: u32 },
    /// The credentials of this handler have repeatedly expired after a short time.
    ShortLived { id: Arc<str>, times: u32, lived: Duration },
    /// The credentials of the login cannot be used at all. Contains the reason and the remedy.
    Unusable(String),
}
