//! The words for calls that do not end as they should: they block, do not return, or end the process.

use std::fmt::{Formatter, Result};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::handler::definition::Handler;
use crate::handler::location::DeclaredAt;
use crate::happening::{UserCode, WaitsForCall};

pub(super) fn blocks_thread(handler: &Handler, elapsed: Duration, f: &mut Formatter<'_>) -> Result {
    let seconds = elapsed.as_secs_f64();
    write!(
        f,
        "{handler} has blocked its thread for more than {seconds} s, and other async handlers have to wait: "
    )?;
    let change = match handler.declared_at {
        DeclaredAt::Function(_) => "make it a `fn` instead of an `async fn`, or ",
        DeclaredAt::Closure(_) => "",
    };
    write!(
        f,
        "{change}run what blocks in `tokio::task::spawn_blocking` ({}).",
        handler.declared_at
    )
}

pub(super) fn blocks_operator(
    code: &[UserCode],
    elapsed: Duration,
    f: &mut Formatter<'_>,
) -> Result {
    let seconds = elapsed.as_secs_f64();
    let code: Vec<String> = code.iter().map(user_code).collect();
    write!(
        f,
        "The operator's own thread has been blocked for more than {seconds} s by {}, and everything else has to wait: these functions must \
         return at once. What takes its time belongs into a handler.",
        code.join(" or ")
    )
}

fn user_code(code: &UserCode) -> String {
    match code {
        UserCode::Filters(ids) => {
            let ids: Vec<String> = ids.iter().map(|id| format!("'{id}'")).collect();
            format!("the filters (`when = ..`) of {}", ids.join(", "))
        }
        UserCode::Lifecycle => "a lifecycle".to_owned(),
        UserCode::Storages => "storages".to_owned(),
        UserCode::PatchFunctions => "patch functions of handlers".to_owned(),
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
        "{handler} has been running for {seconds} seconds, since {since}: {waits} waits for it, and "
    )?;
    match handler.timeout() {
        _ if handler.is_blocking() => f.write_str(
            "nothing can interrupt a blocking function: limit the time of what it waits for.",
        ),
        Some(limit) => write!(f, "its timeout of {} seconds ends it.", limit.as_secs_f64()),
        None => f.write_str("`timeout = ..` would end it."),
    }
}

fn waiting(waits: WaitsForCall) -> &'static str {
    match waits {
        WaitsForCall::Object => "the object",
        WaitsForCall::Deletion => "the deletion of the object",
        WaitsForCall::Operator => "the operator",
    }
}

pub(super) fn ended_abruptly(
    handler: &str,
    crashes: u32,
    others: usize,
    f: &mut Formatter<'_>,
) -> Result {
    let times = times(crashes);
    write!(
        f,
        "Handler '{handler}' was being called when the operator ended abruptly{times}"
    )?;
    match (crashes, others) {
        (0 | 1, 0) => {
            f.write_str(": should that happen again, it is not called until the object is changed.")
        }
        (0 | 1, others) => write!(
            f,
            ", as were {others} others: they are called one at a time until it is known which of them ended it."
        ),
        _ => f.write_str(": it is not called until the object is changed."),
    }
}

pub(super) fn suspended(
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
        crashes => format!(", {crashes} times"),
    }
}
