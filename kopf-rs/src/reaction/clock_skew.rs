//! Corrects record times that lie implausibly far in the future, because the clock of a former operator was ahead or the record was edited.
//! Taken literally, such a record would block its handler for years.
//!
//! The record itself shows the longest possible delay: requested delays are stored if they are longer than usual. Kopf's formats and users'
//! storages have no place for that: there, if the begin lies in the future too, the delay is at most the time between the two. Must not know
//! why the record is read.

use std::time::Duration;

use jiff::Timestamp;

use crate::handler::definition::Handler;
use crate::happening::handling::Handling;
use crate::reaction::limits::since;
use crate::state::Persistence;
use crate::state::progress::{Record, USUAL_DELAY, micros};

/// The tolerated difference between the clocks of machines.
const SLACK: Duration = Duration::from_secs(60);
/// Longer delays count as mistakes if the requested delay is unknown.
const MONTH: Duration = Duration::from_secs(31 * 24 * 3600);

/// Returns the record from the object with corrected times, and reports the correction.
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
    let usual = handler.retry.backoff.unwrap_or_default().max(USUAL_DELAY);
    let is_known = record.wait.is_some() || persistence.progress.keeps_targets();
    // By the clock of that time, the next attempt was planned this much later than the first one.
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
        Handling::NextAttemptAhead { id, at: record.delayed, pause: longest }
    } else {
        let at = record.started;
        Handling::FirstAttemptAhead { id, at }
    };
    if is_ahead {
        corrected.started = micros(now);
    }
    told.push(trouble);
    corrected
}
