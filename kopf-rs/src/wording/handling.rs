//! The log lines about the handling of objects. Uses Kopf's wording wherever Kopf has such a line.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use tracing::Level;

use crate::handler::definition::Handler;
use crate::handler::subject::Reason;
use crate::happening::handling::{AttemptEnd, Fate, Handling, StateTrouble};
use crate::object::python::{Python, seconds, timedelta};
use crate::state::budget;
use crate::state::changes::WriteTrouble;
use crate::wording::background;

/// The log line about an attempt. As in Kopf, some of these texts are also stored in progress records.
pub(crate) struct Attempt<'a>(pub(crate) &'a Handler, pub(crate) &'a AttemptEnd);

/// The explanation for a stored time that lies in the future.
const AHEAD: &str = "a clock was wrong, or the record was edited";

pub(super) fn level(handling: &Handling) -> Level {
    match handling {
        // One line per watch event would drown out all others.
        Handling::Attempted {
            handler,
            end: AttemptEnd::Succeeded,
        } if handler.is_for_events() => Level::DEBUG,
        Handling::Superseded { .. }
        | Handling::Processed { .. }
        | Handling::State(StateTrouble::FormerTooLarge { .. })
        | Handling::Attempted {
            end: AttemptEnd::Succeeded,
            ..
        } => Level::INFO,
        Handling::WaitsForSubhandlers { .. }
        | Handling::InProgress { .. }
        | Handling::Differs { .. }
        | Handling::Unchanged
        | Handling::CycleFinished
        | Handling::Sleeps { .. }
        | Handling::SleepInterrupted { .. }
        | Handling::FinalizerAdded
        | Handling::FinalizerNotNeeded
        | Handling::FinalizerReleased
        | Handling::DeletionAwaitsBackground
        | Handling::DeletionOfOthers
        | Handling::Deleted => Level::DEBUG,
        Handling::Background(background) => background::level(background),
        Handling::LeftUndone { .. } | Handling::DeletionWithheld { .. } | Handling::State(_) => {
            Level::WARN
        }
        Handling::Attempted { .. } | Handling::Throttled { .. } => Level::ERROR,
    }
}

pub(super) fn write(f: &mut Formatter<'_>, handling: &Handling) -> fmt::Result {
    match handling {
        Handling::Attempted { handler, end } => Attempt(handler, end).fmt(f),
        Handling::WaitsForSubhandlers { handler } => {
            write!(f, "{handler} has unfinished sub-handlers. Will retry soon.")
        }
        Handling::LeftUndone { handler } => write!(
            f,
            "{handler} is not tried again: a deletion waits for deletion handlers only."
        ),
        Handling::InProgress { reason, body } => {
            let (title, body) = (title(*reason), Python::value(body));
            write!(f, "{title} is in progress: {body}")
        }
        Handling::Differs { reason, diff } => write!(f, "{} diff: {diff}", title(*reason)),
        Handling::Superseded {
            ended,
            reason,
            succeeded,
            failed,
            left,
        } => {
            let (ended, by) = (title(*ended), title(*reason).to_lowercase());
            write!(
                f,
                "{ended} is superseded by {by}: {succeeded} succeeded; {failed} failed; {left} left to the moment."
            )
        }
        Handling::Processed {
            reason,
            succeeded,
            failed,
        } => {
            let title = title(*reason);
            write!(
                f,
                "{title} is processed: {succeeded} succeeded; {failed} failed."
            )
        }
        Handling::DeletionWithheld { handlers } => withheld(f, handlers),
        Handling::Sleeps { .. }
        | Handling::SleepInterrupted { .. }
        | Handling::Throttled { .. } => write_pause(f, handling),
        Handling::State(trouble) => state(f, trouble),
        Handling::Background(background) => background::write(f, background),
        Handling::Unchanged
        | Handling::CycleFinished
        | Handling::FinalizerAdded
        | Handling::FinalizerNotNeeded
        | Handling::FinalizerReleased
        | Handling::DeletionAwaitsBackground
        | Handling::DeletionOfOthers
        | Handling::Deleted => f.write_str(fixed(handling)),
    }
}

fn write_pause(f: &mut Formatter<'_>, handling: &Handling) -> fmt::Result {
    match handling {
        Handling::Sleeps { pause } => write!(
            f,
            "Sleeping for {} seconds for the delayed handlers.",
            seconds(*pause)
        ),
        Handling::SleepInterrupted { left } => write!(
            f,
            "Sleeping was interrupted by new changes, {} seconds left.",
            seconds(*left)
        ),
        Handling::Throttled { panic, pause } => write!(
            f,
            "Throttling for {} seconds due to an unexpected error: {panic}",
            seconds(*pause)
        ),
        _ => Ok(()),
    }
}

fn fixed(handling: &Handling) -> &'static str {
    match handling {
        Handling::Unchanged => {
            "Something has changed, but we are not interested (the essence is the same)."
        }
        Handling::CycleFinished => "Handling cycle is finished, waiting for new changes.",
        Handling::FinalizerAdded => "Adding the finalizer, thus preventing the actual deletion.",
        Handling::FinalizerNotNeeded => {
            "Removing the finalizer, as there are no handlers requiring it."
        }
        Handling::FinalizerReleased => "Removing the finalizer, thus allowing the actual deletion.",
        Handling::DeletionAwaitsBackground => "Deletion waits for daemons and timers to exit.",
        Handling::DeletionOfOthers => "Deletion, but we are done with it, and we do not care.",
        _ => "Deleted, really deleted, and we are notified.",
    }
}

impl Display for Attempt<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(handler, end) = self;
        write!(f, "{handler} ")?;
        match end {
            AttemptEnd::Succeeded => f.write_str("succeeded."),
            AttemptEnd::Temporary { message, fate, .. } => {
                f.write_str("failed temporarily")?;
                match fate {
                    Fate::WouldTimeOut(limit) => {
                        write!(f, " but will time out after {} seconds", seconds(*limit))?;
                    }
                    Fate::WouldExceed(limit) => write!(f, " but will exceed {limit} retries")?,
                    Fate::Retried { .. } | Fate::Ignored | Fate::Stopped => {}
                }
                write!(f, ": {message}")
            }
            AttemptEnd::Permanent { message, .. } => write!(f, "failed permanently: {message}"),
            AttemptEnd::Arbitrary { message, fate } => {
                f.write_str("failed with an exception and will ")?;
                match fate {
                    Fate::Retried { delay } => {
                        write!(f, "try again in {} seconds", seconds(*delay))?;
                    }
                    Fate::Ignored => f.write_str("ignore it")?,
                    Fate::Stopped => f.write_str("stop now")?,
                    Fate::WouldTimeOut(limit) => write!(
                        f,
                        "stop now (it would time out in {} seconds on the next attempt)",
                        seconds(*limit)
                    )?,
                    Fate::WouldExceed(limit) => write!(
                        f,
                        "stop now (it would exceed {limit} retries on the next attempt)"
                    )?,
                }
                write!(f, ": {message}")
            }
            AttemptEnd::TimedOut { after } => {
                write!(f, "has timed out after {}.", timedelta(*after))
            }
            AttemptEnd::RetriesExceeded { limit } => write!(f, "has exceeded {limit} retries."),
        }
    }
}

fn state(f: &mut Formatter<'_>, trouble: &StateTrouble) -> fmt::Result {
    match trouble {
        StateTrouble::TargetLost(damage) => {
            write!(f, "{damage}: the cycle continues with the current object.")
        }
        StateTrouble::LastHandledLost(damage) => {
            write!(f, "{damage}: the object is handled as if it were new.")
        }
        StateTrouble::ProgressLost {
            id,
            damage,
            is_in_memory,
        } => {
            let fate = if *is_in_memory {
                "is taken from memory"
            } else {
                "is lost, and it starts from the beginning"
            };
            write!(f, "{damage}: the progress of handler '{id}' {fate}.")
        }
        StateTrouble::NextAttemptAhead { id, at, pause } => {
            let at = at.map(|at| at.to_string()).unwrap_or_default();
            let pause = seconds(*pause);
            write!(
                f,
                "The record of handler '{id}' sets its next attempt to {at}, later than the handler has asked for: {AHEAD}. The attempt is made in {pause} seconds."
            )
        }
        StateTrouble::FirstAttemptAhead { id, at } => write!(
            f,
            "The record of handler '{id}' sets its first attempt to {at}, which is in the future: {AHEAD}. The handler's time counts from now."
        ),
        StateTrouble::FormerTooLarge { id } => write!(
            f,
            "Handler '{id}' gets no old state: the object changed while other handlers were still at work, and the state that this handler has seen was too \
             large to store. Move large values out of the object to avoid this."
        ),
        StateTrouble::Write(trouble) => write_trouble(f, trouble),
    }
}

fn write_trouble(f: &mut Formatter<'_>, trouble: &WriteTrouble) -> fmt::Result {
    match trouble {
        WriteTrouble::NotKept(failed) => write!(f, "{failed}: it is kept in memory only."),
        WriteTrouble::NotRemoved(failed) => write!(f, "{failed}."),
        WriteTrouble::LastHandledTooLarge { bytes } => write!(
            f,
            "The last-handled configuration takes {bytes} bytes even when compressed, too many for an annotation: only its digest is kept, and \
             handlers of the next change will get no old state. Move large values out of the object to avoid this."
        ),
        WriteTrouble::NoRoom { bytes, only_memory } => {
            let what = if *only_memory {
                "progress is kept in memory only, and handlers may run again after a restart"
            } else {
                "the state is kept in short form, and handlers of the next change will get no old state"
            };
            write!(
                f,
                "The annotations of this object would take {bytes} bytes of the {} that Kubernetes allows: {what}. Remove large annotations to \
                 avoid this.",
                budget::LIMIT
            )
        }
    }
}

fn withheld(f: &mut Formatter<'_>, handlers: &[Arc<str>]) -> fmt::Result {
    let handlers: Vec<String> = handlers.iter().map(|id| format!("'{id}'")).collect();
    let handlers = handlers.join(", ");
    write!(
        f,
        "The deletion waits for handlers that are not served now: {handlers}. The finalizer stays, and no deletion handler is called until they \
         are served. An earlier line says why they are not."
    )
}

/// Returns Kopf's name for a cycle.
fn title(reason: Reason) -> &'static str {
    match reason {
        Reason::Create => "Creation",
        Reason::Update => "Updating",
        Reason::Delete => "Deletion",
        Reason::Resume => "Resuming",
    }
}
