//! Tests the table of decisions: every combination of its inputs against each row.

use std::sync::Arc;

use super::world::handlers;
use crate::handler::definition::Handler;
use crate::handler::subject::Reason;
use crate::reaction::comparison::{Candidate, Children};
use crate::reaction::cycle::Mode;
use crate::reaction::plan::{Decision, Facts, Life, decide};
use crate::reaction::progress_table::Ledger;

const LIVES: [Life; 5] = [
    Life::Living { has_finalizer: false },
    Life::Living { has_finalizer: true },
    Life::Terminating { has_finalizer: false },
    Life::Terminating { has_finalizer: true },
    Life::Gone,
];
const REASONS: [Option<Reason>; 5] =
    [None, Some(Reason::Create), Some(Reason::Update), Some(Reason::Resume), Some(Reason::Delete)];
/// A deletion handler that needs the finalizer, one that does not, and a handler of updates.
const HANDLERS: &str = "delete:d optional:o update:u";

/// Returns facts in which each of seven bits is a condition: first, whether the filters of these handlers match the object.
fn facts(life: Life, reason: Option<Reason>, handlers: &[Arc<Handler>], bits: u32) -> Facts {
    let bit = |at: usize| bits >> at & 1 == 1;
    let candidates = handlers.iter().enumerate().map(|(at, handler)| Candidate {
        handler: handler.clone(),
        applies: bit(at),
        concerned: true,
        marked: false,
        children: Children::AtRest,
        own: None,
    });
    Facts {
        life,
        reason,
        comparison: None,
        ledger: Ledger::default(),
        candidates: candidates.collect(),
        withheld: bit(3).then(|| "w".into()).into_iter().collect(),
        finalizer_is_contested: bit(4),
        deletion_was_handled: bit(5),
        is_held_in_background: bit(6),
    }
}

/// Returns the rows of the table at [`decide`], each with its condition.
fn rows(facts: &Facts) -> [(bool, Decision); 11] {
    let (lives, has_finalizer) = match facts.life {
        Life::Living { has_finalizer } => (true, has_finalizer),
        Life::Terminating { has_finalizer } => (false, has_finalizer),
        Life::Gone => (false, false),
    };
    let [needs_it, is_optional, is_for_updates] = [0, 1, 2].map(|at| facts.candidates[at].applies);
    let is_in_background = facts.is_held_in_background;
    let is_held = needs_it || is_in_background;
    let is_withheld = !facts.withheld.is_empty();
    let is_kept = is_withheld || facts.finalizer_is_contested;
    let is_for_deletions = needs_it || is_optional;
    let handle = |reason, mode| Decision::Handle { reason, mode };
    let last_mode = if facts.life == Life::Gone { Mode::Gone } else { Mode::Terminating };
    [
        (lives && is_held && !has_finalizer, Decision::AddFinalizer),
        (lives && !is_held && has_finalizer && !is_kept, Decision::RemoveFinalizer),
        (lives && !is_for_deletions && !is_for_updates, Decision::Nothing),
        (lives && facts.reason.is_some(), handle(facts.reason.unwrap_or(Reason::Create), Mode::Persisted)),
        (lives, Decision::Purge),
        (has_finalizer && is_withheld, Decision::AwaitDeletionHandlers),
        (has_finalizer && !is_for_deletions && is_in_background, Decision::AwaitBackground),
        (has_finalizer && !is_for_deletions, Decision::RemoveFinalizer),
        (has_finalizer, handle(Reason::Delete, Mode::Persisted)),
        (is_optional && !facts.deletion_was_handled, handle(Reason::Delete, last_mode)),
        (true, Decision::Forget),
    ]
}

#[test]
fn every_combination_is_decided_by_the_first_row_that_fits() {
    let handlers: Vec<Arc<Handler>> = handlers(HANDLERS).into_iter().map(Arc::new).collect();
    let mut met = [0; 11];
    for (life, reason) in LIVES.into_iter().flat_map(|life| REASONS.map(|reason| (life, reason))) {
        for bits in 0..1 << 7 {
            let facts = facts(life, reason, &handlers, bits);
            let rows = rows(&facts);
            let row = rows.iter().position(|(fits, _)| *fits).unwrap();
            assert_eq!(decide(&facts), rows[row].1, "row {row}: {life:?} {reason:?} {bits:07b}");
            met[row] += 1;
        }
    }
    assert!(!met.contains(&0), "{met:?}");
}
