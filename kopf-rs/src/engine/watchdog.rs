//! A thread that sees which async handlers block theirs, and which functions of users block the operator's own, and tells of them while
//! they do: what else should is blocked, too.
//!
//! A poll costs two stores and the count of a reference, and no lock; a call takes the lock when it begins and when it ends. Where nothing
//! runs, the thread sleeps. It measures real time: blocked threads know no other. Must not know why a handler is called.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::{Dispatch, Span};

use crate::engine::report::report;
use crate::handler::definition::{Handler, HandlerCall};
use crate::handler::logger::Logger;
use crate::happening::Happening;
use crate::happening::user_code::UserCode;

/// How often polls are looked at.
const PERIOD: Duration = Duration::from_millis(250);
/// A poll that looks the same so many times in a row lasts for too long: a second.
const LOOKS: u32 = 4;
/// So many looks at nothing, and the thread sleeps until it is woken.
const IDLE: u32 = 40;
/// So many pairs of handler and object are remembered as told.
const MEMORY: usize = 1_000;

/// An async call in flight, or functions of users on the operator's own thread. Dropping it ends its being watched.
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
    /// Where the lines of this call go: the watchdog's thread has no choice of its own.
    dispatch: Option<Dispatch>,
}

/// The user code that is watched.
enum Code {
    Handler(Arc<Handler>),
    /// Some of these.
    Functions(Arc<[UserCode]>),
}

/// A part of a call that runs on this thread.
struct Polling<'a> {
    call: &'a Call,
    outer: Option<Arc<Call>>,
}

/// All calls in flight.
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

/// The poll that the last look has met: the counter then, and for how many periods it has been the same.
#[derive(Default)]
struct Poll(Option<(u64, u32)>);

#[derive(PartialEq)]
enum Thread {
    Absent,
    Awake,
    Asleep,
}

static WATCHDOG: Watchdog = Watchdog {
    state: Mutex::new(State {
        slots: Vec::new(),
        free: Vec::new(),
        thread: Thread::Absent,
    }),
    woken: Condvar::new(),
};

thread_local! {
    /// The call that is polled on this thread; a sub-handler's within its parent's.
    static POLLED: RefCell<Option<Arc<Call>>> = const { RefCell::new(None) };
}

// === impl Watched ===

impl Watched {
    /// Watch a call that logs in `span`.
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

    /// Run a part of the call.
    pub(super) fn poll<T>(&self, part: impl FnOnce() -> T) -> T {
        let outer = POLLED.replace(Some(self.call.clone()));
        if let Some(outer) = &outer {
            outer.turn();
        }
        self.call.turn();
        let _polling = Polling {
            call: &self.call,
            outer,
        };
        part()
    }
}

/// Run a part that may call such functions of users on this thread, the operator's own. Within a handler's call, they are its business.
pub(super) fn watched<T>(
    code: Vec<UserCode>,
    logger: &Logger,
    uid: &str,
    part: impl FnOnce() -> T,
) -> T {
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
    /// A poll begins or ends. A call is polled by one thread at a time: so this needs no exchange.
    fn turn(&self) {
        let polls = self.polls.load(Ordering::Relaxed);
        self.polls.store(polls.wrapping_add(1), Ordering::Relaxed);
    }

    /// The handler, where it is one's call.
    fn handler(&self) -> Option<Arc<str>> {
        match &self.code {
            Code::Handler(handler) => Some(handler.id.clone()),
            Code::Functions(_) => None,
        }
    }

    fn tell(&self) {
        let elapsed = PERIOD * LOOKS;
        let happening = match &self.code {
            Code::Handler(handler) => Happening::BlocksThread {
                handler: handler.clone(),
                elapsed,
            },
            Code::Functions(code) => Happening::BlocksOperator {
                code: code.clone(),
                elapsed,
            },
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
                // Without it, handlers are not watched; a process that can have no thread has other worries.
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
        let slot = Some(Slot {
            call,
            poll: Poll::default(),
        });
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

    /// Nothing is in flight, and has not been for a while.
    fn rest(&mut self) {
        self.thread = Thread::Asleep;
        self.slots = Vec::new();
        self.free = Vec::new();
    }

    /// The calls whose current poll has lasted for too long since this look.
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
    /// For how many periods the current poll has lasted, where there is one.
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
        let looks: Vec<_> = [0, 1, 1, 1, 2, 2, 5, 7, 7, 8]
            .into_iter()
            .map(|polls| poll.look(polls))
            .collect();
        assert_eq!(
            looks,
            [
                None,
                Some(0),
                Some(1),
                Some(2),
                None,
                None,
                Some(0),
                Some(0),
                Some(1),
                None
            ]
        );
    }
}
