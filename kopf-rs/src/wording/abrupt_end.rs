//! The words for abrupt ends of the operator, and for what is not called any more for that.

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
        (0 | 1, 0) => write!(f, ": should that happen again, {consequence}."),
        (0 | 1, others) => {
            let others = match others {
                1 => "1 other call was".to_owned(),
                others => format!("{others} other calls were"),
            };
            write!(
                f,
                ", and {others}: they are made one at a time until it is known which of them ended it."
            )
        }
        _ => write!(f, ": {consequence}."),
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
            "Handler '{id}' is known since {since}: it was being called when the operator ended abruptly{times}. It is called again only \
             where the object has changed since."
        ),
        Called::Functions { code, .. } => {
            let code = user_codes(code);
            write!(
                f,
                "Functions are known since {since}: when the operator ended abruptly{times}, it was running {code}. The object is handled \
                 again only where it has changed since."
            )
        }
    }
}

fn consequence(called: &Called) -> &'static str {
    match called {
        Called::Handler(_) => "it is not called until the object is changed",
        Called::Functions { .. } => "the object is left alone until it is changed",
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
        "The object is left alone, and no handler is called for it: when the operator ended abruptly{times}, it was running {code}. To have \
         it handled again, change the object (its spec, labels or annotations), or build the operator anew with functions that do not end \
         the process (by an abort, an overflow of the stack, too much memory)."
    )?;
    match finalizer {
        Some(finalizer) => write!(
            f,
            " The deletion of the object waits for that: without it, the object goes once the finalizer '{finalizer}' is taken off."
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
        "{handler} is not called for this object any more: it was being called when the operator ended abruptly{times}. To have it called \
         again, change the object, or build the operator anew with a handler that does not end the process (by an abort, an overflow of the \
         stack, too much memory)."
    )?;
    match finalizer {
        Some(finalizer) => write!(
            f,
            " The deletion of the object waits for it: without it, the object goes once the finalizer '{finalizer}' is taken off."
        ),
        None => Ok(()),
    }
}

fn times(crashes: u32) -> String {
    match crashes {
        0 | 1 => String::new(),
        crashes => format!(", {crashes} times since calls are noted"),
    }
}
