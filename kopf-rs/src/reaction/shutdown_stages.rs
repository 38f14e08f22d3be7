//! Ends a daemon stage by stage: a stop signal, a grace period, cancellation, and finally abandoning it.
//!
//! Must not know why the daemon is to end, or which component executes the stages.

use std::time::Duration;

use jiff::Timestamp;

use crate::handler::stopped::StopReason;
use crate::handler::timing::Timing;
use crate::happening::handling::Exit;
use crate::reaction::limits::since;

/// The progress of ending a daemon.
#[derive(Clone, Debug)]
pub(super) struct Exiting {
    since: Timestamp,
    /// The reasons that were signalled.
    reason: StopReason,
    /// The time of the next check.
    next: Option<Timestamp>,
    /// True if the engine performs the stages: the object was not watched for a while, or the operator ends.
    is_seen_to: bool,
}

/// The stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It may end by itself until this long after the first signal.
    Signalled(Duration),
    /// It is cancelled, and waited for until this long after the first signal.
    Cancelled(Duration),
    /// It is not waited for any more.
    Abandoned,
    /// It is never cancelled.
    Awaited,
}

/// One action.
#[derive(Debug)]
pub(super) enum Order {
    Signal(StopReason),
    Cancel,
    Tell(Exit),
}

/// The circumstances of a check.
#[derive(Clone, Copy)]
pub(super) struct Look {
    pub(super) now: Timestamp,
    /// The reporting interval for daemons that are never cancelled, unless the handler specifies one.
    pub(super) polling: Duration,
    /// True if the deletion of the object waits for the daemon.
    pub(super) is_waited_for: bool,
}

/// A daemon that is never cancelled is first reported after this long, or after its polling interval if that is shorter.
const FIRST_LOOK: Duration = Duration::from_secs(10);

/// Returns the stage at this age of the first signal.
pub(crate) fn stage(timing: Option<&Timing>, age: Duration) -> Stage {
    let backoff = timing.and_then(|it| it.cancellation_backoff);
    let timeout = timing.and_then(|it| it.cancellation_timeout);
    let forced = backoff.unwrap_or_default();
    match (backoff, timeout) {
        (Some(backoff), _) if age < backoff => Stage::Signalled(backoff),
        (_, Some(timeout)) if age < forced.saturating_add(timeout) => {
            Stage::Cancelled(forced.saturating_add(timeout))
        }
        (_, Some(_)) => Stage::Abandoned,
        (_, None) => Stage::Awaited,
    }
}

impl Exiting {
    pub(super) fn begun(now: Timestamp) -> Self {
        Self { since: now, reason: StopReason::NONE, next: None, is_seen_to: false }
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.reason.contains(StopReason::DAEMON_ABANDONED)
    }

    pub(super) fn next_look(&self) -> Option<Timestamp> {
        self.next
    }

    /// Leaves the further stages to the engine.
    pub(super) fn leave_to_engine(&mut self, reason: StopReason) {
        self.note(reason);
        self.is_seen_to = true;
        self.next = None;
    }

    fn note(&mut self, reason: StopReason) {
        self.reason = self.reason | reason;
    }

    /// Returns the actions to take now.
    pub(super) fn look(&mut self, timing: Option<&Timing>, reason: StopReason, look: Look) -> Vec<Order> {
        let mut orders = Vec::new();
        if self.tell(reason, &mut orders) {
            orders.push(Order::Tell(Exit::Told { reason }));
        }
        if self.is_seen_to {
            return orders;
        }
        let age = since(self.since, look.now);
        let stage = stage(timing, age);
        let at = |age: Duration| self.since.checked_add(age).ok();
        match stage {
            Stage::Signalled(until) => {
                self.next = at(until);
                if self.tell(StopReason::DAEMON_SIGNALLED, &mut orders) {
                    orders.push(Order::Tell(Exit::Signalled));
                }
            }
            Stage::Cancelled(until) => {
                self.next = at(until);
                if self.tell(StopReason::DAEMON_CANCELLED, &mut orders) {
                    orders.push(Order::Cancel);
                    orders.push(Order::Tell(Exit::Cancelled));
                }
            }
            Stage::Abandoned => {
                self.next = None;
                if self.tell(StopReason::DAEMON_ABANDONED, &mut orders) {
                    orders.push(Order::Cancel);
                    orders.push(Order::Tell(Exit::Abandoned));
                }
            }
            Stage::Awaited => {
                let polling = timing.and_then(|it| it.cancellation_polling);
                let polling = polling.unwrap_or(look.polling);
                if self.is_time(look.now) {
                    orders.push(Order::Tell(Exit::Awaited {
                        age,
                        next: polling,
                        deletion: look.is_waited_for,
                    }));
                    self.next = look.now.checked_add(polling).ok();
                } else if self.next.is_none() {
                    self.next = look.now.checked_add(polling.min(FIRST_LOOK)).ok();
                }
            }
        }
        orders
    }

    fn is_time(&self, now: Timestamp) -> bool {
        self.next.is_some_and(|next| next <= now)
    }

    /// Adds a reason, and returns true if it is new.
    fn tell(&mut self, reason: StopReason, orders: &mut Vec<Order>) -> bool {
        if self.reason.contains(reason) {
            return false;
        }
        self.note(reason);
        orders.push(Order::Signal(reason));
        true
    }
}
