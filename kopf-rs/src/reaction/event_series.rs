//! Decides which Kubernetes Events to post, which to count in a series, and which to drop by a rate limit.
//!
//! Equal Events about the same object are posted once and then counted as a series. The count is updated soon at first, then once per minute.
//! Retries that fail with the same message therefore form one series. A series ends after six minutes of silence, and the next equal Event is
//! posted anew. For different Events about one object, the rate limit is a burst of 25, plus one Event every five minutes. Pure: the time is
//! a parameter.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::object::posted_event::PostedEvent;

/// A series ends after this long without an Event.
const QUIET: Duration = Duration::from_secs(360);
/// The first pause between two updates of a count. It doubles with each update.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause between updates.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The maximum burst of Events about an object.
const BURST: u32 = 25;
/// The interval after which one more Event is allowed.
const REFILL: Duration = Duration::from_secs(300);
/// The maximum number of remembered series, and of objects with recent Events. The oldest are forgotten first.
const MOST: usize = 4_096;

/// All current series.
#[derive(Debug, Default)]
pub(crate) struct EventSeries {
    series: HashMap<u64, Series>,
    /// By the hash of the object.
    budgets: HashMap<u64, Budget>,
    /// The time when ended series were last removed.
    forgotten: Option<Timestamp>,
}

/// The decision about an Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Post the Event.
    Post,
    /// Count it in a series.
    Counted,
    /// Drop it: there are too many Events about its object.
    TooMany,
}

/// A count to send to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SeriesUpdate {
    pub(crate) key: u64,
    pub(crate) namespace: String,
    /// The name of the existing Event.
    pub(crate) name: String,
    pub(crate) count: u32,
    pub(crate) last_observed: Timestamp,
}

#[derive(Debug)]
struct Series {
    namespace: String,
    /// `None` until the server has stored the first Event.
    name: Option<String>,
    count: u32,
    /// The count that the server has.
    told: u32,
    last_observed: Timestamp,
    pause: Duration,
    /// The earliest time of the next update.
    next: Timestamp,
}

/// The number of Events that may still be posted about an object.
#[derive(Debug)]
struct Budget {
    left: u32,
    refilled: Timestamp,
}

impl EventSeries {
    /// Records an Event, and decides what to do with it.
    pub(crate) fn observe(&mut self, event: &PostedEvent, now: Timestamp) -> Verdict {
        let key = event.key();
        if let Some(series) = self.series.get_mut(&key)
            && !(series.is_over(now) && series.is_told())
        {
            series.count = series.count.saturating_add(1);
            series.last_observed = now;
            return Verdict::Counted;
        }
        self.forget_what_is_over(now);
        if !self.spend(event.regarding.key(), now) {
            return Verdict::TooMany;
        }
        let series = Series {
            namespace: event.regarding.namespace().to_owned(),
            name: None,
            count: 1,
            told: 1,
            last_observed: now,
            pause: FIRST_PAUSE,
            next: now,
        };
        make_room(&mut self.series, |it| it.last_observed);
        self.series.insert(key, series);
        Verdict::Post
    }

    /// Records that the server has stored the first Event of a series under that name.
    pub(crate) fn posted(&mut self, key: u64, name: &str) {
        if let Some(series) = self.series.get_mut(&key) {
            series.name = Some(name.to_owned());
        }
    }

    /// Forgets a series that is missing on the server, so that the next such Event is posted anew.
    pub(crate) fn forget(&mut self, key: u64) {
        self.series.remove(&key);
    }

    /// Returns a count that is due for an update. At the end of the operator, every unsent count is due.
    pub(crate) fn due(&mut self, now: Timestamp, is_end: bool) -> Option<SeriesUpdate> {
        let is_due = |series: &Series| is_end || series.next <= now;
        let mut untold = self.series.iter_mut().filter(|(_, it)| !it.is_told());
        let (key, series) = untold.find(|(_, it)| it.name.is_some() && is_due(it))?;
        series.told = series.count;
        series.next = now.checked_add(series.pause).unwrap_or(Timestamp::MAX);
        series.pause = (series.pause * 2).min(LONGEST_PAUSE);
        Some(SeriesUpdate {
            key: *key,
            namespace: series.namespace.clone(),
            name: series.name.clone()?,
            count: series.count,
            last_observed: series.last_observed,
        })
    }

    /// Returns the time of the next update, if any.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        let series = self.series.values();
        let untold = series.filter(|it| it.name.is_some() && !it.is_told());
        untold.map(|it| it.next).min()
    }

    /// Removes ended series, but rarely, because it iterates over all of them.
    fn forget_what_is_over(&mut self, now: Timestamp) {
        if self.forgotten.is_some_and(|at| elapsed(at, now) < LONGEST_PAUSE) {
            return;
        }
        self.forgotten = Some(now);
        self.series.retain(|_, it| !it.is_over(now) || !it.is_told());
        self.budgets.retain(|_, it| {
            it.refill(now);
            it.left < BURST
        });
    }

    /// Returns true if one more Event may be posted about the object.
    fn spend(&mut self, object: u64, now: Timestamp) -> bool {
        make_room(&mut self.budgets, |it| it.refilled);
        let budget = self.budgets.entry(object).or_insert(Budget { left: BURST, refilled: now });
        budget.refill(now);
        let may = budget.left > 0;
        budget.left = budget.left.saturating_sub(1);
        may
    }
}

impl Series {
    fn is_told(&self) -> bool {
        self.count == self.told
    }

    fn is_over(&self, now: Timestamp) -> bool {
        elapsed(self.last_observed, now) >= QUIET
    }
}

impl Budget {
    fn refill(&mut self, now: Timestamp) {
        let whole = elapsed(self.refilled, now).as_secs() / REFILL.as_secs();
        let added = u32::try_from(whole).unwrap_or(u32::MAX);
        if added > 0 {
            self.left = self.left.saturating_add(added).min(BURST);
            let added = REFILL.saturating_mul(added);
            self.refilled = self.refilled.checked_add(added).unwrap_or(now);
        }
    }
}

/// Removes the oldest quarter if the limit is reached.
fn make_room<T>(all: &mut HashMap<u64, T>, time: impl Fn(&T) -> Timestamp) {
    if all.len() < MOST {
        return;
    }
    let mut times: Vec<Timestamp> = all.values().map(&time).collect();
    times.sort_unstable();
    let oldest = times[MOST / 4];
    let mut left = MOST / 4;
    all.retain(|_, it| {
        let is_forgotten = left > 0 && time(it) <= oldest;
        left -= usize::from(is_forgotten);
        !is_forgotten
    });
}

fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}
