//! Records the calls of handlers in several instances, with their times.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kopf_rs::Context;
use tokio::time::Instant;

/// The calls with instance and time; each is recorded when it ends or is cut off.
#[derive(Clone, Default)]
pub(super) struct Journal(Arc<Mutex<Vec<Called>>>);

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Called {
    pub(super) instance: &'static str,
    pub(super) what: String,
    pub(super) begun: Instant,
    pub(super) ended: Instant,
}

/// A running call.
pub(super) struct Running {
    journal: Journal,
    instance: &'static str,
    what: String,
    begun: Instant,
}

impl Journal {
    pub(super) fn begin(&self, instance: &'static str, id: &str, context: &Context) -> Running {
        Running {
            journal: self.clone(),
            instance,
            what: format!("{id} {}", context.name()),
            begun: Instant::now(),
        }
    }

    pub(super) fn all(&self) -> Vec<Called> {
        self.0.lock().expect("nobody panics here").clone()
    }

    pub(super) fn of(&self, instance: &str) -> Vec<Called> {
        let mut all = self.all();
        all.retain(|it| it.instance == instance);
        all
    }

    /// Returns the call that ended last.
    pub(super) fn last(&self) -> Option<Called> {
        let all = self.0.lock().expect("nobody panics here");
        all.last().cloned()
    }

    /// Returns two calls for one object that ran at the same time in two instances.
    pub(super) fn overlap(&self) -> Option<[Called; 2]> {
        let mut running: Vec<Called> = Vec::new();
        for next in self.in_order() {
            running.retain(|it| it.ended > next.begun);
            let is_other = |it: &&Called| it.instance != next.instance && it.object() == next.object();
            if let Some(other) = running.iter().find(is_other) {
                return Some([other.clone(), next]);
            }
            running.push(next);
        }
        None
    }

    /// Returns the longest time without any call, and its end.
    pub(super) fn longest_gap(&self) -> (Duration, Instant) {
        let all = self.in_order();
        let first = all.first().expect("something is called").begun;
        let mut reached = first;
        let gaps = all.iter().map(|it| {
            let gap = it.begun.saturating_duration_since(reached);
            reached = reached.max(it.ended);
            (gap, it.begun)
        });
        gaps.max().unwrap_or((Duration::ZERO, first))
    }

    fn in_order(&self) -> Vec<Called> {
        let mut all = self.all();
        all.sort_by_key(|it| it.begun);
        all
    }
}

impl Called {
    pub(super) fn object(&self) -> &str {
        self.what.rsplit(' ').next().unwrap_or_default()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let called = Called {
            instance: self.instance,
            what: self.what.clone(),
            begun: self.begun,
            ended: Instant::now(),
        };
        let mut all = self.journal.0.lock().expect("nobody panics here");
        all.push(called);
    }
}
