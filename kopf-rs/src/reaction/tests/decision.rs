//! Tests the table of decisions: every combination of its inputs against each row.

use std::sync::Arc;

use serde_json::json;

use super::world::handlers;
use crate::handler::definition::Handler;
use crate::handler::subject::Reason;
use crate::object::essence::Essence;
use crate::reaction::comparison::{Candidate, Comparison};
use crate::reaction::cycle::Mode;
use crate::reaction::memory::Target;
use crate::reaction::plan::{Decision, Facts, Life, decide};
use crate::reaction::progress_table::Ledger;
use crate::state::diffbase::KnownEssence;

/// `None` if there is no such handler; otherwise true if its filters match the object.
type Presence = Option<bool>;

#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is varied by itself")]
struct Case {
    life: Life,
    reason: Option<Reason>,
    /// A deletion handler that needs the finalizer, one that does not, and a handler of updates.
    handlers: [Presence; 3],
    withheld: bool,
    finalizer_is_contested: bool,
    deletion_was_handled: bool,
    is_held_in_background: bool,
}

/// One row of the table: its condition and its action.
type Row = (&'static str, fn(&Case) -> bool, fn(&Case) -> Decision);

const TABLE: [Row; 11] = [
    (
        "lives; one needs the finalizer, or runs in the background; it is not on",
        |it| it.lives() && it.is_held() && !it.has_finalizer(),
        |_| Decision::AddFinalizer,
    ),
    (
        "lives; none needs the finalizer, or runs in the background; it is on, and nothing keeps it there",
        |it| {
            let is_kept = it.withheld || it.finalizer_is_contested;
            it.lives() && !it.is_held() && it.has_finalizer() && !is_kept
        },
        |_| Decision::RemoveFinalizer,
    ),
    ("lives; none", |it| it.lives() && !it.handlers.contains(&Some(true)), |_| Decision::Nothing),
    (
        "lives; some, and there is a reason",
        |it| it.lives() && it.reason.is_some(),
        |it| handle(it.reason.unwrap(), Mode::Persisted),
    ),
    ("lives; some, and nothing that counts has changed", Case::lives, |_| Decision::Purge),
    (
        "is terminating, with the finalizer; some that are not served now",
        |it| it.has_finalizer() && it.withheld,
        |_| Decision::AwaitDeletionHandlers,
    ),
    (
        "is terminating, with the finalizer; none is for deletions, some have not ended in the background",
        |it| {
            let is_seen = it.needs_finalizer() || it.has_optional();
            it.has_finalizer() && !is_seen && it.is_held_in_background
        },
        |_| Decision::AwaitBackground,
    ),
    (
        "is terminating, with the finalizer; none is for deletions",
        |it| it.has_finalizer() && !it.needs_finalizer() && !it.has_optional(),
        |_| Decision::RemoveFinalizer,
    ),
    ("is terminating, with the finalizer; some are for deletions", Case::has_finalizer, |_| {
        handle(Reason::Delete, Mode::Persisted)
    }),
    (
        "is terminating without the finalizer, or gone; some optional ones, not called yet",
        |it| it.has_optional() && !it.deletion_was_handled,
        |it| match it.life {
            Life::Gone => handle(Reason::Delete, Mode::Gone),
            _ => handle(Reason::Delete, Mode::Terminating),
        },
    ),
    ("is terminating without the finalizer, or gone; none of these", |_| true, |_| Decision::Forget),
];

fn handle(reason: Reason, mode: Mode) -> Decision {
    Decision::Handle { reason, mode }
}

impl Case {
    fn lives(&self) -> bool {
        matches!(self.life, Life::Living { .. })
    }
    fn has_finalizer(&self) -> bool {
        let (Life::Living { has_finalizer } | Life::Terminating { has_finalizer }) = self.life else {
            return false;
        };
        has_finalizer
    }
    fn needs_finalizer(&self) -> bool {
        self.handlers[0] == Some(true)
    }
    fn is_held(&self) -> bool {
        self.needs_finalizer() || self.is_held_in_background
    }
    fn has_optional(&self) -> bool {
        self.handlers[1] == Some(true)
    }

    fn facts(&self, comparison: &Comparison, handlers: &[Arc<Handler>]) -> Facts {
        let candidate = |(handler, presence): (&Arc<Handler>, Presence)| {
            Some(Candidate {
                handler: handler.clone(),
                applies: presence?,
                concerned: true,
                marked: false,
                own: None,
                resumes: false,
            })
        };
        let candidates = handlers.iter().zip(self.handlers).filter_map(candidate);
        Facts {
            life: self.life,
            reason: self.reason,
            comparison: Some(comparison.clone()),
            ledger: Ledger::default(),
            candidates: candidates.collect(),
            withheld: self.withheld.then(|| "w".into()).into_iter().collect(),
            finalizer_is_contested: self.finalizer_is_contested,
            deletion_was_handled: self.deletion_was_handled,
            is_held_in_background: self.is_held_in_background,
        }
    }
}

fn cases() -> Vec<Case> {
    let mut cases = vec![Case {
        life: Life::Gone,
        reason: None,
        handlers: [None; 3],
        withheld: false,
        finalizer_is_contested: false,
        deletion_was_handled: false,
        is_held_in_background: false,
    }];
    let flags = [false, true];
    vary(&mut cases, flags, |case, it| case.withheld = it);
    vary(&mut cases, flags, |case, it| {
        case.finalizer_is_contested = it;
    });
    vary(&mut cases, flags, |case, it| case.deletion_was_handled = it);
    vary(&mut cases, flags, |case, it| {
        case.is_held_in_background = it;
    });
    for at in 0..3 {
        let presences = [None, Some(false), Some(true)];
        vary(&mut cases, presences, |case, it| case.handlers[at] = it);
    }
    let reasons =
        [None, Some(Reason::Create), Some(Reason::Update), Some(Reason::Resume), Some(Reason::Delete)];
    vary(&mut cases, reasons, |case, it| case.reason = it);
    let living = flags.map(|has_finalizer| Life::Living { has_finalizer });
    let terminating = flags.map(|has_finalizer| Life::Terminating { has_finalizer });
    let lives = living.into_iter().chain(terminating).chain([Life::Gone]);
    vary(&mut cases, lives, |case, it| case.life = it);
    cases
}

/// Combines each case with each of the values.
fn vary<T: Copy>(cases: &mut Vec<Case>, values: impl IntoIterator<Item = T>, set: impl Fn(&mut Case, T)) {
    let before = std::mem::take(cases);
    for value in values {
        cases.extend(before.iter().map(|case| {
            let mut case = *case;
            set(&mut case, value);
            case
        }));
    }
}

#[test]
fn every_combination_is_decided_by_the_first_row_that_fits() {
    let handlers: Vec<Arc<Handler>> =
        handlers("delete:d optional:o update:u").into_iter().map(Arc::new).collect();
    let newest = Essence::from(json!({"spec": {}}));
    let target = Target { essence: KnownEssence::Whole(newest.clone()), is_fixed: false };
    let comparison = Comparison::new(None, target, newest);
    let mut met = [0; TABLE.len()];
    for case in cases() {
        let row = TABLE.iter().position(|(_, fits, _)| fits(&case)).unwrap();
        let (name, _, decision) = TABLE[row];
        let decided = decide(&case.facts(&comparison, &handlers));
        assert_eq!(decided, decision(&case), "{name}: {case:?}");
        met[row] += 1;
    }
    assert_eq!(met.iter().sum::<usize>(), 5 * 5 * 27 * 16);
    assert!(!met.contains(&0), "{met:?}");
}
