//! What one attempt means: the outcome table (rows 6 and 14 of `docs/coming-from-kopf.md`), and Kopf's words for it.
//!
//! Must not know other handlers, nor what is written.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tracing::Level;

use crate::handler::definition::Handler;
use crate::handler::options::ErrorsMode;
use crate::handler::outcome::Outcome;
use crate::object::python::{seconds, timedelta};
use crate::reaction::line::Line;
use crate::reaction::member::{Exhausted, since};
use crate::state::progress::{Record, micros};

/// Longer messages are cut in the middle: they are kept on the object.
const LONGEST_MESSAGE: usize = 4096;

/// The chance of the next attempt: one random number has to do for all, and a golden step keeps them apart.
pub(super) fn next_chance(chance: f64) -> f64 {
    (chance + 0.618).fract()
}

/// Judges attempts made at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judge {
    pub(crate) now: Timestamp,
    /// First and longest delay after arbitrary errors.
    pub(crate) backoff: (Duration, Duration),
    /// In `0.0..1.0`.
    pub(crate) chance: f64,
}

/// What has become of the handler.
enum Verdict {
    Success(Option<Value>),
    Ignored,
    Failure,
    /// A failure because of a limit: Kopf keeps the whole line as its message.
    GivenUp,
    Retry(Duration),
}

impl Judge {
    /// Enter the outcome of an attempt into the record. Gives the result, if there is one.
    pub(crate) fn attempted(
        &self,
        handler: &Handler,
        record: &mut Record,
        outcome: Outcome,
        lines: &mut Vec<Line>,
    ) -> Option<Value> {
        let (verdict, words, message) = match outcome {
            Outcome::Succeeded(result) => (Verdict::Success(result), "succeeded.".into(), None),
            Outcome::Temporary { message, delay } => {
                let (verdict, words) = self.temporary(handler, record, delay);
                (verdict, format!("{words}: {message}"), Some(message))
            }
            Outcome::Permanent { message } => (
                Verdict::Failure,
                format!("failed permanently: {message}"),
                Some(message),
            ),
            Outcome::Arbitrary { message } => {
                let (verdict, words) = self.arbitrary(handler, record);
                let text = format!("failed with an exception and will {words}: {message}");
                (verdict, text, Some(message))
            }
            Outcome::Waiting => return None,
            Outcome::TimedOut { after } => {
                let words = format!("has timed out after {}.", timedelta(after));
                let message = format!("{handler} {words}");
                (Verdict::Failure, words, Some(message))
            }
        };
        let good = matches!(verdict, Verdict::Success(_));
        let level = if good { Level::INFO } else { Level::ERROR };
        let text = format!("{handler} {words}");
        let message = match verdict {
            Verdict::GivenUp => Some(text.clone()),
            _ => message,
        };
        lines.push(Line::new(level, text));
        self.enter(record, verdict, message)
    }

    /// Fail a handler whose limits are reached, without a call.
    pub(crate) fn exhausted(
        &self,
        handler: &Handler,
        record: &mut Record,
        exhausted: Exhausted,
        lines: &mut Vec<Line>,
    ) {
        let words = match exhausted {
            Exhausted::Timeout(runtime) => format!("has timed out after {}.", timedelta(runtime)),
            Exhausted::Retries(limit) => format!("has exceeded {limit} retries."),
        };
        let text = format!("{handler} {words}");
        lines.push(Line::new(Level::ERROR, text.clone()));
        self.enter(record, Verdict::Failure, Some(text));
    }

    fn temporary(&self, handler: &Handler, record: &Record, delay: Duration) -> (Verdict, String) {
        let failed = "failed temporarily";
        match self.look_ahead(handler, record, delay) {
            None => (Verdict::Retry(delay), failed.to_owned()),
            Some(Exhausted::Timeout(timeout)) => (
                Verdict::GivenUp,
                format!(
                    "{failed} but will time out after {} seconds",
                    seconds(timeout)
                ),
            ),
            Some(Exhausted::Retries(limit)) => (
                Verdict::GivenUp,
                format!("{failed} but will exceed {limit} retries"),
            ),
        }
    }

    fn arbitrary(&self, handler: &Handler, record: &Record) -> (Verdict, String) {
        match handler.errors() {
            ErrorsMode::Ignored => return (Verdict::Ignored, "ignore it".to_owned()),
            ErrorsMode::Permanent => return (Verdict::Failure, "stop now".to_owned()),
            ErrorsMode::Temporary => {}
        }
        let fixed = handler.backoff();
        let delay = fixed.unwrap_or_else(|| self.growing(record.retries));
        match self.look_ahead(handler, record, delay) {
            None => (
                Verdict::Retry(delay),
                format!("try again in {} seconds", seconds(delay)),
            ),
            Some(Exhausted::Timeout(timeout)) => (
                Verdict::GivenUp,
                format!(
                    "stop now (it would time out in {} seconds on the next attempt)",
                    seconds(timeout)
                ),
            ),
            Some(Exhausted::Retries(limit)) => (
                Verdict::GivenUp,
                format!("stop now (it would exceed {limit} retries on the next attempt)"),
            ),
        }
    }

    /// Whether another attempt after `delay` would be beyond the handler's limits.
    fn look_ahead(&self, handler: &Handler, record: &Record, delay: Duration) -> Option<Exhausted> {
        let runtime = since(record.started, self.now);
        if let Some(timeout) = handler
            .timeout()
            .filter(|it| runtime.saturating_add(delay) >= *it)
        {
            return Some(Exhausted::Timeout(timeout));
        }
        let limit = handler.retries()?;
        (record.retries.saturating_add(1) >= limit).then_some(Exhausted::Retries(limit))
    }

    /// Doubled with every attempt, give or take a fifth, never above the longest.
    pub(super) fn growing(&self, retries: u32) -> Duration {
        const SPREAD: f64 = 0.2;
        let (first, longest) = self.backoff;
        let plain = first.saturating_mul(2_u32.saturating_pow(retries.min(31)));
        let plain = plain.min(longest.div_f64(1.0 + SPREAD));
        let delay = plain.mul_f64(1.0 - SPREAD + 2.0 * SPREAD * self.chance.clamp(0.0, 1.0));
        Duration::from_millis(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX))
    }

    fn enter(
        &self,
        record: &mut Record,
        verdict: Verdict,
        message: Option<String>,
    ) -> Option<Value> {
        let now = micros(self.now);
        record.retries = record.retries.saturating_add(1);
        record.wait_until(None, now);
        record.message = message.map(|message| shortened(&message, LONGEST_MESSAGE));
        match verdict {
            Verdict::Retry(delay) => {
                record.wait_until(Some(later(now, delay)), now);
                return None;
            }
            Verdict::Failure | Verdict::GivenUp => record.failure = true,
            Verdict::Success(_) | Verdict::Ignored => {
                record.success = true;
                record.message = None;
            }
        }
        record.stopped = Some(now);
        match verdict {
            Verdict::Success(result) => result.filter(|it| !it.is_null()),
            _ => None,
        }
    }
}

/// What has gone wrong, of a record's message that may be a whole line.
pub(super) fn bare<'a>(handler: &Handler, message: &'a str) -> &'a str {
    let line = message
        .strip_prefix(&handler.to_string())
        .and_then(|line| line.strip_prefix(' '));
    let Some(line) = line else {
        return message;
    };
    let begins = |words: &&str| line.starts_with(words);
    let given_up = [
        "failed temporarily but will ",
        "failed with an exception and will ",
    ];
    if given_up.iter().any(begins) {
        line.split_once(": ").map_or(line, |(_, why)| why)
    } else {
        line.strip_suffix('.').unwrap_or(line)
    }
}

fn later(now: Timestamp, delay: Duration) -> Timestamp {
    now.checked_add(delay).map_or(Timestamp::MAX, micros)
}

/// `text`, or its beginning and its end.
pub(crate) fn shortened(text: &str, longest: usize) -> String {
    if text.len() <= longest {
        return text.to_owned();
    }
    let half = longest.saturating_sub(3) / 2;
    let head = (0..=half).rev().find(|at| text.is_char_boundary(*at));
    let tail = (text.len() - half..=text.len()).find(|at| text.is_char_boundary(*at));
    format!(
        "{}...{}",
        &text[..head.unwrap_or(0)],
        &text[tail.unwrap_or(text.len())..]
    )
}
