//! The outcome of one attempt of a handler, as the engine sees it.

use std::any::Any;
use std::time::Duration;

use serde_json::Value;

use crate::handler::child_trouble::ChildTrouble;
use crate::handler::denial::Denial;

/// The outcome of one attempt.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The handler returned successfully; its result goes to `status.{id}`.
    Succeeded(Option<Value>),
    /// `TemporaryError`: retried after the delay.
    Temporary { message: String, delay: Duration, child: Option<ChildTrouble> },
    /// `PermanentError`: not retried.
    Permanent { message: String, child: Option<ChildTrouble> },
    /// `AdmissionError`: without a request under review, treated as a permanent error.
    Denied { message: String, denial: Denial },
    /// Any other error: the handler's `errors` mode decides.
    Arbitrary { message: String },
    /// A panic: treated as an arbitrary error, except in admission reviews.
    Panicked { message: String },
    /// Cancelled at the handler's timeout.
    TimedOut { after: Duration },
    /// Some of its sub-handlers are not done. Does not count as an attempt.
    Waiting,
}

impl Outcome {
    /// A permanent failure that is not about a child.
    pub(crate) fn permanent(message: impl Into<String>) -> Self {
        Self::Permanent { message: message.into(), child: None }
    }

    /// Replaces unfinished sub-handlers by a permanent failure with this message, for handlers that can have none.
    pub(crate) fn without_subhandlers(self, message: &str) -> Self {
        match self {
            Self::Waiting => Self::permanent(message),
            outcome => outcome,
        }
    }

    /// Takes the result of a success, unless it is null.
    pub(crate) fn take_result(&mut self) -> Option<Value> {
        match self {
            Self::Succeeded(result) => result.take().filter(|it| !it.is_null()),
            _ => None,
        }
    }

    /// Returns the handler's message for a failure.
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

/// Returns the panic message of user code if it is text.
pub(crate) fn panic_text(payload: &(dyn Any + Send)) -> Option<&str> {
    let literal = payload.downcast_ref::<&str>().copied();
    literal.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
}
