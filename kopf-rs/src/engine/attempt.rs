//! Makes one attempt of a handler. Reports its start and its cancellation. Reports a long call by WARNING lines: after a minute, or earlier if a
//! deletion waits for the call, and then after growing pauses.
//!
//! Must not know what follows from an outcome.

use std::convert::Infallible;
use std::time::Duration;

use crate::engine::invoke::{Cancelled, Invoker};
use crate::engine::report::report;
use crate::handler::definition::HandlerCall;
use crate::handler::outcome::Outcome;
use crate::happening::calls::CallHappening;
use crate::object::patch::Patch;
use crate::object::reference::Reference;
use crate::rt::clock::Clock;

/// The interval between two checks of a running call.
const PERIOD: Duration = Duration::from_secs(10);
/// When the first line is due, unless a deletion waits for the call.
const FIRST: Duration = Duration::from_secs(60);
/// The longest pause between two lines.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// The schedule of lines about one call. Pure: callers pass the time.
struct Schedule {
    /// The duration of the call at which the next line is due.
    next: Duration,
    deletion: Deletion,
}

/// The state of a deletion that waits for the call.
#[derive(PartialEq)]
enum Deletion {
    None,
    /// A deletion waits since the last check or an earlier one.
    Waits,
    Told,
}

/// Calls a handler. `deletion` returns whether a deletion of the object waits for the call.
pub(crate) async fn attempt(
    invoker: &Invoker,
    about: &Reference,
    cause: &HandlerCall,
    patch: &mut Patch,
    deletion: impl Fn() -> bool,
) -> Result<Outcome, Cancelled> {
    let handler = || cause.handler.clone();
    report(cause.logger(), &CallHappening::Invoked { handler: handler() });
    let call = invoker.invoke(cause, about, patch);
    let outcome = report_while_running(cause, invoker.clock, deletion, call).await;
    patch.sign(&cause.handler.id);
    if outcome.is_err() {
        report(cause.logger(), &CallHappening::Cancelled { handler: handler() });
    }
    outcome
}

/// Awaits `call`, and reports it now and then while it runs. `is_deletion_waiting` returns whether a deletion of the object waits for the
/// call.
pub(crate) async fn report_while_running<T>(
    cause: &HandlerCall,
    clock: Clock,
    is_deletion_waiting: impl Fn() -> bool,
    call: impl Future<Output = T>,
) -> T {
    tokio::select! {
        biased;
        returned = call => returned,
        never = tell(cause, clock, is_deletion_waiting) => match never {},
    }
}

async fn tell(cause: &HandlerCall, clock: Clock, is_deletion_waiting: impl Fn() -> bool) -> Infallible {
    let since = clock.now();
    let mut schedule = Schedule::new();
    let mut elapsed = Duration::ZERO;
    loop {
        tokio::time::sleep(PERIOD).await;
        elapsed += PERIOD;
        // If the object was being deleted from the start, the call is a part of the deletion and does not hold it up.
        let deletion = !cause.body().is_deleting() && is_deletion_waiting();
        if !schedule.is_due(elapsed, deletion) {
            continue;
        }
        let waits = match cause.activity() {
            Some(_) => "the operator",
            None if deletion => "the deletion of the object",
            None if cause.handler.is_background() => "its next call",
            None => "the object",
        };
        let happening = CallHappening::StillRunning { handler: cause.handler.clone(), since, elapsed, waits };
        report(cause.logger(), &happening);
    }
}

impl Schedule {
    fn new() -> Self {
        Self { next: FIRST, deletion: Deletion::None }
    }

    /// Returns whether a line is due about a call that has run for `elapsed`.
    fn is_due(&mut self, elapsed: Duration, deletion_waits: bool) -> bool {
        let is_news = deletion_waits && self.deletion == Deletion::Waits;
        if is_news {
            self.deletion = Deletion::Told;
        } else if deletion_waits && self.deletion == Deletion::None {
            self.deletion = Deletion::Waits;
        }
        if elapsed < self.next && !is_news {
            return false;
        }
        if elapsed >= self.next {
            self.next = elapsed + elapsed.min(LONGEST_PAUSE);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the seconds at which lines are due, for a deletion that waits since the second `deleted`.
    fn told(until: u64, deleted: Option<u64>) -> Vec<u64> {
        let mut schedule = Schedule::new();
        let looks = (1..).map(|look| look * PERIOD.as_secs());
        looks
            .take_while(|second| *second <= until)
            .filter(|second| {
                let waits = deleted.is_some_and(|deleted| deleted <= *second);
                schedule.is_due(Duration::from_secs(*second), waits)
            })
            .collect()
    }

    #[test]
    fn pauses_between_lines_grow_to_an_hour() {
        assert_eq!(told(500, None), [60, 120, 240, 480]);
        let late = told(30_000, None);
        let pauses = late.windows(2).map(|pair| pair[1] - pair[0]);
        assert_eq!(pauses.max(), Some(LONGEST_PAUSE.as_secs()), "{late:?}");
    }

    #[test]
    fn a_deletion_that_waits_is_told_after_one_more_look_and_once() {
        assert_eq!(told(130, Some(0)), [20, 60, 120]);
        assert_eq!(told(130, Some(75)), [60, 90, 120]);
        // One line serves both reasons.
        assert_eq!(told(130, Some(45)), [60, 120]);
    }
}
