//! What can go wrong between us and the API server, in our words.

use std::time::Duration;

/// A request that did not do what it was for. Displays as one line fit for a log.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum ClusterError {
    /// 409: the object is another one, or has changed meanwhile.
    #[error("conflict: {0}")]
    Conflict(String),
    /// 404: object, kind or namespace is not there.
    #[error("not found: {0}")]
    NotFound(String),
    /// 410: the version asked for is too old.
    #[error("gone: {0}")]
    Gone(String),
    /// 401.
    #[error("unauthorized: {0}")]
    Unauthorized(String),
    /// 403, with the RBAC rule that would allow it.
    #[error("forbidden: {message}")]
    Denied { message: String, rule: String },
    /// 400, 413, 415, 422: the request itself is refused and will be again.
    #[error("invalid: {0}")]
    Invalid(String),
    /// 429, 5xx: later.
    #[error("server is not able to answer now ({code}): {message}")]
    Busy {
        code: u16,
        message: String,
        retry_after: Option<Duration>,
    },
    /// No answer: connection refused, reset, timed out. The request may have been carried out.
    #[error("unreachable: {0}")]
    Unreachable(String),
}
