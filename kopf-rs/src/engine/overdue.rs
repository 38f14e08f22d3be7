//! Calls that do not return: told by WARNING lines after a minute, then with growing pauses; soon where a deletion waits for one.
//!
//! Must not know what is called, nor how such a line is worded.

use std::convert::Infallible;
use std::time::Duration;

use crate::engine::report::report;
use crate::handler::definition::HandlerCall;
use crate::happening::{Happening, WaitsForCall};
use crate::rt::clock::Clock;

/// How often a call that has not returned is looked at.
const PERIOD: Duration = Duration::from_secs(10);
/// When it is told for the first time, where no deletion waits for it.
const FIRST: Duration = Duration::from_secs(60);
/// Between two lines, at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// When to tell of one call. Pure: it is told the time.
struct Schedule {
    /// How long the call has run when it is told next.
    next: Duration,
    deletion: Deletion,
}

/// The deletion that waits for the call, as far as it is known.
#[derive(PartialEq)]
enum Deletion {
    None,
    /// Since the last look or earlier.
    Waits,
    Told,
}

/// Await `call`. As long as it runs, tell of it now and then; `is_deletion_waiting` says whether the object is to be deleted meanwhile.
pub(crate) async fn told_while_running<T>(
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

async fn tell(
    cause: &HandlerCall,
    clock: Clock,
    is_deletion_waiting: impl Fn() -> bool,
) -> Infallible {
    let since = clock.now();
    let mut schedule = Schedule::new();
    let mut elapsed = Duration::ZERO;
    loop {
        tokio::time::sleep(PERIOD).await;
        elapsed += PERIOD;
        // A call for an object that is being deleted does not hold its deletion up: it is a part of it.
        let deletion = !cause.body().is_deleting() && is_deletion_waiting();
        if !schedule.is_due(elapsed, deletion) {
            continue;
        }
        let waits = match cause.activity() {
            Some(_) => WaitsForCall::Operator,
            None if deletion => WaitsForCall::Deletion,
            None if cause.handler.background().is_some() => WaitsForCall::Tick,
            None => WaitsForCall::Object,
        };
        let happening = Happening::StillRunning {
            handler: cause.handler.clone(),
            since,
            elapsed,
            waits,
        };
        report(cause.logger(), &happening);
    }
}

impl Schedule {
    fn new() -> Self {
        Self {
            next: FIRST,
            deletion: Deletion::None,
        }
    }

    /// Whether a call that runs for `elapsed` is to be told of now.
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

    /// The seconds after which a call is told of, where a deletion waits from the second `deleted` on.
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
        // One line for both reasons.
        assert_eq!(told(130, Some(45)), [60, 120]);
    }
}
