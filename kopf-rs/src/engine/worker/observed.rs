//! Reports the handling of an object to metrics and traces.

use tokio::time::Instant;
use tracing::Span;

use crate::engine::worker::Worker;
use crate::happening::spans;
use crate::reaction::plan::Plan;

impl Worker {
    /// Notes that a state which arrived at this time is being handled.
    pub(super) fn meter_state(&mut self, arrived: Instant) {
        let meter = self.shared().invoker.meter();
        if let Some(meter) = meter {
            meter.state_taken(arrived.elapsed());
        }
        if meter.is_some() || spans::are_collected() {
            self.changed.get_or_insert(arrived);
        }
    }

    /// Notes that all handlers of a change are done.
    pub(super) fn meter_change(&mut self) {
        if let Some(changed) = self.changed.take()
            && let Some(meter) = self.shared().invoker.meter()
        {
            meter.change_handled(&self.kind.resource, changed.elapsed());
        }
    }

    /// Returns the span of a cycle that calls handlers. Cycles without calls have no trace, since they would hide the others.
    pub(super) fn span_of(&self, plan: &Plan) -> Span {
        let is_idle = plan.changing.is_empty() && plan.watching.is_empty();
        if is_idle || !spans::are_collected() {
            return Span::none();
        }
        let age = self.changed.map(|changed| changed.elapsed());
        let is_retry = plan.changing.iter().any(|call| call.attempt.retry > 0);
        spans::cycle(&self.kind.resource, &self.context.about, age, is_retry)
    }
}
