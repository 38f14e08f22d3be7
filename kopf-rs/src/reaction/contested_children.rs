//! Detects children that another manager changes after every correction: reports the manager and the fields, and corrects them with growing
//! delays.
//!
//! Without this, two operators that apply the same field would overwrite each other as fast as possible. Must not know requests.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::object::child::ChildName;
use crate::object::child::taken::TakenFields;

/// The number of corrections without a delay.
const FREE: u8 = 3;
/// Older corrections do not count as part of a contest.
const WINDOW: Duration = Duration::from_secs(300);
const FIRST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// The contested children of one object.
#[derive(Debug, Default)]
pub(crate) struct ContestedChildren(BTreeMap<ChildName, Contest>);

#[derive(Debug)]
struct Contest {
    /// The number of corrections.
    times: u8,
    /// The time of the last correction, as the operator's uptime.
    last: Duration,
    /// The fields that another manager had changed.
    taken: TakenFields,
}

/// A child that must not be corrected now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Withheld {
    pub(crate) taken: TakenFields,
    pub(crate) wait: Duration,
}

impl ContestedChildren {
    /// Records a correction at the uptime `now`. Returns the number of corrections and the fields if they are to be reported.
    pub(crate) fn note_restored(
        &mut self,
        child: &ChildName,
        taken: &[TakenFields],
        now: Duration,
    ) -> Option<(u8, TakenFields)> {
        let first = taken.first()?;
        let contest = self.0.get_mut(child).filter(|it| it.goes_on(taken, now));
        let Some(contest) = contest else {
            let taken = first.clone();
            let contest = Contest { times: 1, last: now, taken };
            self.0.insert(child.clone(), contest);
            return None;
        };
        contest.times = contest.times.saturating_add(1);
        contest.last = now;
        (contest.times == FREE).then(|| (FREE, contest.taken.clone()))
    }

    /// Returns the remaining delay if a child must not be corrected yet.
    pub(crate) fn withheld(&self, child: &ChildName, now: Duration) -> Option<Withheld> {
        let contest = self.0.get(child)?;
        let wait = (contest.last + contest.pause()?).saturating_sub(now);
        (!wait.is_zero()).then(|| Withheld { taken: contest.taken.clone(), wait })
    }
}

impl Contest {
    /// Returns true if the same manager has changed the same field again soon after a correction.
    fn goes_on(&self, taken: &[TakenFields], now: Duration) -> bool {
        let is_soon = now.saturating_sub(self.last) <= WINDOW + self.pause().unwrap_or_default();
        let has = |it: &TakenFields| {
            let mut fields = it.fields.iter();
            it.manager == self.taken.manager && fields.any(|it| self.taken.fields.contains(it))
        };
        is_soon && taken.iter().any(has)
    }

    /// Returns the delay after a correction.
    fn pause(&self) -> Option<Duration> {
        let over = self.times.checked_sub(FREE)?;
        Some((FIRST_PAUSE * 2_u32.pow(u32::from(over).min(6))).min(LONGEST_PAUSE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reaction::children::tests::child;

    fn taken(manager: &str, field: &str) -> Vec<TakenFields> {
        vec![TakenFields { manager: manager.to_owned(), fields: vec![field.to_owned()], by_scale: false }]
    }

    #[test]
    fn who_takes_the_same_field_each_time_is_told_and_answered_ever_later() {
        let mut contested = ContestedChildren::default();
        let at = Duration::from_secs;
        let mut now = 0;
        let theirs = taken("them", ".data.a");
        for _ in 0..2 {
            assert_eq!(contested.note_restored(&child(), &theirs, at(now)), None);
            assert_eq!(contested.withheld(&child(), at(now)), None);
        }
        let told = contested.note_restored(&child(), &theirs, at(now));
        assert_eq!(told, Some((3, theirs[0].clone())));
        for pause in [10, 20, 40, 80, 160, 300, 300, 300] {
            let withheld = contested.withheld(&child(), at(now)).expect("for a while");
            assert_eq!(withheld.wait, at(pause));
            now += pause;
            assert_eq!(contested.withheld(&child(), at(now)), None);
            assert_eq!(contested.note_restored(&child(), &theirs, at(now)), None);
        }
        now += 601;
        assert_eq!(contested.note_restored(&child(), &theirs, at(now)), None);
        assert_eq!(contested.withheld(&child(), at(now)), None, "it was over");
    }

    #[test]
    fn others_and_other_fields_are_no_contest() {
        let mut contested = ContestedChildren::default();
        let now = Duration::ZERO;
        for (manager, field) in [("a", ".x"), ("b", ".x"), ("a", ".x"), ("a", ".y"), ("a", ".x")] {
            let told = contested.note_restored(&child(), &taken(manager, field), now);
            assert_eq!(told, None, "{manager} {field}");
        }
        assert_eq!(contested.note_restored(&child(), &[], now), None);
        assert_eq!(contested.withheld(&child(), now), None);
    }
}
