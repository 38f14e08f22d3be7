//! Outages: what keeps many from going on at the same time is told when it begins and when it is over, and not by each of them.
//!
//! Tasks that cannot go on for the same reason are in the outage of that name, each in one at most, and leave it when they can. Promises
//! that exactly one of them begins it and exactly one ends it, that an outage which was small for long is told again when it grows, and that
//! a task that is dropped leaves too. Must not know what fails, nor how it is told.

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
    /// How many have joined it.
    joined: usize,
    /// It was told when it had so many members: a power of ten.
    told: usize,
}

/// An outage that grows within that time is told once: it is the same news.
const FRESH: Duration = Duration::from_secs(60);

/// What one task has to do with outages. Clones are the same member.
#[derive(Clone, Debug)]
pub(crate) struct Membership(Arc<Member>);

#[derive(Debug)]
struct Member {
    outages: Outages,
    current: Mutex<Option<Arc<str>>>,
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
    /// The last member can go on. Else it has ended, or fails for another reason by now.
    pub(crate) recovered: bool,
}

/// What it means that a member can go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// Nothing: it was in no outage.
    WasInNone,
    OthersStay,
    /// The outage is over.
    Ends(Over),
}

impl Outages {
    /// How many are in the outage by now, where that is to be told.
    fn join(&self, name: &str) -> (Arc<str>, Option<usize>) {
        let mut ongoing = self.lock();
        let known = ongoing.get_key_value(name).map(|(name, _)| name.clone());
        let name = known.unwrap_or_else(|| name.into());
        let outage = ongoing.entry(name.clone()).or_insert_with(|| Ongoing {
            since: Instant::now(),
            members: 0,
            joined: 0,
            told: 0,
        });
        (name, outage.join())
    }

    fn leave(&self, name: Arc<str>, recovered: bool) -> Option<Over> {
        let mut ongoing = self.lock();
        let outage = ongoing.get_mut(&name)?;
        outage.leave();
        if outage.members > 0 {
            return None;
        }
        let outage = ongoing.remove(&name)?;
        Some(Over {
            name,
            lasted: outage.since.elapsed(),
            joined: outage.joined,
            recovered,
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Ongoing>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ongoing {
    /// One more. How many they are, where that is to be told: at first, and when there are ten times as many as were told.
    fn join(&mut self) -> Option<usize> {
        self.members += 1;
        self.joined += 1;
        if self.told == 0 {
            self.told = 1;
            return Some(1);
        }
        if self.members < self.told.saturating_mul(10) {
            return None;
        }
        self.told = self.told.saturating_mul(10);
        (self.since.elapsed() >= FRESH).then_some(self.members)
    }

    /// One less. Where few of many are left, those who come later are another outage to people.
    fn leave(&mut self) {
        self.members -= 1;
        while self.told >= 10 && self.members <= self.told / 10 {
            self.told /= 10;
        }
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
        if current.as_deref() == Some(name) {
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
        let Some(name) = self.0.lock().take() else {
            return Leaving::WasInNone;
        };
        match self.0.outages.leave(name, true) {
            None => Leaving::OthersStay,
            Some(over) => Leaving::Ends(over),
        }
    }
}

impl Member {
    fn abandon(&self, name: Option<Arc<str>>) {
        if let Some(over) = name.and_then(|name| self.outages.leave(name, false)) {
            (self.tell)(over);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<str>>> {
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
