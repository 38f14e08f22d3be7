//! A thread that notices async handlers that block their thread and users' functions that block the operator's own thread. It reports them
//! while they do, because every task that could report them is blocked, too.
//!
//! A poll costs two stores and a reference count, and no lock; a call takes the lock when it begins. The thread ends after a while without
//! calls. It measures real time, because blocked threads do not advance virtual time. Must not know why a handler is called.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tracing::{Dispatch, Span};

use crate::engine::report::report;
use crate::handler::definition::HandlerCall;
use crate::handler::logger::Logger;
use crate::happening::calls::{CallHappening, UserCode};

/// The interval between two checks of the polls.
const PERIOD: Duration = Duration::from_millis(250);
/// The number of checks that the same poll may last.
const LOOKS: u32 = 4;
/// The duration of the polls that are reported.
const LONGEST: Duration = Duration::from_secs(1);
/// The number of checks without a call after which the thread ends.
const IDLE: u32 = 40;
/// The number of pairs of handler and object that are remembered as reported.
const MEMORY: usize = 1_000;

/// An async call in progress, or functions of users on the operator's own thread. Dropping it ends the observation.
pub(super) struct Watched(Arc<Call>);

struct Call {
    /// Odd while the call is polled and does not poll another one itself.
    polls: AtomicU64,
    /// The line to report if a poll takes too long.
    blocks: CallHappening,
    logger: Logger,
    /// The subscriber for lines about this call, since the watchdog's thread has no subscriber of its own.
    dispatch: Option<Dispatch>,
}

/// A part of a call that runs on this thread.
struct Polling<'a> {
    call: &'a Call,
    outer: Option<Arc<Call>>,
}

struct Watchdog {
    calls: Vec<(Weak<Call>, Poll)>,
    /// True while the thread runs.
    is_awake: bool,
    /// The handlers and objects that have been reported.
    reported: BTreeSet<(Option<Arc<str>>, Option<String>)>,
}

/// The poll that the last check has met: the counter then, and for how many periods it has been the same.
#[derive(Default)]
struct Poll(Option<(u64, u32)>);

static WATCHDOG: Mutex<Watchdog> =
    Mutex::new(Watchdog { calls: Vec::new(), is_awake: false, reported: BTreeSet::new() });

thread_local! {
    /// The call that is polled on this thread; a sub-handler is polled within its parent.
    static POLLED: RefCell<Option<Arc<Call>>> = const { RefCell::new(None) };
}

// === impl Watched ===

impl Watched {
    /// Observes a call that logs in `span`.
    pub(super) fn new(cause: &HandlerCall, span: &Span) -> Self {
        let handler = cause.handler.clone();
        let dispatch = span.with_subscriber(|(_, dispatch)| dispatch.clone());
        Self::begun(CallHappening::BlocksThread { handler, elapsed: LONGEST }, cause.logger(), dispatch)
    }

    fn begun(blocks: CallHappening, logger: &Logger, dispatch: Option<Dispatch>) -> Self {
        let call = Arc::new(Call { polls: AtomicU64::new(0), blocks, logger: logger.clone(), dispatch });
        let mut watchdog = WATCHDOG.lock();
        watchdog.add(Arc::downgrade(&call));
        if !watchdog.is_awake {
            // Handlers are not observed without the thread; a process that cannot start one has greater problems.
            let thread = std::thread::Builder::new().name("watchdog".to_owned());
            drop(thread.spawn(watch));
            watchdog.is_awake = true;
        }
        Self(call)
    }

    /// Runs a part of the call.
    pub(super) fn poll<T>(&self, part: impl FnOnce() -> T) -> T {
        let outer = POLLED.replace(Some(self.0.clone()));
        if let Some(outer) = &outer {
            outer.turn();
        }
        self.0.turn();
        let _polling = Polling { call: &self.0, outer };
        part()
    }
}

/// Runs a part that may call these functions of users on this thread, the operator's own. Within a call of a handler, the call is observed
/// instead.
pub(super) fn watched<T>(code: Vec<UserCode>, logger: &Logger, part: impl FnOnce() -> T) -> T {
    if code.is_empty() || POLLED.with_borrow(Option::is_some) {
        return part();
    }
    let blocks = CallHappening::BlocksOperator { code: code.into(), elapsed: LONGEST };
    let dispatch = tracing::dispatcher::get_default(Dispatch::clone);
    Watched::begun(blocks, logger, Some(dispatch)).poll(part)
}

impl Drop for Polling<'_> {
    fn drop(&mut self) {
        self.call.turn();
        let outer = self.outer.take();
        if let Some(outer) = &outer {
            outer.turn();
        }
        POLLED.set(outer);
    }
}

impl Call {
    /// Marks the begin or the end of a poll. Only one thread at a time polls a call, so no atomic exchange is needed.
    fn turn(&self) {
        let polls = self.polls.load(Ordering::Relaxed);
        self.polls.store(polls.wrapping_add(1), Ordering::Relaxed);
    }

    /// Returns the handler, unless these are other functions, and the object.
    fn subject(&self) -> (Option<Arc<str>>, Option<String>) {
        let handler = match &self.blocks {
            CallHappening::BlocksThread { handler, .. } => Some(handler.id.clone()),
            _ => None,
        };
        (handler, self.logger.about().map(|object| object.uid.clone()))
    }

    fn report(&self) {
        let report = || report(&self.logger, &self.blocks);
        match &self.dispatch {
            Some(dispatch) => tracing::dispatcher::with_default(dispatch, report),
            None => report(),
        }
    }
}

// === impl Watchdog ===

/// Checks the polls until there has been no call for a while.
#[expect(clippy::disallowed_methods, reason = "this thread measures how long polls last, in real time")]
fn watch() {
    let mut idle = 0;
    while idle < IDLE {
        std::thread::sleep(PERIOD);
        let mut watchdog = WATCHDOG.lock();
        let blocking = watchdog.look();
        idle = if watchdog.calls.is_empty() { idle + 1 } else { 0 };
        watchdog.is_awake = idle < IDLE;
        drop(watchdog);
        for call in blocking {
            call.report();
        }
    }
}

impl Watchdog {
    /// Adds a call. Forgets ended calls before the list grows, so that a burst of short calls does not keep their memory until the next check.
    fn add(&mut self, call: Weak<Call>) {
        let calls = &mut self.calls;
        if calls.len() == calls.capacity() {
            calls.retain(|(call, _)| call.strong_count() > 0);
            // Room for as many calls again, so that each call is looked at a few times only.
            calls.reserve(calls.len() + 1);
        }
        calls.push((call, Poll::default()));
    }

    /// Returns the calls to report: their current poll has just reached the limit. Forgets ended calls.
    fn look(&mut self) -> Vec<Arc<Call>> {
        let Self { calls, reported, .. } = self;
        let mut blocking = Vec::new();
        calls.retain_mut(|(call, poll)| {
            let Some(call) = call.upgrade() else {
                return false;
            };
            if poll.look(call.polls.load(Ordering::Relaxed)) == Some(LOOKS) {
                if reported.len() >= MEMORY {
                    reported.clear();
                }
                if reported.insert(call.subject()) {
                    blocking.push(call);
                }
            }
            true
        });
        if calls.is_empty() {
            // Returns the memory of a burst of calls.
            *calls = Vec::new();
        }
        blocking
    }
}

impl Poll {
    /// Returns for how many periods the current poll has lasted; `None` without one.
    fn look(&mut self, polls: u64) -> Option<u32> {
        let looks = match self.0 {
            Some((former, looks)) if former == polls => looks.saturating_add(1),
            _ => 0,
        };
        let is_polled = polls % 2 == 1;
        self.0 = is_polled.then_some((polls, looks));
        is_polled.then_some(looks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_poll_that_stays_the_same_grows_older() {
        let mut poll = Poll::default();
        let looks: Vec<_> =
            [0, 1, 1, 1, 2, 2, 5, 7, 7, 8].into_iter().map(|polls| poll.look(polls)).collect();
        assert_eq!(looks, [None, Some(0), Some(1), Some(2), None, None, Some(0), Some(0), Some(1), None]);
    }
}
