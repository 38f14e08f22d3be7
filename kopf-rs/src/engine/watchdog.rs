//! A thread that notices async handlers that block their thread and users' functions that block the operator's own thread. It reports them
//! while they do, because every task that could report them is blocked, too.
//!
//! A poll costs two stores and a reference count, and no lock; a call takes the lock when it begins and when it ends. Without calls, the
//! thread sleeps. It measures real time, because blocked threads do not advance virtual time. Must not know why a handler is called.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::{Dispatch, Span};

use crate::engine::report::report;
use crate::handler::definition::{Handler, HandlerCall};
use crate::handler::logger::Logger;
use crate::happening::calls::{CallHappening, UserCode};

/// The interval between two checks of the polls.
const PERIOD: Duration = Duration::from_millis(250);
/// The number of checks that the same poll may last; together, a second.
const LOOKS: u32 = 4;
/// The number of checks without a call before the thread sleeps until it is woken.
const IDLE: u32 = 40;
/// The number of pairs of handler and object that are remembered as reported.
const MEMORY: usize = 1_000;

/// An async call in progress, or functions of users on the operator's own thread. Dropping it ends the observation.
pub(super) struct Watched {
    call: Arc<Call>,
    slot: usize,
}

struct Call {
    /// Odd while the call is polled and does not poll another one itself.
    polls: AtomicU64,
    code: Code,
    logger: Logger,
    uid: String,
    /// The subscriber for lines about this call, since the watchdog's thread has no subscriber of its own.
    dispatch: Option<Dispatch>,
}

/// The observed user code.
enum Code {
    Handler(Arc<Handler>),
    /// One of these functions.
    Functions(Arc<[UserCode]>),
}

/// A part of a call that runs on this thread.
struct Polling<'a> {
    call: &'a Call,
    outer: Option<Arc<Call>>,
}

/// All calls in progress.
struct Watchdog {
    state: Mutex<State>,
    woken: Condvar,
}

struct State {
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    thread: Thread,
}

struct Slot {
    call: Arc<Call>,
    poll: Poll,
}

/// The poll that the last check has met: the counter then, and for how many periods it has been the same.
#[derive(Default)]
struct Poll(Option<(u64, u32)>);

#[derive(PartialEq)]
enum Thread {
    Absent,
    Awake,
    Asleep,
}

static WATCHDOG: Watchdog = Watchdog {
    state: Mutex::new(State { slots: Vec::new(), free: Vec::new(), thread: Thread::Absent }),
    woken: Condvar::new(),
};

thread_local! {
    /// The call that is polled on this thread; a sub-handler is polled within its parent.
    static POLLED: RefCell<Option<Arc<Call>>> = const { RefCell::new(None) };
}

// === impl Watched ===

impl Watched {
    /// Observes a call that logs in `span`.
    pub(super) fn new(cause: &HandlerCall, span: &Span) -> Self {
        Self::begun(Call {
            polls: AtomicU64::new(0),
            code: Code::Handler(cause.handler.clone()),
            logger: cause.logger().clone(),
            uid: cause.uid().to_owned(),
            dispatch: span.with_subscriber(|(_, dispatch)| dispatch.clone()),
        })
    }

    fn begun(call: Call) -> Self {
        let call = Arc::new(call);
        let slot = WATCHDOG.add(call.clone());
        Self { call, slot }
    }

    /// Runs a part of the call.
    pub(super) fn poll<T>(&self, part: impl FnOnce() -> T) -> T {
        let outer = POLLED.replace(Some(self.call.clone()));
        if let Some(outer) = &outer {
            outer.turn();
        }
        self.call.turn();
        let _polling = Polling { call: &self.call, outer };
        part()
    }
}

/// Runs a part that may call these functions of users on this thread, the operator's own. Within a call of a handler, the call is observed
/// instead.
pub(super) fn watched<T>(code: Vec<UserCode>, logger: &Logger, uid: &str, part: impl FnOnce() -> T) -> T {
    if code.is_empty() || POLLED.with_borrow(Option::is_some) {
        return part();
    }
    let watched = Watched::begun(Call {
        polls: AtomicU64::new(0),
        code: Code::Functions(code.into()),
        logger: logger.clone(),
        uid: uid.to_owned(),
        dispatch: Some(tracing::dispatcher::get_default(Dispatch::clone)),
    });
    watched.poll(part)
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

impl Drop for Watched {
    fn drop(&mut self) {
        WATCHDOG.remove(self.slot);
    }
}

impl Call {
    /// Marks the begin or the end of a poll. Only one thread at a time polls a call, so no atomic exchange is needed.
    fn turn(&self) {
        let polls = self.polls.load(Ordering::Relaxed);
        self.polls.store(polls.wrapping_add(1), Ordering::Relaxed);
    }

    /// Returns the handler if this is a call of one.
    fn handler(&self) -> Option<Arc<str>> {
        match &self.code {
            Code::Handler(handler) => Some(handler.id.clone()),
            Code::Functions(_) => None,
        }
    }

    fn tell(&self) {
        let elapsed = PERIOD * LOOKS;
        let happening = match &self.code {
            Code::Handler(handler) => CallHappening::BlocksThread { handler: handler.clone(), elapsed },
            Code::Functions(code) => CallHappening::BlocksOperator { code: code.clone(), elapsed },
        };
        let tell = || report(&self.logger, &happening);
        match &self.dispatch {
            Some(dispatch) => tracing::dispatcher::with_default(dispatch, tell),
            None => tell(),
        }
    }
}

// === impl Watchdog ===

impl Watchdog {
    fn add(&'static self, call: Arc<Call>) -> usize {
        let mut state = self.lock();
        match state.thread {
            Thread::Awake => {}
            Thread::Asleep => self.woken.notify_one(),
            Thread::Absent => {
                let thread = std::thread::Builder::new().name("watchdog".to_owned());
                // Handlers are not observed without the thread; a process that cannot start one has greater problems.
                let _ = thread.spawn(|| self.watch());
            }
        }
        state.thread = Thread::Awake;
        state.add(call)
    }

    fn remove(&self, slot: usize) {
        let mut state = self.lock();
        state.slots[slot] = None;
        state.free.push(slot);
    }

    fn watch(&self) {
        let mut told = HashSet::new();
        let mut idle = 0;
        let mut state = self.lock();
        loop {
            let waited = self.woken.wait_timeout(state, PERIOD);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            idle = if state.is_empty() { idle + 1 } else { 0 };
            if idle >= IDLE {
                idle = 0;
                state.rest();
                while state.thread == Thread::Asleep {
                    let woken = self.woken.wait(state);
                    state = woken.unwrap_or_else(PoisonError::into_inner);
                }
                continue;
            }
            let blocking = state.look();
            if blocking.is_empty() {
                continue;
            }
            drop(state);
            for call in blocking {
                if told.len() >= MEMORY {
                    told.clear();
                }
                if told.insert((call.handler(), call.uid.clone())) {
                    call.tell();
                }
            }
            state = self.lock();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl State ===

impl State {
    fn add(&mut self, call: Arc<Call>) -> usize {
        let slot = Some(Slot { call, poll: Poll::default() });
        if let Some(free) = self.free.pop() {
            self.slots[free] = slot;
            return free;
        }
        self.slots.push(slot);
        self.slots.len() - 1
    }

    fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    /// Puts the thread to sleep, since no call has been in progress for a while.
    fn rest(&mut self) {
        self.thread = Thread::Asleep;
        self.slots = Vec::new();
        self.free = Vec::new();
    }

    /// Returns the calls whose current poll has just reached the limit.
    fn look(&mut self) -> Vec<Arc<Call>> {
        let mut blocking = Vec::new();
        for slot in self.slots.iter_mut().flatten() {
            let polls = slot.call.polls.load(Ordering::Relaxed);
            if slot.poll.look(polls) == Some(LOOKS) {
                blocking.push(slot.call.clone());
            }
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
