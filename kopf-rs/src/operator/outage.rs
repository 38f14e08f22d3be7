//! What discovery or a watch has to do with outages: at most one at a time, left when it goes on.
//!
//! Must not know what fails.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::happening::Happening;
use crate::operator::report::report;
use crate::rt::outage::{Outage, Outages, Over};

/// The membership of discovery, or of one watch, in whatever outage there is. Clones share it.
#[derive(Clone)]
pub(crate) struct Membership {
    outages: Outages,
    current: Arc<Mutex<Option<Outage>>>,
}

/// What leaving an outage means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// Nothing: there was none.
    WasInNone,
    OthersStay,
    /// The outage is over.
    Ends(Over),
}

impl Leaving {
    /// Whether it is to be told that this member goes on: it was the only one ever.
    pub(crate) fn is_news(self) -> bool {
        matches!(self, Self::Ends(over) if over.joined == 1)
    }

    /// Tell that the outage is over, where it concerned several.
    pub(crate) fn tell(self) {
        if let Self::Ends(over) = self
            && over.joined > 1
        {
            report(&Happening::OutageOver {
                waiting: over.joined,
                lasted: over.lasted,
            });
        }
    }
}

impl Membership {
    pub(crate) fn new(outages: Outages) -> Self {
        Self {
            outages,
            current: Arc::default(),
        }
    }

    /// Join the outage of this name, and leave any other. `true` where that begins it, so that it is to be told.
    pub(crate) fn join(&self, name: &str) -> bool {
        let mut current = self.lock();
        if current.as_ref().is_some_and(|outage| outage.name() == name) {
            return false;
        }
        let (outage, begins) = self.outages.join(name);
        *current = Some(outage);
        begins
    }

    /// Leave the outage, if there is one.
    pub(crate) fn leave(&self) -> Leaving {
        match self.lock().take().map(Outage::leave) {
            None => Leaving::WasInNone,
            Some(None) => Leaving::OthersStay,
            Some(Some(over)) => Leaving::Ends(over),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Outage>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_outage_at_a_time_is_begun_and_left() {
        let outages = Outages::default();
        let (one, other) = (Membership::new(outages.clone()), Membership::new(outages));
        assert_eq!(one.leave(), Leaving::WasInNone);
        assert!(one.join("down"));
        assert!(!one.join("down"), "it is in it already");
        assert!(!other.join("down"));
        assert!(one.join("starting"), "the former one is left");
        let ended = other.leave();
        assert!(matches!(ended, Leaving::Ends(over) if over.joined == 2));
        assert!(!ended.is_news(), "it concerned two");
        let clone = one.clone();
        assert!(!other.join("starting"));
        assert_eq!(clone.leave(), Leaving::OthersStay);
        assert_eq!(one.leave(), Leaving::WasInNone, "clones share it");
        let _ = other.leave();
        one.join("down");
        assert!(one.leave().is_news());
    }
}
