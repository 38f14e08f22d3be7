//! The log line of each happening: Kopf's words and levels wherever Kopf has such a line.
//!
//! The only place where these lines are worded. Must not know where they go.

mod serving;

use std::fmt;

use tracing::Level;

use crate::handler::definition::Handler;
use crate::handler::location::DeclaredAt;
use crate::happening::{Happening, Request, WaitsForCall};

/// A happening as a log line. Formatting costs nothing until it is displayed.
pub(crate) struct Line<'a>(pub(crate) &'a Happening);

impl Line<'_> {
    /// The level at which it is logged.
    pub(crate) fn level(&self) -> Level {
        match self.0 {
            Happening::Invoked { .. }
            | Happening::Unwatched
            | Happening::RequestFailed { is_news: false, .. } => Level::DEBUG,
            Happening::OutageOver { .. } => Level::INFO,
            Happening::Serving(serving) => serving::level(serving),
            Happening::Cancelled { .. }
            | Happening::BlocksThread { .. }
            | Happening::StillRunning { .. }
            | Happening::RequestFailed { .. }
            | Happening::PermissionMissing { .. } => Level::WARN,
        }
    }
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Happening::Invoked { handler } => write!(f, "{handler} is invoked."),
            Happening::Cancelled { handler } => {
                write!(f, "{handler} is cancelled. Will escalate.")
            }
            Happening::BlocksThread { handler, elapsed } => {
                let seconds = elapsed.as_secs_f64();
                write!(
                    f,
                    "{handler} has blocked its thread for more than {seconds} s, and other async handlers have to wait: "
                )?;
                unblocked(handler.declared_at, f)
            }
            Happening::StillRunning {
                handler,
                since,
                elapsed,
                waits,
            } => {
                let (seconds, waits) = (elapsed.as_secs(), waiting(*waits));
                let since = since.strftime("%Y-%m-%dT%H:%M:%SZ");
                write!(
                    f,
                    "{handler} has been running for {seconds} seconds, since {since}: {waits} waits for it, and "
                )?;
                bound(handler, f)
            }
            Happening::Unwatched => {
                f.write_str("It is not watched any more: nothing is remembered of it.")
            }
            Happening::RequestFailed {
                request,
                error,
                pause,
                ..
            } => {
                let (doing, seconds) = (doing(*request), pause.as_secs_f64());
                write!(
                    f,
                    "{doing} failed; will retry in {seconds:.1} seconds: {error}"
                )
            }
            Happening::PermissionMissing { rule } => {
                write!(f, "The missing permission, as a rule for RBAC: {rule}")
            }
            Happening::OutageOver { waiting, lasted } => {
                let seconds = lasted.as_secs_f64();
                write!(
                    f,
                    "Requests succeed again: {waiting} had to wait, the first for {seconds:.1} seconds."
                )
            }
            Happening::Serving(serving) => serving::write(f, serving),
        }
    }
}

fn doing(request: Request) -> &'static str {
    match request {
        Request::Read => "Reading",
        Request::Patch => "Patching",
    }
}

fn waiting(waits: WaitsForCall) -> &'static str {
    match waits {
        WaitsForCall::Object => "the object",
        WaitsForCall::Deletion => "the deletion of the object",
        WaitsForCall::Operator => "the operator",
    }
}

/// What ends a call that does not return.
fn bound(handler: &Handler, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match handler.timeout() {
        _ if handler.is_blocking() => f.write_str(
            "nothing can interrupt a blocking function: limit the time of what it waits for.",
        ),
        Some(limit) => write!(f, "its timeout of {} seconds ends it.", limit.as_secs_f64()),
        None => f.write_str("`timeout = ..` would end it."),
    }
}

/// What to change in a handler that blocks its thread.
fn unblocked(declared_at: DeclaredAt, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let change = match declared_at {
        DeclaredAt::Function(_) => "make it a `fn` instead of an `async fn`, or ",
        DeclaredAt::Closure(_) => "",
    };
    write!(
        f,
        "{change}run what blocks in `tokio::task::spawn_blocking` ({declared_at})."
    )
}
