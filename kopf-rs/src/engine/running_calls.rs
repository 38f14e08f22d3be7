//! Calls of daemons and timers while they run: each with its stop flag, and a way to cut it off.
//!
//! Promises that one that is to end in memory, where no object waits for it, is told, cut off and waited for within bounds. Must not know what
//! a call comes to.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::engine::report::report;
use crate::handler::definition::Handler;
use crate::handler::live::Live;
use crate::handler::logger::Logger;
use crate::handler::stopped::{StopReason, Stopped};
use crate::happening::Happening;
use crate::happening::background::{Background, Exit};
use crate::happening::handling::Handling;

/// One call of a daemon or timer.
#[derive(Debug)]
pub(crate) struct RunningCall {
    pub(crate) number: u64,
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
}

/// All of them, of all objects.
#[derive(Debug, Default)]
pub(crate) struct RunningCalls(Mutex<Calls>);

#[derive(Debug, Default)]
struct Calls {
    running: BTreeMap<u64, Arc<RunningCall>>,
    next: u64,
}

impl RunningCalls {
    /// A call that is about to begin.
    pub(crate) fn begin(
        &self,
        handler: Arc<Handler>,
        logger: Logger,
        (stopped, live): (Stopped, Live),
    ) -> Arc<RunningCall> {
        let mut calls = self.lock();
        calls.next += 1;
        let call = Arc::new(RunningCall {
            number: calls.next,
            handler,
            stopped,
            live,
            logger,
            cancelled: CancellationToken::new(),
            abandoned: CancellationToken::new(),
            ended: CancellationToken::new(),
        });
        calls.running.insert(call.number, call.clone());
        call
    }

    /// It has ended.
    pub(crate) fn end(&self, call: &RunningCall) {
        self.lock().running.remove(&call.number);
        call.stopped.set(StopReason::DONE);
        call.ended.cancel();
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
    /// The longest that [`end`](Self::end) takes.
    pub(crate) fn longest_end(&self, grace: Duration) -> Duration {
        let (backoff, timeout) = self.forced();
        let backoff = backoff.unwrap_or_default();
        let forced = timeout.unwrap_or(grace.saturating_mul(2));
        backoff.saturating_add(forced)
    }

    /// Make it end, where nothing waits for it but this: for as long as its options say, or for a while before and after it is cut off.
    pub(crate) async fn end(&self, reason: StopReason, grace: Duration) {
        self.set(reason, Exit::Told(reason));
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
        let exits = Handling::Background(Background::Exits { handler, exit });
        report(&self.logger, &Happening::Handling(exits));
    }
}
