//! The log line of each happening. Uses Kopf's wording and levels wherever Kopf has such a line.
//!
//! This is the only module that words these lines. It does not know where the lines go.

mod abrupt_end;
mod admission;
mod background;
mod calls;
mod children;
mod converting;
mod duplicates;
pub(crate) mod event_words;
pub(crate) mod handling;
mod health;
mod leasing;
mod login;
mod migrating;
mod patching;
mod peering;
mod posting;
mod reviewing;
mod rules;
mod serving;

use std::fmt;
use std::time::Duration;

use tracing::Level;

use crate::happening::{Happening, Request};

const WORKER_PANICKED: &str = "Event processing has panicked, which is a bug in kopf-rs. The object is handled again at its next change.";
const UNWATCHED: &str = "The object is no longer watched: its state in memory is dropped.";

/// A happening as a log line. Formatted only when displayed.
pub(crate) struct Line<'a>(pub(crate) &'a Happening);

impl Line<'_> {
    /// Returns the level at which the line is logged.
    pub(crate) fn level(&self) -> Level {
        match self.0 {
            Happening::Invoked { .. }
            | Happening::Unwatched
            | Happening::RequestFailed { waiting: None, .. } => Level::DEBUG,
            Happening::OutageOver { .. } => Level::INFO,
            Happening::Handling(handling) => handling::level(handling),
            Happening::Serving(serving) => serving::level(serving),
            Happening::Leasing(leasing) => leasing::level(leasing),
            Happening::Peering(peering) => peering::level(peering),
            Happening::Patching(patching) => patching::level(patching),
            Happening::Child(child) => children::level(child),
            Happening::Posting(posting) => posting::level(posting),
            Happening::Health(health) => health::level(health),
            Happening::Admission(admission) => admission::level(admission),
            Happening::Converting(converting) => converting::level(converting),
            Happening::Migrating(migrating) => migrating::level(migrating),
            Happening::Rules(rules) => rules::level(rules),
            Happening::Login(login) => login::level(login),
            Happening::Reviewing(it) => reviewing::level(it),
            Happening::DuplicateOperator(duplicate) => duplicates::level(duplicate),
            Happening::AbruptEnd(end) => abrupt_end::level(end),
            Happening::OutcomesLost { .. } | Happening::WorkerPanicked => Level::ERROR,
            Happening::Cancelled { .. }
            | Happening::BlocksThread { .. }
            | Happening::BlocksOperator { .. }
            | Happening::StillRunning { .. }
            | Happening::RunsOn { .. }
            | Happening::PanickedWhenCutOff { .. }
            | Happening::RequestFailed { .. }
            | Happening::Unreadable { .. }
            | Happening::StreamsLeft { .. }
            | Happening::PermissionMissing { .. } => Level::WARN,
        }
    }
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Happening::Invoked { handler } => write!(f, "{handler} is invoked."),
            Happening::Cancelled { handler } => write!(
                f,
                "{handler} is cancelled because the operator stops. It will be called again at the next start."
            ),
            Happening::BlocksThread { handler, elapsed } => {
                calls::blocks_thread(handler, *elapsed, f)
            }
            Happening::BlocksOperator { code, elapsed } => {
                calls::blocks_operator(code, *elapsed, f)
            }
            Happening::StillRunning {
                handler,
                since,
                elapsed,
                waits,
            } => calls::still_running(handler, (*since, *elapsed), *waits, f),
            Happening::RunsOn { handler, end } => calls::runs_on(handler, *end, f),
            Happening::PanickedWhenCutOff { handler, panic } => calls::panicked(handler, panic, f),
            Happening::AbruptEnd(end) => abrupt_end::write(f, end),
            Happening::StreamsLeft { objects } => {
                write!(f, "Unprocessed streams left for {objects} object(s).")
            }
            Happening::WorkerPanicked => f.write_str(WORKER_PANICKED),
            Happening::Unwatched => f.write_str(UNWATCHED),
            Happening::RequestFailed {
                request,
                error,
                pause,
                waiting,
            } => request_failed(*request, error, *pause, *waiting, f),
            Happening::Unreadable { error } => unreadable(error, f),
            Happening::PermissionMissing { rule } => permission_missing(rule, f),
            Happening::OutageOver {
                reason,
                waiting,
                still,
                lasted,
                recovered,
            } => outage_over(reason, (*waiting, *still), *lasted, *recovered, f),
            Happening::OutcomesLost { objects, error } => {
                patching::outcomes_lost(*objects, error, f)
            }
            Happening::Handling(handling) => handling::write(f, handling),
            Happening::Serving(serving) => serving::write(f, serving),
            Happening::Leasing(leasing) => leasing::write(f, leasing),
            Happening::Peering(peering) => peering::write(f, peering),
            Happening::Patching(patching) => patching::write(f, patching),
            Happening::Child(child) => children::write(f, child),
            Happening::Posting(posting) => posting::write(f, posting),
            Happening::Health(health) => health::write(f, health),
            Happening::Admission(admission) => admission::write(f, admission),
            Happening::Converting(converting) => converting::write(f, converting),
            Happening::Migrating(migrating) => migrating::write(f, migrating),
            Happening::Rules(rules) => rules::write(f, rules),
            Happening::Login(login) => login::write(f, login),
            Happening::Reviewing(it) => reviewing::write(f, it),
            Happening::DuplicateOperator(duplicate) => duplicates::write(f, duplicate),
        }
    }
}

fn permission_missing(rule: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "A permission is missing. To grant it, add {rule}")
}

fn request_failed(
    request: Request,
    error: &str,
    pause: Duration,
    waiting: Option<usize>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let (doing, seconds) = (doing(request), pause.as_secs_f64());
    write!(f, "{doing} failed; will retry in {seconds:.1} seconds")?;
    if let Some(waiting @ 2..) = waiting {
        write!(f, "; {waiting} objects are waiting")?;
    }
    write!(f, ": {error}")
}

fn unreadable(error: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(
        f,
        "The operator cannot read objects of this kind. It handles them from watch events only, which can take longer: {error}"
    )
}

fn outage_over(
    reason: &str,
    (waiting, still): (usize, usize),
    lasted: Duration,
    recovered: bool,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    if recovered {
        f.write_str("Requests succeed again")?;
    } else {
        let reason = reason.lines().next().unwrap_or_default();
        let reason = reason.trim_end_matches(':');
        write!(f, "No object waits for a retry any more ({reason})")?;
    }
    let objects = objects(waiting);
    let seconds = lasted.as_secs_f64();
    write!(
        f,
        ": {objects} had to wait, the first for {seconds:.1} seconds"
    )?;
    match still {
        0 => f.write_str("."),
        1 => f.write_str("; 1 is still waiting."),
        _ => write!(f, "; {still} are still waiting."),
    }
}

fn objects(count: usize) -> String {
    match count {
        1 => "1 object".to_owned(),
        count => format!("{count} objects"),
    }
}

fn doing(request: Request) -> &'static str {
    match request {
        Request::Read => "Reading",
        Request::Patch => "Patching",
    }
}
