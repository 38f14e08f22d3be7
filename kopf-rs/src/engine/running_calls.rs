//! Running calls of daemons and timers, each with its stop flag and a way to cut it off.
//!
//! Guarantees that a call which no object waits for is asked to end, cut off and awaited within bounds. Must not know outcomes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kopf_rs_schedule::HandlerKind;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::engine::reconcile_slots::Slot;
use crate::engine::report::report_counted;
use crate::handler::definition::Handler;
use crate::handler::live::Live;
use crate::handler::logger::Logger;
use crate::handler::stopped::{StopReason, Stopped};
use crate::happening::handling::{Exit, Handling};
use crate::object::key::Key;
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
    /// Cuts the call off.
    pub(crate) cancelled: CancellationToken,
    /// Ends the wait for the call.
    pub(crate) abandoned: CancellationToken,
    /// Cancelled when the call has ended.
    pub(crate) ended: CancellationToken,
    /// A task runs [`end`](Self::end) for the call.
    ends: AtomicBool,
    /// A task runs [`end_with_term`](Self::end_with_term) for the call.
    ends_with_term: AtomicBool,
    /// The concurrency slot of a level-triggered handler, held until the outcome is judged.
    _slot: Option<Slot>,
}

/// The running calls of all objects.
#[derive(Debug, Default)]
pub(crate) struct RunningCalls(Mutex<Calls>);

#[derive(Debug, Default)]
struct Calls {
    /// By object, then in the order of their start.
    running: BTreeMap<(Key, u64), Arc<RunningCall>>,
    next: u64,
}

impl RunningCalls {
    /// Registers a call that is about to begin, and returns it.
    pub(crate) fn begin(
        &self,
        (key, handler): (Key, Arc<Handler>),
        logger: Logger,
        (stopped, live): (Stopped, Live),
        slot: Option<Slot>,
    ) -> Arc<RunningCall> {
        let mut calls = self.0.lock();
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
            ends_with_term: AtomicBool::new(false),
            _slot: slot,
        });
        calls.running.insert(call.place(), call.clone());
        call
    }

    /// Notes that the call has ended.
    pub(crate) fn end(&self, call: &RunningCall) {
        self.0.lock().running.remove(&call.place());
        call.stopped.set(StopReason::DONE);
        call.ended.cancel();
    }

    /// Returns whether the object has a call of the handler. The call may belong to a former object with the same uid, which occurs after a
    /// restore from a backup.
    pub(crate) fn has(&self, key: &Key, handler: &Handler) -> bool {
        let calls = self.0.lock();
        let of_object = (key.clone(), 0)..=(key.clone(), u64::MAX);
        let mut of_object = calls.running.range(of_object);
        of_object.any(|(_, call)| is_same(&call.handler, handler))
    }

    /// Returns all running calls.
    pub(crate) fn all(&self) -> Vec<Arc<RunningCall>> {
        self.0.lock().running.values().cloned().collect()
    }
}

impl RunningCall {
    fn place(&self) -> (Key, u64) {
        (self.key.clone(), self.number)
    }

    /// Returns the longest time that [`end`](Self::end) takes.
    pub(crate) fn longest_end(&self, grace: Duration) -> Duration {
        let (backoff, timeout) = self.forced();
        let backoff = backoff.unwrap_or_default();
        let forced = timeout.unwrap_or(grace.saturating_mul(2));
        backoff.saturating_add(forced)
    }

    /// Asks the call to end.
    pub(crate) fn tell(&self, reason: StopReason) {
        self.set(reason, Exit::Told { reason });
    }

    /// Claims the task of ending the call. Returns `false` if another task has it.
    pub(crate) fn claim_shutdown(&self) -> bool {
        !self.ends.swap(true, Ordering::Relaxed)
    }

    /// Claims the task of ending the call before another instance may lead. Returns `false` if another task has it.
    pub(crate) fn begins_to_end_with_term(&self) -> bool {
        !self.ends_with_term.swap(true, Ordering::Relaxed)
    }

    /// Ends the call before another instance may lead, whatever its options say. A daemon may end by itself within the time `left`; all
    /// other calls are cut off at once. A blocking function cannot be cut off and is abandoned after `grace`.
    pub(crate) async fn end_with_term(&self, left: Duration, grace: Duration) {
        let is_daemon = self.handler.kind == HandlerKind::Daemon;
        if is_daemon && self.has_ended_within(left).await {
            return;
        }
        self.cut_off(grace).await;
    }

    /// Ends a call that has been asked to end and that no worker waits for: within the times of its options, or with `grace` before and
    /// after it is cut off.
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
        self.cut_off(timeout.unwrap_or(grace)).await;
    }

    async fn cut_off(&self, grace: Duration) {
        self.set(StopReason::DAEMON_CANCELLED, Exit::Cancelled);
        self.cancelled.cancel();
        if self.has_ended_within(grace).await {
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
        let timing = &self.handler.timing;
        (timing.cancellation_backoff, timing.cancellation_timeout)
    }

    /// Adds a reason to end, and reports it if it is new.
    fn set(&self, reason: StopReason, exit: Exit) {
        let known = self.stopped.reason().unwrap_or_default();
        if known.contains(reason) {
            return;
        }
        self.stopped.set(reason);
        let handler = self.handler.clone();
        // No metric counts exits.
        report_counted(None, &self.logger, &Handling::Exits { handler, exit });
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
        let registry =
            Registry::new().daemon("kopfexamples", daemon("d")).daemon("kopfexamples", daemon("other"));
        let [one, other] = registry.handlers() else {
            unreachable!("two are declared");
        };
        let (here, there) = (Key::of_uid("here"), Key::of_uid("there"));
        let calls = RunningCalls::default();
        let live = Live::new(Body::new(serde_json::Value::Null));
        let begun = calls.begin((here.clone(), one.clone()), Logger::default(), (Stopped::new(), live), None);
        assert!(calls.has(&here, one));
        assert!(!calls.has(&here, other) && !calls.has(&there, one));
        assert!(begun.claim_shutdown() && !begun.claim_shutdown());
        calls.end(&begun);
        assert!(!calls.has(&here, one) && calls.all().is_empty());
    }
}
