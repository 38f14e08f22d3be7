//! The log lines about calls that block a thread or do not return.

use std::fmt::{Formatter, Result};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::handler::definition::Handler;
use crate::handler::location::DeclaredAt;
use crate::happening::user_code::UserCode;
use crate::happening::{EndOfCall, WaitsForCall};

pub(super) fn blocks_thread(handler: &Handler, elapsed: Duration, f: &mut Formatter<'_>) -> Result {
    let seconds = elapsed.as_secs_f64();
    write!(
        f,
        "{handler} has blocked its thread for more than {seconds} s, and other async handlers have to wait. "
    )?;
    let change = match handler.declared_at {
        DeclaredAt::Function(_) => "Make it a `fn` instead of an `async fn`, or move",
        DeclaredAt::Closure(_) => "Move",
    };
    write!(
        f,
        "{change} the blocking code into `tokio::task::spawn_blocking` ({}).",
        handler.declared_at
    )
}

pub(super) fn blocks_operator(
    code: &[UserCode],
    elapsed: Duration,
    f: &mut Formatter<'_>,
) -> Result {
    let seconds = elapsed.as_secs_f64();
    let code = user_codes(code);
    write!(
        f,
        "The operator's own thread has been blocked for more than {seconds} s by {code}, and all other objects have to wait. These functions must \
         return at once: move slow code into a handler."
    )
}

pub(super) fn user_codes(code: &[UserCode]) -> String {
    let code: Vec<String> = code.iter().map(user_code).collect();
    code.join(" or ")
}

fn user_code(code: &UserCode) -> String {
    let quoted = |ids: &[Arc<str>]| {
        let ids: Vec<String> = ids.iter().map(|id| format!("'{id}'")).collect();
        ids.join(", ")
    };
    match code {
        UserCode::Filters(ids) => format!("the filters of {}", quoted(ids)),
        UserCode::Indexers(ids) => format!("the function of the index {}", quoted(ids)),
        UserCode::Lifecycle => "a lifecycle".to_owned(),
        UserCode::Storages => "storages".to_owned(),
        UserCode::PatchFunctions(ids) => format!("the patch functions of {}", quoted(ids)),
    }
}

pub(super) fn still_running(
    handler: &Handler,
    (since, elapsed): (Timestamp, Duration),
    waits: WaitsForCall,
    f: &mut Formatter<'_>,
) -> Result {
    let (seconds, waits) = (elapsed.as_secs(), waiting(waits));
    let since = since.strftime("%Y-%m-%dT%H:%M:%SZ");
    write!(
        f,
        "{handler} has been running for {seconds} seconds, since {since}, and {waits} waits for it. "
    )?;
    match handler.timeout() {
        _ if handler.is_blocking() => f.write_str(
            "A blocking function cannot be interrupted: set timeouts for the calls that it makes.",
        ),
        Some(limit) => write!(
            f,
            "Its timeout of {} seconds will end it.",
            limit.as_secs_f64()
        ),
        None => f.write_str("It has no timeout: `timeout = ..` sets one."),
    }
}

/// Writes the line about a cancelled call.
pub(super) fn panicked(handler: &Handler, panic: &str, f: &mut Formatter<'_>) -> Result {
    write!(
        f,
        "{handler} was cancelled, and dropping its values {panic}"
    )
}

pub(super) fn runs_on(handler: &Handler, end: EndOfCall, f: &mut Formatter<'_>) -> Result {
    match end {
        EndOfCall::Timeout(limit) => {
            let seconds = limit.as_secs_f64();
            write!(f, "{handler} runs past its timeout of {seconds} seconds: ")?;
        }
        EndOfCall::Stop => write!(f, "{handler} still runs although the operator stops: ")?,
        EndOfCall::CutOff => write!(f, "{handler} still runs although it is cut off: ")?,
    }
    f.write_str(if handler.is_blocking() {
        "a blocking function cannot be interrupted."
    } else {
        "an async function can only be cancelled at an `.await`, and it reaches none while it, or another handler, blocks the threads."
    })
}

fn waiting(waits: WaitsForCall) -> &'static str {
    match waits {
        WaitsForCall::Object => "the object",
        WaitsForCall::Deletion => "the deletion of the object",
        WaitsForCall::Tick => "its next call",
        WaitsForCall::Operator => "the operator",
    }
}
