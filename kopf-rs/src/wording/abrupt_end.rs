//! The log lines about abrupt ends of the operator, and about the handlers suspended because of them.

use std::fmt::{Formatter, Result};
use std::sync::Arc;

use jiff::Timestamp;
use tracing::Level;

use crate::handler::definition::Handler;
use crate::happening::abrupt_end::{AbruptEnd, Called};
use crate::happening::user_code::UserCode;
use crate::wording::calls::user_codes;

pub(super) fn level(end: &AbruptEnd) -> Level {
    match end {
        AbruptEnd::Accused { .. } => Level::WARN,
        AbruptEnd::LeftAloneSince { .. } => Level::INFO,
        AbruptEnd::HandlerSuspended { .. } | AbruptEnd::ObjectLeftAlone { .. } => Level::ERROR,
    }
}

pub(super) fn write(f: &mut Formatter<'_>, end: &AbruptEnd) -> Result {
    match end {
        AbruptEnd::Accused {
            called,
            crashes,
            others,
        } => ended_abruptly(called, *crashes, *others, f),
        AbruptEnd::LeftAloneSince {
            called,
            crashes,
            since,
        } => left_alone_since(called, *crashes, *since, f),
        AbruptEnd::HandlerSuspended {
            handler,
            crashes,
            finalizer,
        } => suspended(handler, *crashes, finalizer.as_ref(), f),
        AbruptEnd::ObjectLeftAlone {
            code,
            crashes,
            finalizer,
        } => left_alone(code, *crashes, finalizer.as_ref(), f),
    }
}

fn ended_abruptly(called: &Called, crashes: u32, others: usize, f: &mut Formatter<'_>) -> Result {
    let times = times(crashes);
    match called {
        Called::Handler(id) => write!(
            f,
            "Handler '{id}' was being called when the operator ended abruptly{times}"
        )?,
        Called::Functions { code, .. } => {
            let code = user_codes(code);
            write!(
                f,
                "When the operator ended abruptly{times}, it was running {code}"
            )?;
        }
    }
    let consequence = consequence(called);
    match (crashes, others) {
        (0 | 1, 0) => write!(f, ". If that happens again, {consequence}."),
        (0 | 1, others) => {
            let others = match others {
                1 => "was 1 other call".to_owned(),
                others => format!("were {others} other calls"),
            };
            write!(
                f,
                ", and so {others}. The operator makes these calls one at a time until it knows which of them ends it."
            )
        }
        _ => write!(f, ". Now {consequence}."),
    }
}

fn left_alone_since(
    called: &Called,
    crashes: u32,
    since: Timestamp,
    f: &mut Formatter<'_>,
) -> Result {
    let (since, times) = (since.strftime("%Y-%m-%dT%H:%M:%SZ"), times(crashes));
    match called {
        Called::Handler(id) => write!(
            f,
            "Handler '{id}' has been suspended for this object since {since}: it was being called when the operator ended abruptly{times}. It is \
             called again once the object has changed."
        ),
        Called::Functions { code, .. } => {
            let code = user_codes(code);
            write!(
                f,
                "The object has been skipped since {since}: when the operator ended abruptly{times}, it was running {code}. The object is handled \
                 again once it has changed."
            )
        }
    }
}

fn consequence(called: &Called) -> &'static str {
    match called {
        Called::Handler(_) => "the handler is suspended for this object until the object changes",
        Called::Functions { .. } => "the object is skipped until it changes",
    }
}

fn left_alone(
    code: &[UserCode],
    crashes: u32,
    finalizer: Option<&Arc<str>>,
    f: &mut Formatter<'_>,
) -> Result {
    let (code, times) = (user_codes(code), times(crashes));
    write!(
        f,
        "The object is skipped, and no handler is called for it: when the operator ended abruptly{times}, it was running {code}. To have the \
         object handled again, change its spec, labels or annotations, or deploy a new build of the operator whose functions do not end the \
         process (by an abort, a stack overflow, or too much memory)."
    )?;
    match finalizer {
        Some(finalizer) => write!(
            f,
            " The deletion of the object waits for that. To delete the object without its handlers, remove the finalizer '{finalizer}'."
        ),
        None => Ok(()),
    }
}

fn suspended(
    handler: &Handler,
    crashes: u32,
    finalizer: Option<&Arc<str>>,
    f: &mut Formatter<'_>,
) -> Result {
    let times = times(crashes);
    write!(
        f,
        "{handler} is suspended for this object: it was being called when the operator ended abruptly{times}. To have it called again, change \
         the object, or deploy a new build of the operator whose handler does not end the process (by an abort, a stack overflow, or too much \
         memory)."
    )?;
    match finalizer {
        Some(finalizer) => write!(
            f,
            " The deletion of the object waits for this handler. To delete the object without it, remove the finalizer '{finalizer}'."
        ),
        None => Ok(()),
    }
}

fn times(crashes: u32) -> String {
    match crashes {
        0 | 1 => String::new(),
        crashes => format!(" ({crashes} times)"),
    }
}
