//! The limits of attempts, and the outcome table (rows 6 and 14 of `docs/coming-from-kopf.md`).
//!
//! Must not know other handlers, the cycle of a handler, or the writes.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::handler::cause::Attempt;
use crate::handler::child_trouble::ChildTrouble;
use crate::handler::definition::{ErrorsMode, Handler};
use crate::handler::outcome::Outcome;
use crate::happening::handling::{AttemptEnd, Fate, Handling};
use crate::state::progress::{Record, micros, shortened};

/// The maximum length of messages, which are stored on the object. Longer ones are shortened in the middle.
const LONGEST_MESSAGE: usize = 4096;

/// Derives the random number for the next attempt: a plan has only one, and steps of the golden ratio spread the derived ones.
pub(super) fn next_random(random: f64) -> f64 {
    (random + 0.618).fract()
}

/// Returns the limit that `handler` has reached, if any. A timeout cannot expire before the first attempt.
pub(crate) fn limit_reached(handler: &Handler, record: &Record, now: Timestamp) -> Option<AttemptEnd> {
    let after = since(record.started, now);
    let is_over = |timeout| record.was_called() && after >= timeout;
    if handler.retry.timeout.is_some_and(is_over) {
        return Some(AttemptEnd::TimedOut { after });
    }
    let limit = handler.retry.retries?;
    (record.retries >= limit).then_some(AttemptEnd::RetriesExceeded { limit })
}

/// Returns the attempt information for a handler.
pub(crate) fn attempt(record: &Record, now: Timestamp) -> Attempt {
    Attempt {
        retry: record.retries,
        is_first: !record.was_called(),
        started: record.started,
        runtime: since(record.started, now),
        key: None,
    }
}

/// Returns the time from `then` to `now`, or zero if the clock was set back.
pub(crate) fn since(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then)).unwrap_or_default()
}

/// Evaluates attempts made at one time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judge {
    pub(crate) now: Timestamp,
    /// The first and the longest delay after arbitrary errors.
    pub(crate) backoff: (Duration, Duration),
    /// In `0.0..1.0`.
    pub(crate) random: f64,
}

impl Judge {
    /// Enters the outcome of an attempt into the record, and returns the result, if any.
    pub(crate) fn attempted(
        &self,
        handler: &Arc<Handler>,
        record: &mut Record,
        mut outcome: Outcome,
        told: &mut Vec<Handling>,
    ) -> Option<Value> {
        let result = outcome.take_result();
        let fate = |delay| match delay {
            Some(delay) => self.look_ahead(handler, record, delay),
            None => self.fate(handler, record),
        };
        let end = AttemptEnd::of(outcome, fate)?;
        self.enter(handler, record, end, told);
        result
    }

    /// Determines what follows an arbitrary error.
    fn fate(&self, handler: &Handler, record: &Record) -> Fate {
        match handler.errors() {
            ErrorsMode::Ignored => Fate::Ignored,
            ErrorsMode::Permanent => Fate::Stopped,
            ErrorsMode::Temporary => {
                let fixed = handler.retry.backoff;
                let delay = fixed.unwrap_or_else(|| self.growing(record.retries));
                self.look_ahead(handler, record, delay)
            }
        }
    }

    /// Schedules another attempt after `delay`, unless that would exceed the handler's limits.
    fn look_ahead(&self, handler: &Handler, record: &Record, delay: Duration) -> Fate {
        let runtime = since(record.started, self.now).saturating_add(delay);
        if let Some(timeout) = handler.retry.timeout.filter(|it| runtime >= *it) {
            return Fate::WouldTimeOut(timeout);
        }
        let retries = record.retries.saturating_add(1);
        match handler.retry.retries.filter(|limit| retries >= *limit) {
            Some(limit) => Fate::WouldExceed(limit),
            None => Fate::Retried { delay },
        }
    }

    /// Returns a delay that doubles with every attempt, plus up to a fifth. It is never below the first or above the longest delay.
    pub(super) fn growing(&self, retries: u32) -> Duration {
        const SPREAD: f64 = 0.2;
        let (first, longest) = self.backoff;
        let doubled = first.saturating_mul(2_u32.saturating_pow(retries.min(31)));
        let plain = doubled.min(longest.div_f64(1.0 + SPREAD)).max(first);
        let spread = plain.mul_f64(SPREAD * self.random.clamp(0.0, 1.0));
        let delay = plain.saturating_add(spread).min(longest);
        Duration::from_millis(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX))
    }

    /// Enters the end of an attempt, or a limit that the handler has reached, into the record.
    pub(crate) fn enter(
        &self,
        handler: &Arc<Handler>,
        record: &mut Record,
        end: AttemptEnd,
        told: &mut Vec<Handling>,
    ) {
        let now = micros(self.now);
        record.retries = record.retries.saturating_add(1);
        record.message = message(handler, &end).map(|it| shortened(&it, LONGEST_MESSAGE));
        record.wait_until(None, now);
        match end.fate() {
            Some(Fate::Retried { delay }) => {
                record.wait_until(Some(later(now, delay)), now);
            }
            None | Some(Fate::Ignored) => record.success = true,
            Some(_) => record.failure = true,
        }
        record.stopped = record.is_final().then_some(now);
        let handler = handler.clone();
        told.push(Handling::Attempted { handler, end });
    }
}

/// Returns the message for the record: the error, or the whole log line if a limit is reached, as in Kopf.
fn message<'a>(handler: &Handler, end: &'a AttemptEnd) -> Option<Cow<'a, str>> {
    match end {
        AttemptEnd::Succeeded | AttemptEnd::Arbitrary { fate: Fate::Ignored, .. } => None,
        AttemptEnd::Permanent { message, .. }
        | AttemptEnd::Temporary { message, fate: Fate::Retried { .. }, .. }
        | AttemptEnd::Arbitrary { message, fate: Fate::Retried { .. } | Fate::Stopped } => {
            Some(message.into())
        }
        _ => Some(format!("{handler} {end}").into()),
    }
}

/// Returns the error in a record's message, which may be a whole log line.
pub(super) fn bare<'a>(handler: &Handler, message: &'a str) -> &'a str {
    let line = message.strip_prefix(&handler.to_string()).and_then(|line| line.strip_prefix(' '));
    let Some(line) = line else {
        return message;
    };
    let begins = |words: &&str| line.starts_with(words);
    let given_up = ["failed temporarily but will ", "failed with an exception and will "];
    if given_up.iter().any(begins) {
        line.split_once(": ").map_or(line, |(_, why)| why)
    } else {
        line.strip_suffix('.').unwrap_or(line)
    }
}

fn later(now: Timestamp, delay: Duration) -> Timestamp {
    now.checked_add(delay).map_or(Timestamp::MAX, micros)
}

// === the classes of errors, as used in conditions ===

pub(super) const TEMPORARY: &str = "TemporaryError";
pub(super) const PERMANENT: &str = "PermanentError";
pub(super) const UNEXPECTED: &str = "UnexpectedError";
pub(super) const TIMED_OUT: &str = "TimedOut";
pub(super) const RETRIES_EXCEEDED: &str = "RetriesExceeded";

/// Returns the class of the error of a failed attempt.
pub(super) fn class_of(handling: &Handling) -> Option<&'static str> {
    let Handling::Attempted { end, .. } = handling else {
        return None;
    };
    match end.fate()? {
        Fate::Ignored => None,
        Fate::WouldTimeOut(_) => Some(TIMED_OUT),
        Fate::WouldExceed(_) => Some(RETRIES_EXCEEDED),
        Fate::Retried { .. } | Fate::Stopped => Some(match end {
            AttemptEnd::Temporary { child, .. } => child.map_or(TEMPORARY, ChildTrouble::reason),
            AttemptEnd::Permanent { child, .. } => child.map_or(PERMANENT, ChildTrouble::reason),
            AttemptEnd::Succeeded | AttemptEnd::Arbitrary { .. } => UNEXPECTED,
            AttemptEnd::TimedOut { .. } => TIMED_OUT,
            AttemptEnd::RetriesExceeded { .. } => RETRIES_EXCEEDED,
        }),
    }
}
