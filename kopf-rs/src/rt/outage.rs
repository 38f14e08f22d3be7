//! Outages: what keeps many from going on at the same time is told when it begins and when it is over, and not by each of them.
//!
//! Tasks that cannot go on for the same reason are in the outage of that name, each in one at most, and leave it when they can. Promises
//! that exactly one of them begins it and exactly one ends it, that an outage which was small for long is told again when it grows, that a
//! large one is told to be over though a few go on to fail for reasons of their own, and that a task that is dropped leaves too. Must not
//! know what fails, nor how it is told.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// All outages there are, by name. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outages(Arc<Mutex<BTreeMap<Arc<str>, Ongoing>>>);

#[derive(Debug)]
struct Ongoing {
    since: Instant,
    /// How many are in it now.
    members: usize,
    /// How many of them fail for reasons of their own: they have failed again since another one could go on.
    alone: usize,
    /// How many have left it, for they could go on.
    recovered: usize,
    /// How many have joined it, or were left when it was told to be over.
    joined: usize,
    /// It was told when it had so many members: a power of ten.
    told: usize,
    /// When its growth is news.
    grows_from: Instant,
    wave: Wave,
}

/// What has happened since there were only members that fail for reasons of their own, or none.
#[derive(Debug, Default)]
struct Wave {
    /// How many have left.
    left: usize,
    /// When the first of those had joined.
    since: Option<Instant>,
    /// How many were in the outage at the same time.
    most: usize,
}

/// What a member knows of the outage it is in.
#[derive(Debug)]
struct Stay {
    name: Arc<str>,
    since: Instant,
    /// How many could go on before it joined.
    recovered: usize,
    is_alone: bool,
}

/// An outage is told to be over when so many times fewer than before are left, and these fail for reasons of their own.
const FEW: usize = 10;

/// An outage that grows within that time is told once: it is the same news.
const FRESH: Duration = Duration::from_secs(60);

/// What one task has to do with outages. Clones are the same member.
#[derive(Clone, Debug)]
pub(crate) struct Membership(Arc<Member>);

#[derive(Debug)]
struct Member {
    outages: Outages,
    current: Mutex<Option<Stay>>,
    /// Tells of an outage that nobody is in any more, though its last member did not say that it can go on.
    tell: fn(Over),
}

/// An outage that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Over {
    pub(crate) name: Arc<str>,
    pub(crate) lasted: Duration,
    /// How many were concerned.
    pub(crate) joined: usize,
    /// How many others are in it on and on, for reasons of their own.
    pub(crate) still: usize,
    /// The last member can go on. Else it has ended, or fails for another reason by now.
    pub(crate) recovered: bool,
}

/// What it means that a member can go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// Nothing: it was in no outage.
    WasInNone,
    OthersStay,
    /// The outage is over, but perhaps for a few that fail for reasons of their own.
    Ends(Over),
}

impl Outages {
    /// How many are in the outage by now, where that is to be told.
    fn join(&self, name: &str) -> (Stay, Option<usize>) {
        let mut ongoing = self.lock();
        let known = ongoing.get_key_value(name).map(|(name, _)| name.clone());
        let name = known.unwrap_or_else(|| name.into());
        let now = Instant::now();
        let outage = ongoing
            .entry(name.clone())
            .or_insert_with(|| Ongoing::new(now));
        let stay = Stay {
            name,
            since: now,
            recovered: outage.recovered,
            is_alone: false,
        };
        (stay, outage.join())
    }

    /// A member has failed once more.
    fn fail_again(&self, stay: &mut Stay) -> Option<Over> {
        let mut ongoing = self.lock();
        let outage = ongoing.get_mut(&stay.name)?;
        if stay.is_alone || outage.recovered == stay.recovered {
            return None;
        }
        stay.is_alone = true;
        outage.alone += 1;
        outage.over_for_most(&stay.name)
    }

    fn leave(&self, stay: Stay, recovered: bool) -> Option<Over> {
        let mut ongoing = self.lock();
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

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Ongoing>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// One more. How many they are, where that is to be told: at first, and when there are ten times as many as were told.
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

    /// One less. Where few of many are left, those who come later are another outage to people.
    fn leave(&mut self, stay: &Stay, recovered: bool) {
        self.members -= 1;
        self.alone -= usize::from(stay.is_alone);
        self.recovered += usize::from(recovered);
        self.wave.left += 1;
        let first = self.wave.since.get_or_insert(stay.since);
        *first = stay.since.min(*first);
        while self.told >= 10 && self.members <= self.told / 10 {
            self.told /= 10;
        }
    }

    /// The outage is over where only members are left that fail for reasons of their own. News where they are few of many.
    fn over_for_most(&mut self, name: &Arc<str>) -> Option<Over> {
        if self.alone < self.members {
            return None;
        }
        let still = self.members;
        let next = Wave {
            most: still,
            ..Wave::default()
        };
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

impl Membership {
    /// `tell` is told of outages that end otherwise than by [`Membership::leave`].
    pub(crate) fn new(outages: Outages, tell: fn(Over)) -> Self {
        Self(Arc::new(Member {
            outages,
            current: Mutex::default(),
            tell,
        }))
    }

    /// Be in the outage of this name, and in no other any more. How many are in it, where that is to be told: it begins, or has grown.
    pub(crate) fn join(&self, name: &str) -> Option<usize> {
        let mut current = self.0.lock();
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

    /// The member waits no more, though nothing says that it could go on.
    pub(crate) fn abandon(&self) {
        let current = self.0.lock().take();
        self.0.abandon(current);
    }

    /// The member can go on. Where that ends the outage, the caller tells of it.
    pub(crate) fn leave(&self) -> Leaving {
        let Some(stay) = self.0.lock().take() else {
            return Leaving::WasInNone;
        };
        match self.0.outages.leave(stay, true) {
            None => Leaving::OthersStay,
            Some(over) => Leaving::Ends(over),
        }
    }
}

impl Member {
    fn abandon(&self, stay: Option<Stay>) {
        if let Some(over) = stay.and_then(|stay| self.outages.leave(stay, false)) {
            (self.tell)(over);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Stay>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let current = self.lock().take();
        self.abandon(current);
    }
}

impl Leaving {
    /// Whether the member was the only one ever, so that it is news that this one goes on.
    pub(crate) fn is_news(&self) -> bool {
        matches!(self, Self::Ends(over) if over.joined == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(outages: &Outages) -> Membership {
        Membership::new(outages.clone(), |_| ())
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_member_begins_an_outage_and_the_last_one_ends_it() {
        let outages = Outages::default();
        let (first, second) = (member(&outages), member(&outages));
        assert_eq!(first.leave(), Leaving::WasInNone);
        assert_eq!(first.join("down"), Some(1));
        assert_eq!(first.join("down"), None, "it is in it already");
        assert_eq!(second.join("down"), None);
        let forbidden = member(&outages).join("forbidden");
        assert_eq!(forbidden, Some(1), "another reason is another outage");
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(first.clone().leave(), Leaving::OthersStay);
        assert_eq!(first.leave(), Leaving::WasInNone, "clones share it");
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
        assert!(outages.lock().is_empty());
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
        let new = || Membership::new(outages.clone(), |over| TOLD.lock().unwrap().push(over));
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
                assert_eq!(TOLD.lock().unwrap().pop(), Some(over(19, 2)));
                assert_eq!(last.leave(), Leaving::OthersStay, "it was told");
            }
            always.join("down");
        }
        assert_eq!(*TOLD.lock().unwrap(), []);
        let few: Vec<_> = (0..5).map(|_| new()).collect();
        for other in &few {
            assert_eq!(other.join("down"), None);
        }
        for other in &few {
            assert_eq!(other.leave(), Leaving::OthersStay, "they were few");
        }
        assert!(matches!(always.leave(), Leaving::Ends(over) if over.still == 0));
        assert!(outages.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_is_told_to_be_over_when_its_last_member_ends_or_fails_for_another_reason() {
        static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let told = || TOLD.lock().unwrap().join(", ");
        let tell = |over: Over| {
            assert!(!over.recovered);
            let line = format!("{} {}", over.name, over.joined);
            TOLD.lock().unwrap().push(line);
        };
        let outages = Outages::default();
        let new = || Membership::new(outages.clone(), tell);
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
        assert!(outages.lock().is_empty());
    }
}
