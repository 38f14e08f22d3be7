//! Outages: what keeps many from going on at the same time is told when it begins and when it is over, and not by each of them.
//!
//! Tasks that cannot go on for the same reason join the outage of that name, and leave it when they can. Promises that exactly one of
//! them begins it and at most one ends it, and that a task that is dropped leaves too. Must not know what fails, nor how it is told.

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
}

/// The membership in an outage.
#[derive(Debug)]
pub(crate) struct Outage {
    outages: Outages,
    name: Arc<str>,
    has_left: bool,
}

/// An outage that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Over {
    pub(crate) lasted: Duration,
    /// How many were concerned.
    pub(crate) joined: usize,
}

impl Outages {
    /// Join the outage of this name. `true` where that begins it, so that it is to be told.
    pub(crate) fn join(&self, name: &str) -> (Outage, bool) {
        let mut ongoing = self.lock();
        let known = ongoing.get_key_value(name).map(|(name, _)| name.clone());
        let (begins, name) = (known.is_none(), known.unwrap_or_else(|| name.into()));
        let outage = ongoing.entry(name.clone()).or_insert_with(|| Ongoing {
            since: Instant::now(),
            members: 0,
            joined: 0,
        });
        outage.members += 1;
        outage.joined += 1;
        drop(ongoing);
        let outage = Outage {
            outages: self.clone(),
            name,
            has_left: false,
        };
        (outage, begins)
    }

    fn leave(&self, name: &str) -> Option<Over> {
        let mut ongoing = self.lock();
        let outage = ongoing.get_mut(name)?;
        outage.members -= 1;
        if outage.members > 0 {
            return None;
        }
        let outage = ongoing.remove(name)?;
        Some(Over {
            lasted: outage.since.elapsed(),
            joined: outage.joined,
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Ongoing>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Outage {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The member can go on. The last one to say so ends the outage, and is to tell of that.
    pub(crate) fn leave(mut self) -> Option<Over> {
        self.has_left = true;
        self.outages.leave(&self.name)
    }
}

impl Drop for Outage {
    fn drop(&mut self) {
        if !self.has_left {
            self.outages.leave(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_first_member_begins_an_outage_and_the_last_one_ends_it() {
        let outages = Outages::default();
        let (first, begins) = outages.join("down");
        assert!(begins);
        let (second, begins) = outages.join("down");
        assert!(!begins);
        let (_other, begins) = outages.join("forbidden");
        assert!(begins, "another reason is another outage");
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(first.leave(), None);
        let (third, begins) = outages.join("down");
        assert!(!begins, "it is still going on");
        drop(third);
        let (lasted, joined) = (Duration::from_secs(30), 3);
        assert_eq!(second.leave(), Some(Over { lasted, joined }));
        assert!(outages.join("down").1);
    }

    #[test]
    fn a_member_that_is_dropped_has_left() {
        let outages = Outages::default();
        drop(outages.join("down"));
        assert!(outages.lock().is_empty());
    }
}
