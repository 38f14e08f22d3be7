//! The stop flag of daemons and timers: why the function should stop, and how it waits for that.
//!
//! This module depends on no runtime: the creator of a flag passes a sleep function.

use std::fmt;
use std::future::poll_fn;
use std::ops::BitOr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// The stop flag of a daemon or timer. Once it is set, the function should return soon.
///
/// The operator sets it when the object is deleted, when the object no longer passes the filters, and when the
/// operator exits. An `async fn` awaits the flag; a blocking `fn` waits for it. The operator cancels an `async fn`
/// that ignores the flag at its next `await`; it cannot cancel a blocking function.
///
/// ```
/// use std::time::Duration;
///
/// use kopf_rs::prelude::*;
///
/// #[daemon("kopfexamples")]
/// async fn ping(name: &str, stopped: &Stopped) {
///     while !stopped.wait_for(Duration::from_secs(5)).await {
///         info!("{name} is still there");
///     }
///     info!("{name} is not looked after any more: {:?}", stopped.reason());
/// }
///
/// #[daemon("kopfexamples")]
/// fn ping_in_a_thread(name: &str, stopped: &Stopped) {
///     while !stopped.wait_blocking(Duration::from_secs(5)) {
///         info!("{name} is still there");
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// // In a unit test:
/// let stopped = Stopped::new();
/// stopped.set(StopReason::RESOURCE_DELETED);
/// ping("one", &stopped).await;
/// # });
/// ```
#[derive(Clone)]
pub struct Stopped(Arc<Flag>);

/// Why a daemon or timer should stop, and how far the shutdown has progressed: a set of reasons, which accumulate.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct StopReason(u16);

struct Flag {
    state: Mutex<State>,
    changed: Condvar,
    sleep: Option<Sleep>,
}

#[derive(Default)]
struct State {
    reason: StopReason,
    /// The waiting tasks, in order of arrival.
    wakers: Vec<(u64, Waker)>,
    next: u64,
}

/// Creates a future that completes after a delay.
pub(crate) type Sleep = fn(Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// Removes the waker when the wait is dropped.
struct Waiting<'a> {
    flag: &'a Flag,
    place: Option<u64>,
}

impl Stopped {
    /// Creates a flag that is not set.
    pub(crate) fn unset(sleep: Option<Sleep>) -> Self {
        Self(Arc::new(Flag { state: Mutex::default(), changed: Condvar::new(), sleep }))
    }

    /// Returns whether the function should stop.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.reason().is_some()
    }

    /// Returns why the function should stop; `None` if it should not.
    #[must_use]
    pub fn reason(&self) -> Option<StopReason> {
        let reason = self.0.state.lock().reason;
        (reason != StopReason::NONE).then_some(reason)
    }

    /// Waits until the function should stop. Returns the reason.
    pub async fn wait(&self) -> StopReason {
        let mut waiting = Waiting { flag: &self.0, place: None };
        poll_fn(|context| waiting.poll(context)).await
    }

    /// Waits until the function should stop, for at most this long. Returns whether it should stop.
    ///
    /// A timeout of several centuries or more never expires.
    pub async fn wait_for(&self, longest: Duration) -> bool {
        let Some(sleep) = self.0.sleep else {
            return self.is_set();
        };
        let mut time = sleep(longest);
        let mut set = pin!(self.wait());
        poll_fn(|context| {
            if set.as_mut().poll(context).is_ready() {
                return Poll::Ready(true);
            }
            time.as_mut().poll(context).map(|()| self.is_set())
        })
        .await
    }

    /// Like [`wait_for`](Self::wait_for), but blocks the thread: for a blocking `fn`.
    #[must_use]
    pub fn wait_blocking(&self, longest: Duration) -> bool {
        let mut state = self.0.state.lock();
        let is_unset = |state: &mut State| state.reason == StopReason::NONE;
        self.0.changed.wait_while_for(&mut state, is_unset, longest);
        state.reason != StopReason::NONE
    }

    /// Sets the flag, or adds a reason to it. For unit tests: a handler that sets its own flag affects nothing else.
    pub fn set(&self, reason: StopReason) {
        if reason == StopReason::NONE {
            return;
        }
        let wakers = {
            let mut state = self.0.state.lock();
            state.reason = state.reason | reason;
            std::mem::take(&mut state.wakers)
        };
        self.0.changed.notify_all();
        for (_, waker) in wakers {
            waker.wake();
        }
    }
}

impl Waiting<'_> {
    fn poll(&mut self, context: &Context<'_>) -> Poll<StopReason> {
        let mut state = self.flag.state.lock();
        if state.reason != StopReason::NONE {
            return Poll::Ready(state.reason);
        }
        let waker = context.waker().clone();
        let place = *self.place.get_or_insert_with(|| {
            state.next += 1;
            state.next
        });
        match state.wakers.iter_mut().find(|(at, _)| *at == place) {
            Some((_, known)) => *known = waker,
            None => state.wakers.push((place, waker)),
        }
        Poll::Pending
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.flag.state.lock().wakers.retain(|(at, _)| *at != place);
        }
    }
}

impl fmt::Debug for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stopped").field(&self.reason()).finish()
    }
}

// === impl StopReason ===

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $bit:literal;)*) => {
        impl StopReason {
            $($(#[$doc])* pub const $name: Self = Self($bit);)*

            const NAMES: &[(Self, &str)] = &[$((Self::$name, stringify!($name))),*];
        }
    };
}

reasons! {
    /// The function has returned; notifies tasks that still hold the flag.
    DONE = 1;
    /// The object no longer passes the filters.
    FILTERS_MISMATCH = 2;
    /// The object was deleted, or is being deleted.
    RESOURCE_DELETED = 4;
    /// The operator is paused.
    OPERATOR_PAUSING = 8;
    /// The operator exits.
    OPERATOR_EXITING = 16;
    /// The function was asked to return: `cancellation_backoff` has started.
    DAEMON_SIGNALLED = 32;
    /// The function is cancelled at its next `await`: `cancellation_timeout` has started.
    DAEMON_CANCELLED = 64;
    /// The operator no longer waits for the function.
    DAEMON_ABANDONED = 128;
    /// The operator no longer watches the object, which may still exist: its kind is not served, or its namespace is
    /// out of scope.
    RESOURCE_UNWATCHED = 256;
}

impl StopReason {
    pub(crate) const NONE: Self = Self(0);

    /// Returns whether this set contains all reasons of `other`.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for StopReason {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = Self::NAMES.iter().filter(|(it, _)| self.contains(*it));
        let names: Vec<_> = set.map(|(_, name)| *name).collect();
        f.pad(&names.join("|"))
    }
}

impl fmt::Debug for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StopReason({self})")
    }
}

#[cfg(test)]
mod tests;
