//! Which Kubernetes Events are posted, which only make others count more, and which are too many.
//!
//! The same Event about the same object is posted once, and counted: a series, whose count is told soon at first, then once a minute. So is
//! each of a hundred retries that fail alike. A series that has been quiet for six minutes is over: the next such Event is posted anew.
//! Different Events about one object are posted 25 at a time, and one more every five minutes. Pure: the time is an argument.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::object::posted_event::PostedEvent;

/// A series ends when nothing was added for so long.
const QUIET: Duration = Duration::from_secs(360);
/// The first pause between two tellings of a count; doubled with each.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// So many Events about an object may come at a time.
const BURST: u32 = 25;
/// One more may come after each such time.
const REFILL: Duration = Duration::from_secs(300);
/// So many series are remembered, and so many objects with Events of late. Of more, those that were longest ago are forgotten.
const MOST: usize = 4_096;

/// All series that go on.
#[derive(Debug, Default)]
pub(crate) struct EventSeries {
    series: HashMap<u64, Series>,
    /// By the object.
    budgets: HashMap<u64, Budget>,
    /// When those that are over were last forgotten.
    forgotten: Option<Timestamp>,
}

/// How an Event is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is to be posted.
    Post,
    /// It is one more of a series.
    Counted,
    /// There are too many about its object.
    TooMany,
}

/// A count that is to be told to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SeriesUpdate {
    pub(crate) key: u64,
    pub(crate) namespace: String,
    /// Of the Event that is there.
    pub(crate) name: String,
    pub(crate) count: u32,
    pub(crate) last_observed: Timestamp,
}

#[derive(Debug)]
struct Series {
    namespace: String,
    /// `None` until the server has taken the first one.
    name: Option<String>,
    count: u32,
    /// The count that the server has.
    told: u32,
    last_observed: Timestamp,
    pause: Duration,
    /// No telling before that.
    next: Timestamp,
}

/// The Events that may still be posted about an object.
#[derive(Debug)]
struct Budget {
    left: u32,
    refilled: Timestamp,
}

impl EventSeries {
    /// Take in an Event.
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

    /// The server has taken the first Event of a series, under that name.
    pub(crate) fn posted(&mut self, key: u64, name: &str) {
        if let Some(series) = self.series.get_mut(&key) {
            series.name = Some(name.to_owned());
        }
    }

    /// The series is not on the server, or not any more: such an Event is posted anew.
    pub(crate) fn forget(&mut self, key: u64) {
        self.series.remove(&key);
    }

    /// A count that is to be told now; at the end of the operator, each that is not told.
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

    /// When the next count is to be told, where there is one.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        let series = self.series.values();
        let untold = series.filter(|it| it.name.is_some() && !it.is_told());
        untold.map(|it| it.next).min()
    }

    /// Where there is much to look at, seldom.
    fn forget_what_is_over(&mut self, now: Timestamp) {
        if self
            .forgotten
            .is_some_and(|at| elapsed(at, now) < LONGEST_PAUSE)
        {
            return;
        }
        self.forgotten = Some(now);
        self.series
            .retain(|_, it| !it.is_over(now) || !it.is_told());
        self.budgets.retain(|_, it| {
            it.refill(now);
            it.left < BURST
        });
    }

    /// Whether one more may be posted about the object.
    fn spend(&mut self, object: u64, now: Timestamp) -> bool {
        make_room(&mut self.budgets, |it| it.refilled);
        let budget = self.budgets.entry(object).or_insert(Budget {
            left: BURST,
            refilled: now,
        });
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

/// Forget the oldest quarter where no more are remembered.
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
