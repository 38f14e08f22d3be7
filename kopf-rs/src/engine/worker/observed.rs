//! What figures and traces are told of an object's handling.

use tokio::time::Instant;
use tracing::Span;

use crate::engine::worker::Worker;
use crate::happening::spans;
use crate::reaction::planned::Plan;

impl Worker {
    /// A state that has come in then is taken up.
    pub(super) fn meter_state(&mut self, arrived: Instant) {
        let meter = self.shared().invoker.meter();
        if let Some(meter) = meter {
            meter.state_taken(arrived.elapsed());
        }
        if meter.is_some() || spans::are_collected() {
            self.changed.get_or_insert(arrived);
        }
    }

    /// All handlers of a change are done.
    pub(super) fn meter_change(&mut self) {
        if let Some(changed) = self.changed.take()
            && let Some(meter) = self.shared().invoker.meter()
        {
            meter.change_handled(&self.kind.resource, changed.elapsed());
        }
    }

    /// The span of a cycle that calls handlers. What calls none is no trace: it would hide the others.
    pub(super) fn span_of(&self, plan: &Plan) -> Span {
        let is_idle = plan.changing.is_empty() && plan.watching.is_empty();
        if is_idle || !spans::are_collected() {
            return Span::none();
        }
        let age = self.changed.map(|changed| changed.elapsed());
        spans::cycle(&self.kind.resource, &self.context.about, age)
    }
}
