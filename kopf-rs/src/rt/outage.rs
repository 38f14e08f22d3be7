//! Outages: when many tasks fail for the same reason, the begin and the end are reported once rather than by each task.
//!
//! Tasks that fail for the same reason join the outage of that name, each at most one, and leave it when they
//! succeed. This module guarantees that exactly one task begins an outage and exactly one ends it, that a small
//! outage is reported again when it grows after a while, that a large one is reported as over although a few tasks
//! keep failing for individual reasons, and that a dropped task leaves too. It does not know what fails or how
//! outages are reported.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// All current outages by name. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outages(Arc<Mutex<BTreeMap<Arc<str>, Ongoing>>>);

#[derive(Debug)]
struct Ongoing {
    since: Instant,
    /// The current number of members.
    members: usize,
    /// The number of members with individual reasons: they have failed again after another member had succeeded.
    alone: usize,
    /// The number of members that have left because they succeeded.
    recovered: usize,
    /// The number of tasks that have joined, or that remained when the outage was reported as over.
    joined: usize,
    /// The reported number of members, rounded down to a power of ten.
    told: usize,
    /// The time from which growth is reported.
    grows_from: Instant,
    wave: Wave,
}

/// Counts since the last time when all members had individual reasons, or there were none.
#[derive(Debug, Default)]
struct Wave {
    /// The number of members that have left.
    left: usize,
    /// The earliest time when one of those had joined.
    since: Option<Instant>,
    /// The maximum number of concurrent members.
    most: usize,
}

/// A member's state in its outage.
#[derive(Debug)]
struct Since {
    name: Arc<str>,
    joined: Instant,
    /// The number of members that had succeeded before this one joined.
    recovered: usize,
    is_alone: bool,
}

/// An outage is reported as over when its size has dropped by this factor and the rest has individual reasons.
const FEW: usize = 10;

/// Growth within this time after the begin is not reported separately.
const FRESH: Duration = Duration::from_secs(60);

/// The outage membership of one task. Clones are the same member.
#[derive(Clone, Debug)]
pub(crate) struct OutageGuard(Arc<Member>);

#[derive(Debug)]
struct Member {
    outages: Outages,
    current: Mutex<Option<Since>>,
    /// Reports an outage that ended because its last member left without succeeding.
    tell: fn(Over),
}

/// An outage that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Over {
    pub(crate) name: Arc<str>,
    pub(crate) lasted: Duration,
    /// The number of affected tasks.
    pub(crate) joined: usize,
    /// The number of tasks that keep failing for individual reasons.
    pub(crate) still: usize,
    /// True if the last member has succeeded. Otherwise it has ended, or fails for another reason now.
    pub(crate) recovered: bool,
}

/// The result of leaving an outage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// The task was not in an outage.
    NotInOutage,
    OthersStay,
    /// The outage is over, except for a few tasks with individual reasons.
    Ends(Over),
}

impl Outages {
    /// Adds a member. Returns the number of members if it is to be reported.
    fn join(&self, name: &str) -> (Since, Option<usize>) {
        let mut ongoing = self.0.lock();
        let known = ongoing.get_key_value(name).map(|(name, _)| name.clone());
        let name = known.unwrap_or_else(|| name.into());
        let now = Instant::now();
        let outage = ongoing.entry(name.clone()).or_insert_with(|| Ongoing::new(now));
        let stay = Since { name, joined: now, recovered: outage.recovered, is_alone: false };
        (stay, outage.join())
    }

    /// Records another failure of a member.
    fn fail_again(&self, stay: &mut Since) -> Option<Over> {
        let mut ongoing = self.0.lock();
        let outage = ongoing.get_mut(&stay.name)?;
        if stay.is_alone || outage.recovered == stay.recovered {
            return None;
        }
        stay.is_alone = true;
        outage.alone += 1;
        outage.over_for_most(&stay.name)
    }

    fn leave(&self, stay: Since, recovered: bool) -> Option<Over> {
        let mut ongoing = self.0.lock();
        let outage = ongoing.get_mut(&stay.name)?;
        outage.leave(&stay, recovered);
        if outage.members > 0 {
            return outage.over_for_most(&stay.name).filter(|_| recovered);
        }
        let outage = ongoing.remove(&stay.name)?;
        Some(Over {
            name: stay.name,
            lasted: outage.since.elapsed(),
            joined: outage.joined,
            still: 0,
            recovered,
        })
    }
}

impl Ongoing {
    fn new(now: Instant) -> Self {
        Self {
            since: now,
            members: 0,
            alone: 0,
            recovered: 0,
            joined: 0,
            told: 0,
            grows_from: now + FRESH,
            wave: Wave::default(),
        }
    }

    /// Adds a member. Returns the number of members if it is to be reported: the first one, and each time the reported number has grown
    /// tenfold.
    fn join(&mut self) -> Option<usize> {
        self.members += 1;
        self.joined += 1;
        self.wave.most = self.wave.most.max(self.members);
        if self.told == 0 {
            self.told = 1;
            return Some(1);
        }
        if self.members < self.told.saturating_mul(10) {
            return None;
        }
        self.told = self.told.saturating_mul(10);
        (Instant::now() >= self.grows_from).then_some(self.members)
    }

    /// Removes a member. After most members have left, a new growth counts as another outage to report.
    fn leave(&mut self, stay: &Since, recovered: bool) {
        self.members -= 1;
        self.alone -= usize::from(stay.is_alone);
        self.recovered += usize::from(recovered);
        self.wave.left += 1;
        let first = self.wave.since.get_or_insert(stay.joined);
        *first = stay.joined.min(*first);
        while self.told >= 10 && self.members <= self.told / 10 {
            self.told /= 10;
        }
    }

    /// Declares the outage over once all remaining members have individual reasons. Returns a report if they are few of many.
    fn over_for_most(&mut self, name: &Arc<str>) -> Option<Over> {
        if self.alone < self.members {
            return None;
        }
        let still = self.members;
        let next = Wave { most: still, ..Wave::default() };
        let wave = std::mem::replace(&mut self.wave, next);
        if wave.most < still.saturating_mul(FEW) {
            return None;
        }
        self.joined = still;
        self.grows_from = Instant::now();
        Some(Over {
            name: name.clone(),
            lasted: wave.since.unwrap_or(self.since).elapsed(),
            joined: wave.left,
            still,
            recovered: true,
        })
    }
}

impl OutageGuard {
    /// Creates a membership. `tell` reports outages that end other than by [`OutageGuard::leave`].
    pub(crate) fn new(outages: Outages, tell: fn(Over)) -> Self {
        Self(Arc::new(Member { outages, current: Mutex::default(), tell }))
    }

    /// Joins the outage of this name, and leaves any other. Returns the number of members if it is to be reported, because the outage begins
    /// or has grown.
    pub(crate) fn join(&self, name: &str) -> Option<usize> {
        let mut current = self.0.current.lock();
        if let Some(stay) = current.as_mut().filter(|stay| *stay.name == *name) {
            let over = self.0.outages.fail_again(stay);
            drop(current);
            over.into_iter().for_each(self.0.tell);
            return None;
        }
        let (joined, news) = self.0.outages.join(name);
        let former = current.replace(joined);
        drop(current);
        self.0.abandon(former);
        news
    }

    /// Leaves the outage without evidence of success.
    pub(crate) fn abandon(&self) {
        let current = self.0.current.lock().take();
        self.0.abandon(current);
    }

    /// Leaves the outage after a success. If that ends the outage, the caller reports it.
    pub(crate) fn leave(&self) -> Leaving {
        let Some(stay) = self.0.current.lock().take() else {
            return Leaving::NotInOutage;
        };
        match self.0.outages.leave(stay, true) {
            None => Leaving::OthersStay,
            Some(over) => Leaving::Ends(over),
        }
    }
}

impl Member {
    fn abandon(&self, stay: Option<Since>) {
        if let Some(over) = stay.and_then(|stay| self.outages.leave(stay, false)) {
            (self.tell)(over);
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let current = self.current.lock().take();
        self.abandon(current);
    }
}

impl Leaving {
    /// Returns true if this was the only member ever, so that its recovery is worth reporting.
    pub(crate) fn is_news(&self) -> bool {
        matches!(self, Self::Ends(over) if over.joined == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(outages: &Outages) -> OutageGuard {
        OutageGuard::new(outages.clone(), |_| ())
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_member_begins_an_outage_and_the_last_one_ends_it() {
        let outages = Outages::default();
        let (first, second) = (member(&outages), member(&outages));
        assert_eq!(first.leave(), Leaving::NotInOutage);
        assert_eq!(first.join("down"), Some(1));
        assert_eq!(first.join("down"), None, "it is in it already");
        assert_eq!(second.join("down"), None);
        let forbidden = member(&outages).join("forbidden");
        assert_eq!(forbidden, Some(1), "another reason is another outage");
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(first.clone().leave(), Leaving::OthersStay);
        assert_eq!(first.leave(), Leaving::NotInOutage, "clones share it");
        let third = member(&outages);
        assert_eq!(third.join("down"), None, "it is still going on");
        drop(third);
        let over = Over {
            name: "down".into(),
            lasted: Duration::from_secs(30),
            joined: 3,
            still: 0,
            recovered: true,
        };
        let ended = second.leave();
        assert!(!ended.is_news(), "it concerned three");
        assert_eq!(ended, Leaving::Ends(over));
        assert_eq!(first.join("down"), Some(1));
        assert!(first.leave().is_news());
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_that_was_small_for_long_is_told_again_when_it_grows() {
        let outages = Outages::default();
        let join = |count: usize| {
            let members: Vec<_> = (0..count).map(|_| member(&outages)).collect();
            let told: Vec<_> = members.iter().filter_map(|it| it.join("down")).collect();
            (members, told)
        };
        let (many, told) = join(2000);
        assert_eq!(told, [1], "many at once are one news");
        drop(many);
        assert!(outages.0.lock().is_empty());
        let (_always, told) = join(1);
        assert_eq!(told, [1]);
        for _ in 0..2 {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            let (others, told) = join(1500);
            assert_eq!(told, [10, 100, 1000]);
            drop(others);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_outage_is_over_though_a_few_fail_for_reasons_of_their_own() {
        static TOLD: Mutex<Vec<Over>> = Mutex::new(Vec::new());
        let outages = Outages::default();
        let new = || OutageGuard::new(outages.clone(), |over| TOLD.lock().push(over));
        let over = |joined, still| Over {
            name: "down".into(),
            lasted: Duration::from_secs(30),
            joined,
            still,
            recovered: true,
        };
        let always = new();
        always.join("down");
        for last_says_so in [true, false] {
            tokio::time::sleep(FRESH).await;
            let others: Vec<_> = (0..20).map(|_| new()).collect();
            let told = others.iter().filter_map(|it| it.join("down"));
            assert_eq!(told.collect::<Vec<_>>(), [10]);
            always.join("down");
            tokio::time::sleep(Duration::from_secs(30)).await;
            let (last, first) = others.split_last().unwrap();
            for other in first {
                assert_eq!(other.leave(), Leaving::OthersStay);
                always.join("down");
            }
            if last_says_so {
                assert_eq!(last.leave(), Leaving::Ends(over(20, 1)));
            } else {
                last.join("down");
                assert_eq!(TOLD.lock().pop(), Some(over(19, 2)));
                assert_eq!(last.leave(), Leaving::OthersStay, "it was told");
            }
            always.join("down");
        }
        assert_eq!(*TOLD.lock(), []);
        let few: Vec<_> = (0..5).map(|_| new()).collect();
        for other in &few {
            assert_eq!(other.join("down"), None);
        }
        for other in &few {
            assert_eq!(other.leave(), Leaving::OthersStay, "they were few");
        }
        assert!(matches!(always.leave(), Leaving::Ends(over) if over.still == 0));
        assert!(outages.0.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_is_told_to_be_over_when_its_last_member_ends_or_fails_for_another_reason() {
        static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let told = || TOLD.lock().join(", ");
        let tell = |over: Over| {
            assert!(!over.recovered);
            let line = format!("{} {}", over.name, over.joined);
            TOLD.lock().push(line);
        };
        let outages = Outages::default();
        let new = || OutageGuard::new(outages.clone(), tell);
        let (one, other) = (new(), new());
        one.join("down");
        other.join("down");
        drop(other);
        let clone = one.clone();
        drop(one);
        assert_eq!(told(), "", "there is one left");
        assert_eq!(clone.join("forbidden"), Some(1));
        assert_eq!(told(), "down 2");
        clone.abandon();
        assert_eq!(told(), "down 2, forbidden 1");
        assert!(outages.0.lock().is_empty());
    }
}
