//! What happens when the operator logs in by handlers of users.
//!
//! Must not know any wording.

use std::sync::Arc;

/// Something that has happened to a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Login {
    /// Login handlers are called.
    Initiated(WhyLogin),
    /// There are new credentials.
    Finished(WhyLogin),
    /// The handlers have returned none.
    Empty(WhyLogin),
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
