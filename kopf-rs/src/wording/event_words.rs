//! The words of Kubernetes Events that the operator posts of what happens, where log lines are posted.
//!
//! An Event has no part that another attempt would change, such as a delay: what happens again is one more of a series.

use std::fmt::{self, Display, Formatter};

use crate::handler::definition::Handler;
use crate::handler::subject::Reason;
use crate::happening::Happening;
use crate::happening::abrupt_end::AbruptEnd;
use crate::happening::handling::{AttemptEnd, Fate, Handling};
use crate::wording::Line;

/// A happening as an Event about its object.
pub(crate) struct EventWords<'a> {
    /// What was done: a handler, or why the object is handled.
    pub(crate) action: &'a str,
    pub(crate) reason: &'static str,
    happening: &'a Happening,
}

/// Those that are posted where log lines are.
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
            // The line names the delay, which grows.
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
