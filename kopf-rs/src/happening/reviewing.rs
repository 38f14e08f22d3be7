//! Happenings of admission reviews, except the attempts themselves.
//!
//! This module contains no wording.

use std::sync::Arc;
use std::time::Duration;

use crate::handler::definition::Handler;

/// A happening of a review and its admission handler.
#[derive(Clone, Debug)]
pub(crate) enum Reviewing {
    /// The handler has denied the request, which is a regular outcome.
    Denied {
        handler: Arc<Handler>,
        message: String,
    },
    /// The handler has exceeded the deadline. It was cancelled, or continues without effect.
    OutOfTime {
        handler: Arc<Handler>,
        after: Duration,
        /// Describes the request that the handler was waiting for, if that request in turn waits for the handler.
        awaits: Option<String>,
    },
    /// The handler has changed fields that it must not change.
    ChangeRefused {
        handler: Arc<Handler>,
        reason: String,
    },
    /// One of its filters has panicked.
    FilterPanicked {
        handler: Arc<Handler>,
        panic: String,
    },
    /// The handler has denied the request with an HTTP code that is not an error code.
    OddCode { handler: Arc<Handler>, code: u16 },
}
