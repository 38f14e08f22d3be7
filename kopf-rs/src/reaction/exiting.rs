//! The end of a daemon that is to end, stage by stage: it is told, it may end by itself, it is cut off, it is not waited for any more.
//!
//! Must not know why it is to end, nor who does what is said here.

use std::time::Duration;

use jiff::Timestamp;

use crate::handler::stopped::StopReason;
use crate::handler::timing::Timing;
use crate::happening::background::Exit;
use crate::reaction::member::since;

/// How far the end of a daemon has come.
#[derive(Clone, Debug)]
pub(super) struct Exiting {
    since: Timestamp,
    /// What it was told.
    reason: StopReason,
    /// When to look again.
    next: Option<Timestamp>,
    /// The engine goes through the stages by itself: the object was not watched for a while, or the operator ends.
    is_seen_to: bool,
}

/// The stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It may end by itself until it has been told for so long.
    Signalled(Duration),
    /// It is cut off, and waited for until it has been told for so long.
    Cancelled(Duration),
    /// It is not waited for any more.
    Abandoned,
    /// Nothing cuts it off.
    Awaited,
}

/// One thing to be done about it.
#[derive(Debug)]
pub(super) enum Order {
    Signal(StopReason),
    Cancel,
    Tell(Exit),
}

/// When it is looked at.
#[derive(Clone, Copy)]
pub(super) struct Look {
    pub(super) now: Timestamp,
    /// How often is told of what nothing cuts off, where the handler does not say.
    pub(super) polling: Duration,
    /// The deletion of the object waits for it.
    pub(super) is_waited_for: bool,
}

/// What nothing cuts off is told of for the first time after that, or when it is polled if that is sooner.
const FIRST_LOOK: Duration = Duration::from_secs(10);

/// The stage that is reached so long after it was told to end.
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
        Self {
            since: now,
            reason: StopReason::NONE,
            next: None,
            is_seen_to: false,
        }
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.reason.contains(StopReason::DAEMON_ABANDONED)
    }

    pub(super) fn next_look(&self) -> Option<Timestamp> {
        self.next
    }

    /// The engine tells it, and sees to its end.
    pub(super) fn leave_to_engine(&mut self, reason: StopReason) {
        self.note(reason);
        self.is_seen_to = true;
        self.next = None;
    }

    fn note(&mut self, reason: StopReason) {
        self.reason = self.reason | reason;
    }

    /// What is to be done now.
    pub(super) fn look(
        &mut self,
        timing: Option<&Timing>,
        reason: StopReason,
        look: Look,
    ) -> Vec<Order> {
        let mut orders = Vec::new();
        if self.tell(reason, &mut orders) {
            orders.push(Order::Tell(Exit::Told(reason)));
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

    /// Tell it one more reason. Whether that is new.
    fn tell(&mut self, reason: StopReason, orders: &mut Vec<Order>) -> bool {
        if self.reason.contains(reason) {
            return false;
        }
        self.note(reason);
        orders.push(Order::Signal(reason));
        true
    }
}
