//! The texts of the Kubernetes Events that the operator posts for happenings, if it posts log lines.
//!
//! Texts omit parts that vary between attempts, such as delays, so that repeated happenings are counted as one
//! series.

use std::fmt::{self, Display, Formatter};

use crate::handler::definition::Handler;
use crate::handler::subject::Reason;
use crate::happening::Happening;
use crate::happening::abrupt_end::AbruptEnd;
use crate::happening::handling::{AttemptEnd, Fate, Handling};
use crate::wording::Line;

/// A happening as a Kubernetes Event about its object.
pub(crate) struct EventWords<'a> {
    /// The action: a handler, or the reason of the cycle.
    pub(crate) action: &'a str,
    pub(crate) reason: &'static str,
    happening: &'a Happening,
}

/// Returns the Event of a happening, if it is posted.
pub(crate) fn event_words(happening: &Happening) -> Option<EventWords<'_>> {
    let (action, reason) = match happening {
        Happening::Invoked { handler } => (posting(handler)?, "HandlerInvoked"),
        Happening::Cancelled { handler } => (posting(handler)?, "HandlerCancelled"),
        Happening::AbruptEnd(AbruptEnd::HandlerSuspended { handler, .. }) => {
            (posting(handler)?, "HandlerSuspended")
        }
        Happening::Handling(handling) => match handling {
            Handling::Attempted { handler, end } => (posting(handler)?, reason_of(end)),
            Handling::LeftUndone { handler } => (posting(handler)?, "HandlerLeftUndone"),
            Handling::Processed { reason, .. } => (action(*reason), "Processed"),
            Handling::Superseded { ended, .. } => (action(*ended), "Superseded"),
            Handling::DeletionWithheld { .. } => (action(Reason::Delete), "DeletionWithheld"),
            _ => return None,
        },
        _ => return None,
    };
    Some(EventWords {
        action,
        reason,
        happening,
    })
}

fn posting(handler: &Handler) -> Option<&str> {
    handler.posts_lines().then_some(&*handler.id)
}

fn action(reason: Reason) -> &'static str {
    match reason {
        Reason::Create => "Create",
        Reason::Update => "Update",
        Reason::Delete => "Delete",
        Reason::Resume => "Resume",
    }
}

fn reason_of(end: &AttemptEnd) -> &'static str {
    match end {
        AttemptEnd::Succeeded => "HandlerSucceeded",
        AttemptEnd::Temporary {
            fate: Fate::Retried { .. },
            ..
        }
        | AttemptEnd::Arbitrary {
            fate: Fate::Retried { .. },
            ..
        } => "HandlerRetried",
        AttemptEnd::Temporary { .. }
        | AttemptEnd::Permanent { .. }
        | AttemptEnd::Arbitrary { .. }
        | AttemptEnd::TimedOut { .. }
        | AttemptEnd::RetriesExceeded { .. } => "HandlerFailed",
    }
}

impl Display for EventWords<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.happening {
            // Omits the delay of the log line, since it grows with each attempt.
            Happening::Handling(Handling::Attempted {
                handler,
                end:
                    AttemptEnd::Arbitrary {
                        message,
                        fate: Fate::Retried { .. },
                    },
            }) => write!(
                f,
                "{handler} failed with an exception and will try again: {message}"
            ),
            happening => Line(happening).fmt(f),
        }
    }
}
