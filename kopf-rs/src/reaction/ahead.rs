//! Times on an object's records that lie ahead of all that can have been written there: the clock of a former operator was ahead, or
//! somebody has edited the record. Taken at its word, such a record would keep its handler from being called for years.
//!
//! A handler's longest delay is known from the record itself: what was asked for is noted there where it is longer than usual. Kopf's
//! formats and storages of users have no place for that: there, a delay beside a begin that lies ahead too is at most the time between them. Must not know why the record is read.

use std::time::Duration;

use jiff::Timestamp;

use crate::handler::definition::Handler;
use crate::happening::handling::{Handling, StateTrouble};
use crate::reaction::member::since;
use crate::state::Persistence;
use crate::state::progress::{Record, USUAL_DELAY, micros};

/// Clocks of machines may differ by so much.
const SLACK: Duration = Duration::from_secs(60);
/// Where nothing is known of what was asked for, anything longer is taken for a mistake.
const MONTH: Duration = Duration::from_secs(31 * 24 * 3600);

/// The record as it was found on the object, with times that may be, and what is told of it.
pub(super) fn corrected(
    record: Record,
    handler: &Handler,
    persistence: &Persistence,
    now: Timestamp,
    told: &mut Vec<Handling>,
) -> Record {
    if record.is_final() {
        return record;
    }
    let is_ahead = since(now, record.started) > SLACK;
    let usual = handler.backoff().unwrap_or_default().max(USUAL_DELAY);
    let is_known = record.wait.is_some() || persistence.progress.keeps_targets();
    // By the clock of then, the next attempt was to be that much later than the first one.
    let apart = record.delayed.map(|at| since(record.started, at));
    let apart = apart.filter(|it| is_ahead && !is_known && *it <= MONTH);
    let longest = record.wait.or(apart).unwrap_or(usual);
    let limit = if is_known || is_ahead { longest } else { MONTH };
    let delay = record.delayed.map(|at| since(now, at));
    let is_too_long = delay.is_some_and(|delay| delay > limit.saturating_add(SLACK));
    if !is_ahead && !is_too_long {
        return record;
    }
    let mut corrected = record.clone();
    let id = handler.id.clone();
    let trouble = if is_too_long {
        corrected.wait_until(now.checked_add(longest).ok().map(micros), now);
        StateTrouble::NextAttemptAhead {
            id,
            at: record.delayed,
            pause: longest,
        }
    } else {
        let at = record.started;
        StateTrouble::FirstAttemptAhead { id, at }
    };
    if is_ahead {
        corrected.started = micros(now);
    }
    told.push(Handling::State(trouble));
    corrected
}
