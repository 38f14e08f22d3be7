//! Delays the recreation of children that were recreated before: a handler that wants other immutable content in each call would otherwise
//! delete its child again and again.
//!
//! Must not know requests.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::object::child::ChildName;

const FIRST_PAUSE: Duration = Duration::from_secs(60);
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// The recreated children of one object.
#[derive(Debug, Default)]
pub(crate) struct RecreatedChildren(BTreeMap<ChildName, Recreations>);

#[derive(Debug)]
struct Recreations {
    times: u8,
    /// The time of the last one, as the operator's uptime.
    last: Duration,
}

impl RecreatedChildren {
    /// Returns the remaining delay if a child must not be recreated at the uptime `now`.
    pub(crate) fn wait(&self, child: &ChildName, now: Duration) -> Option<Duration> {
        let known = self.0.get(child)?;
        let wait = (known.last + known.pause()).saturating_sub(now);
        (!wait.is_zero()).then_some(wait)
    }

    /// Records a recreation at the uptime `now`. One that follows long after the former delay counts as the first.
    pub(crate) fn note(&mut self, child: &ChildName, now: Duration) {
        let former = self.0.get(child).filter(|it| now.saturating_sub(it.last) < it.pause() + LONGEST_PAUSE);
        let times = former.map_or(0, |it| it.times).saturating_add(1);
        self.0.insert(child.clone(), Recreations { times, last: now });
    }
}

impl Recreations {
    /// Returns the delay after the last recreation.
    fn pause(&self) -> Duration {
        (FIRST_PAUSE * 2_u32.pow(u32::from(self.times.saturating_sub(1)).min(6))).min(LONGEST_PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reaction::children::tests::child;

    #[test]
    fn a_child_is_recreated_at_growing_intervals() {
        let mut recreated = RecreatedChildren::default();
        let at = Duration::from_secs;
        let mut now = 0;
        for pause in [60, 120, 240, 480, 960, 1920, 3600, 3600] {
            assert_eq!(recreated.wait(&child(), at(now)), None);
            recreated.note(&child(), at(now));
            assert_eq!(recreated.wait(&child(), at(now + 1)), Some(at(pause - 1)));
            now += pause;
        }
        now += 7200;
        recreated.note(&child(), at(now));
        assert_eq!(recreated.wait(&child(), at(now)), Some(at(60)), "that was long ago");
    }
}
