//! Starts the tasks of daemons and timers, and ends them: one by one, all at the end of a term, all at the stop of the operator.
//!
//! Must not know when a call is due.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use crate::engine::running_calls::RunningCall;
use crate::engine::shared::Shared;
use crate::handler::stopped::StopReason;

impl Shared {
    pub(in crate::engine) fn spawn_call(&self, mut call: BoxFuture<'static, ()>) {
        let ended = self.ended.clone();
        self.calls.spawn(async move {
            tokio::select! {
                biased;
                () = ended.cancelled() => {}
                () = &mut call => {}
            }
        });
    }

    /// Ends a call without waiting for it. A repeated request only adds a reason.
    pub(in crate::engine) fn end_call(&self, call: Arc<RunningCall>, reason: StopReason) {
        call.tell(reason);
        if self.queue.stands_by() {
            if call.begins_to_end_with_term() {
                let (left, grace) = (self.setup.limits.handover, self.setup.limits.exit);
                self.spawn_call(async move { call.end_with_term(left, grace).await }.boxed());
            }
        } else if call.claim_shutdown() {
            let grace = self.setup.limits.exit;
            self.spawn_call(async move { call.end(grace).await }.boxed());
        }
    }

    /// Ends all work because another instance may lead soon and will repeat it. Ends daemons, timers and reconcilers directly, because the
    /// workers of their objects may be waiting for the server.
    pub(in crate::engine) fn end_term(&self) {
        self.cut_off_calls();
        for call in self.running.all() {
            self.end_call(call, StopReason::OPERATOR_PAUSING);
        }
    }

    /// Ends all running calls, and returns the longest time that this may take.
    pub(in crate::engine) fn end_all_calls(&self, reason: StopReason) -> Duration {
        let mut longest = Duration::ZERO;
        for call in self.running.all() {
            longest = longest.max(call.longest_end(self.setup.limits.exit));
            self.end_call(call, reason);
        }
        longest
    }
}
