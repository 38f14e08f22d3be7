//! How one attempt of a handler ended, as the engine saw it.

use std::any::Any;
use std::time::Duration;

use serde_json::Value;

use crate::handler::child_trouble::ChildTrouble;
use crate::handler::denial::Denial;

/// The end of one attempt.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It returned; a result goes to `status.{id}`.
    Succeeded(Option<Value>),
    /// `TemporaryError`: again after the delay.
    Temporary {
        message: String,
        delay: Duration,
        child: Option<ChildTrouble>,
    },
    /// `PermanentError`.
    Permanent {
        message: String,
        child: Option<ChildTrouble>,
    },
    /// `AdmissionError`: without a request under review, as a permanent error.
    Denied { message: String, denial: Denial },
    /// Any other error: the handler's `errors` mode decides.
    Arbitrary { message: String },
    /// A panic: as an arbitrary error, but in a review.
    Panicked { message: String },
    /// Cancelled at the handler's timeout.
    TimedOut { after: Duration },
    /// Its sub-handlers are left to be done: no attempt of its own.
    Waiting,
}

impl Outcome {
    /// For good, and not because of a child.
    pub(crate) fn permanent(message: impl Into<String>) -> Self {
        Self::Permanent {
            message: message.into(),
            child: None,
        }
    }

    /// Why it has failed, in the handler's words.
    pub(crate) fn message(&self) -> Option<&str> {
        match self {
            Self::Temporary { message, .. }
            | Self::Permanent { message, .. }
            | Self::Denied { message, .. }
            | Self::Arbitrary { message }
            | Self::Panicked { message } => Some(message),
            Self::Succeeded(_) | Self::TimedOut { .. } | Self::Waiting => None,
        }
    }
}

/// What user code panicked with, where that is text.
pub(crate) fn panic_text(payload: &(dyn Any + Send)) -> Option<&str> {
    let literal = payload.downcast_ref::<&str>().copied();
    literal.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
}
