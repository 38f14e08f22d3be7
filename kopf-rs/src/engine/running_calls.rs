//! Calls of daemons and timers while they run: each with its stop flag, and a way to cut it off.
//!
//! Promises that one that is to end in memory, where no object waits for it, is told, cut off and waited for within bounds. Must not know what
//! a call comes to.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::engine::key::Key;
use crate::engine::reconcile_slots::Slot;
use crate::engine::report::report;
use crate::handler::definition::Handler;
use crate::handler::live::Live;
use crate::handler::logger::Logger;
use crate::handler::stopped::{StopReason, Stopped};
use crate::happening::Happening;
use crate::happening::background::{BackgroundHandling, Exit};
use crate::happening::handling::Handling;
use crate::reaction::background::is_same;

/// One call of a daemon or timer.
#[derive(Debug)]
pub(crate) struct RunningCall {
    pub(crate) number: u64,
    key: Key,
    pub(crate) handler: Arc<Handler>,
    pub(crate) stopped: Stopped,
    pub(crate) live: Live,
    pub(crate) logger: Logger,
    /// It is cut off.
    pub(crate) cancelled: CancellationToken,
    /// It is not waited for.
    pub(crate) abandoned: CancellationToken,
    /// It has ended.
    pub(crate) ended: CancellationToken,
    /// [`end`](Self::end) sees to its end.
    ends: AtomicBool,
    /// Of a level-triggered handler: until what has come of the call is judged.
    _slot: Option<Slot>,
}

/// All of them, of all objects.
#[derive(Debug, Default)]
pub(crate) struct RunningCalls(Mutex<Calls>);

#[derive(Debug, Default)]
struct Calls {
    /// By their object, and in the order of their begin.
    running: BTreeMap<(Key, u64), Arc<RunningCall>>,
    next: u64,
}

impl RunningCalls {
    /// A call that is about to begin.
    pub(crate) fn begin(
        &self,
        (key, handler): (Key, Arc<Handler>),
        logger: Logger,
        (stopped, live): (Stopped, Live),
        slot: Option<Slot>,
    ) -> Arc<RunningCall> {
        let mut calls = self.lock();
        calls.next += 1;
        let call = Arc::new(RunningCall {
            number: calls.next,
            key,
            handler,
            stopped,
            live,
            logger,
            cancelled: CancellationToken::new(),
            abandoned: CancellationToken::new(),
            ended: CancellationToken::new(),
            ends: AtomicBool::new(false),
            _slot: slot,
        });
        calls.running.insert(call.place(), call.clone());
        call
    }

    /// It has ended.
    pub(crate) fn end(&self, call: &RunningCall) {
        self.lock().running.remove(&call.place());
        call.stopped.set(StopReason::DONE);
        call.ended.cancel();
    }

    /// Whether the object has a call of the handler: one that has not ended yet may be of an object that was there before, with the same uid.
    pub(crate) fn has(&self, key: &Key, handler: &Handler) -> bool {
        let calls = self.lock();
        let of_object = (key.clone(), 0)..=(key.clone(), u64::MAX);
        let mut of_object = calls.running.range(of_object);
        of_object.any(|(_, call)| is_same(&call.handler, handler))
    }

    /// All that run now.
    pub(crate) fn all(&self) -> Vec<Arc<RunningCall>> {
        self.lock().running.values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunningCall {
    fn place(&self) -> (Key, u64) {
        (self.key.clone(), self.number)
    }

    /// The longest that [`end`](Self::end) takes.
    pub(crate) fn longest_end(&self, grace: Duration) -> Duration {
        let (backoff, timeout) = self.forced();
        let backoff = backoff.unwrap_or_default();
        let forced = timeout.unwrap_or(grace.saturating_mul(2));
        backoff.saturating_add(forced)
    }

    /// Tell it to end.
    pub(crate) fn tell(&self, reason: StopReason) {
        self.set(reason, Exit::Told(reason));
    }

    /// Whether nobody sees to its end yet; somebody does from now on.
    pub(crate) fn begins_to_end(&self) -> bool {
        !self.ends.swap(true, Ordering::Relaxed)
    }

    /// Make it end once it is told, where nothing waits for it but this: for as long as its options say, or for a while before and after it is
    /// cut off.
    pub(crate) async fn end(&self, grace: Duration) {
        let (backoff, timeout) = self.forced();
        if let Some(backoff) = backoff {
            self.set(StopReason::DAEMON_SIGNALLED, Exit::Signalled);
            if self.has_ended_within(backoff).await {
                return;
            }
        }
        if timeout.is_none() && self.has_ended_within(grace).await {
            return;
        }
        self.set(StopReason::DAEMON_CANCELLED, Exit::Cancelled);
        self.cancelled.cancel();
        if self.has_ended_within(timeout.unwrap_or(grace)).await {
            return;
        }
        self.set(StopReason::DAEMON_ABANDONED, Exit::Abandoned);
        self.abandoned.cancel();
    }

    async fn has_ended_within(&self, pause: Duration) -> bool {
        let ended = tokio::time::timeout(pause, self.ended.cancelled());
        ended.await.is_ok()
    }

    fn forced(&self) -> (Option<Duration>, Option<Duration>) {
        let timing = self.handler.background().map(|(_, timing)| timing);
        let backoff = timing.and_then(|it| it.cancellation_backoff);
        (backoff, timing.and_then(|it| it.cancellation_timeout))
    }

    /// One more reason to end. Told where it is new.
    fn set(&self, reason: StopReason, exit: Exit) {
        let known = self.stopped.reason().unwrap_or_default();
        if known.contains(reason) {
            return;
        }
        self.stopped.set(reason);
        let handler = self.handler.clone();
        let exits = Handling::Background(BackgroundHandling::Exits { handler, exit });
        report(&self.logger, &Happening::Handling(exits));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::registry::Registry;
    use crate::handler::registry::callback::handler;
    use crate::object::body::Body;

    #[test]
    fn a_call_counts_for_its_object_and_its_handler_until_it_has_ended() {
        let daemon = |id| handler(id, |_| async { Ok(()) });
        let registry = Registry::new()
            .daemon("kopfexamples", daemon("d"))
            .daemon("kopfexamples", daemon("other"));
        let [one, other] = registry.handlers() else {
            unreachable!("two are declared");
        };
        let (here, there) = (Key::of_uid("here"), Key::of_uid("there"));
        let calls = RunningCalls::default();
        let live = Live::new(Body::new(serde_json::Value::Null));
        let begun = calls.begin(
            (here.clone(), one.clone()),
            Logger::default(),
            (Stopped::new(), live),
            None,
        );
        assert!(calls.has(&here, one));
        assert!(!calls.has(&here, other) && !calls.has(&there, one));
        assert!(begun.begins_to_end() && !begun.begins_to_end());
        calls.end(&begun);
        assert!(!calls.has(&here, one) && calls.all().is_empty());
    }
}
