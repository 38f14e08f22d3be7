//! Happenings of calls of handlers and of other user code, also those after an abrupt end of the operator.
//!
//! This module detects neither slow calls nor abrupt ends.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::handler::definition::Handler;
use crate::handler::location::DeclaredAt;
use crate::happening::{DEBUG, ERROR, INFO, WARN, happenings, of_handler, quoted};

happenings! {
    /// A happening of a call.
    #[derive(Clone, Debug)]
    enum CallHappening {
        /// An attempt of a handler starts.
        Invoked { handler: Arc<Handler> }
            => DEBUG, "{handler} is invoked." => event of_handler(handler, "HandlerInvoked");
        /// The operator stops and has cancelled an attempt, whose outcome is unknown.
        Cancelled { handler: Arc<Handler> }
            => WARN, "{handler} is cancelled because the operator stops. It will be called again at the next start."
            => event of_handler(handler, "HandlerCancelled");
        /// An async call has blocked its thread for this long.
        BlocksThread { handler: Arc<Handler>, elapsed: Duration }
            => WARN, "{handler} has blocked its thread for more than {} s, and other async handlers have to wait. \
            {} the blocking code into `tokio::task::spawn_blocking` ({}).",
            elapsed.as_secs_f64(), how_to_move(handler), handler.declared_at;
        /// User functions have blocked the operator's own thread for this long; these are candidates.
        BlocksOperator { code: Arc<[UserCode]>, elapsed: Duration }
            => WARN, "The operator's own thread has been blocked for more than {} s by {}, and all other objects have to wait. \
            These functions must return at once: move slow code into a handler.", elapsed.as_secs_f64(), any_of(code);
        /// A call has been running for a long time. `waits` names what waits for it.
        StillRunning { handler: Arc<Handler>, since: Timestamp, elapsed: Duration, waits: &'static str }
            => WARN, "{handler} has been running for {} seconds, since {}, and {waits} waits for it. {}",
            elapsed.as_secs(), to_the_second(*since), how_to_end(handler);
        /// A call should have ended, and cannot be interrupted.
        RunsOn { handler: Arc<Handler>, end: EndOfCall }
            => WARN, "{handler} {}: {}", match end {
                EndOfCall::Timeout(limit) => format!("runs past its timeout of {} seconds", limit.as_secs_f64()),
                EndOfCall::Stop => "still runs although the operator stops".to_owned(),
                EndOfCall::CutOff => "still runs although it is cut off".to_owned(),
            }, if handler.is_blocking() {
                "a blocking function cannot be interrupted."
            } else {
                "an async function can only be cancelled at an `.await`, and it reaches none while it, or another handler, blocks the threads."
            };
        /// A call was cancelled, and dropping its future panicked.
        PanickedWhenCutOff { handler: Arc<Handler>, panic: String }
            => WARN, "{handler} was cancelled, and dropping its values {panic}";
    }
}

/// Why a call should have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndOfCall {
    /// The total timeout of its attempts has expired.
    Timeout(Duration),
    /// The operator stops.
    Stop,
    /// A daemon or timer is cancelled.
    CutOff,
}

fn how_to_move(handler: &Handler) -> &'static str {
    match handler.declared_at {
        DeclaredAt::Function(_) => "Make it a `fn` instead of an `async fn`, or move",
        DeclaredAt::Closure(_) => "Move",
    }
}

fn how_to_end(handler: &Handler) -> String {
    match handler.retry.timeout {
        _ if handler.is_blocking() => {
            "A blocking function cannot be interrupted: set timeouts for the calls that it makes.".to_owned()
        }
        Some(limit) => format!("Its timeout of {} seconds will end it.", limit.as_secs_f64()),
        None => "It has no timeout: `timeout = ..` sets one.".to_owned(),
    }
}

fn to_the_second(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

happenings! {
    /// A happening of an object after an abrupt end of the operator: the calls that were running, and the handlers
    /// that are suspended because of it.
    #[derive(Clone, Debug)]
    enum AbruptEnd {
        /// This handler or code was running for the object each time when the operator ended abruptly. Carries the
        /// number of such ends, and of other calls that were running.
        Accused { called: Called, crashes: u32, others: usize }
            => WARN, "{}{}", match called {
                Called::Handler(id) => format!("Handler '{id}' was being called when the operator ended abruptly{}", times(*crashes)),
                Called::Functions { code, .. } =>
                    format!("When the operator ended abruptly{}, it was running {}", times(*crashes), any_of(code)),
            }, match (crashes, others) {
                (0 | 1, 0) => format!(". If that happens again, {}.", called.consequence()),
                (0 | 1, 1) => format!(", and so was 1 other call{ONE_AT_A_TIME}"),
                (0 | 1, others) => format!(", and so were {others} other calls{ONE_AT_A_TIME}"),
                _ => format!(". Now {}.", called.consequence()),
            };
        /// The same, recorded by a former run of the operator. Since then, the code is not called for this state of the
        /// object.
        LeftAloneSince { called: Called, crashes: u32, since: Timestamp }
            => INFO, "{}", match called {
                Called::Handler(id) => format!("Handler '{id}' has been suspended for this object since {}: it was being called when the operator \
                ended abruptly{}. It is called again once the object has changed.", to_the_second(*since), times(*crashes)),
                Called::Functions { code, .. } => format!("The object has been skipped since {}: when the operator ended abruptly{}, it was \
                running {}. The object is handled again once it has changed.", to_the_second(*since), times(*crashes), any_of(code)),
            };
        /// The handler is suspended for the object, since the operator has ended abruptly this many times while the
        /// handler ran. Carries the finalizer if a deletion waits for it.
        HandlerSuspended { handler: Arc<Handler>, crashes: u32, finalizer: Option<Arc<str>> }
            => ERROR, "{handler} is suspended for this object: it was being called when the operator ended abruptly{}. To have it called again, \
            change the object, or deploy a new build of the operator whose handler does not end the process (by an abort, a stack overflow, or \
            too much memory).{}", times(*crashes), finalizer.as_ref().map(|finalizer| format!(" The deletion of the object waits for this \
            handler. To delete the object without it, remove the finalizer '{finalizer}'.")).unwrap_or_default()
            => event of_handler(handler, "HandlerSuspended");
        /// All handling of the object is suspended, since the operator has ended abruptly this many times while such user
        /// functions ran. Carries the finalizer if the deletion of the object waits for the operator.
        ObjectLeftAlone { code: Vec<UserCode>, crashes: u32, finalizer: Option<Arc<str>> }
            => ERROR, "The object is skipped, and no handler is called for it: when the operator ended abruptly{}, it was running {}. To have the \
            object handled again, change its spec, labels or annotations, or deploy a new build of the operator whose functions do not end the \
            process (by an abort, a stack overflow, or too much memory).{}", times(*crashes), any_of(code),
            finalizer.as_ref().map(|finalizer| format!(" The deletion of the object waits for that. To delete the object without its handlers, \
            remove the finalizer '{finalizer}'.")).unwrap_or_default();
    }
}

const ONE_AT_A_TIME: &str =
    ". The operator makes these calls one at a time until it knows which of them ends it.";

fn times(crashes: u32) -> String {
    match crashes {
        0 | 1 => String::new(),
        crashes => format!(" ({crashes} times)"),
    }
}

/// User code that is called for an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Called {
    Handler(Arc<str>),
    /// One or more of these functions.
    Functions {
        stage: Stage,
        code: Vec<UserCode>,
    },
}

/// The part of an object's cycle that runs user code on the operator's own thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stage {
    Plan,
    Settlement,
    Patch,
}

impl Called {
    /// Returns whether both name the same handler or stage, regardless of the functions involved.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Handler(this), Self::Handler(that)) => this == that,
            (Self::Functions { stage: this, .. }, Self::Functions { stage: that, .. }) => this == that,
            _ => false,
        }
    }

    fn consequence(&self) -> &'static str {
        match self {
            Self::Handler(_) => "the handler is suspended for this object until the object changes",
            Self::Functions { .. } => "the object is skipped until it changes",
        }
    }
}

/// User functions that run on the operator's own thread, outside of handlers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum UserCode {
    /// The filters of these handlers.
    Filters(Arc<[Arc<str>]>),
    /// The functions that fill these indices.
    Indexers(Arc<[Arc<str>]>),
    /// A lifecycle.
    Lifecycle,
    /// Storages for progress or for the last-handled state.
    Storages,
    /// Functions that these handlers have added to their patches.
    PatchFunctions(Arc<[Arc<str>]>),
}

impl fmt::Display for UserCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Filters(ids) => write!(f, "the filters of {}", quoted(ids)),
            Self::Indexers(ids) => write!(f, "the function of the index {}", quoted(ids)),
            Self::Lifecycle => f.write_str("a lifecycle"),
            Self::Storages => f.write_str("storages"),
            Self::PatchFunctions(ids) => write!(f, "the patch functions of {}", quoted(ids)),
        }
    }
}

fn any_of(code: &[UserCode]) -> String {
    let code: Vec<String> = code.iter().map(ToString::to_string).collect();
    code.join(" or ")
}
