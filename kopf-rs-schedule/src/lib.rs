//! Schedules of timers, which are cron expressions in time zones, and the table of handler kinds and their options.
//!
//! This is a separate crate, so that the attributes can reject an invalid schedule or a foreign option at compile time,
//! by the same rules as the framework at startup. A schedule that can be parsed recurs forever, and a clock change
//! neither skips a run nor repeats one. This crate depends on neither timers nor the current time.

use std::fmt;

use cronexpr::{Crontab, FallbackTimezoneOption, MakeTimestamp, ParseOptions, parse_crontab_with};
use jiff::civil::{DateTime, date};
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use jiff::{SignedDuration, Timestamp, ToSpan as _};

mod kinds;

pub use crate::kinds::{HandlerKind, enumerated};

/// The schedule of a timer: a cron expression in a time zone.
///
/// ```
/// use kopf_rs_schedule::Schedule;
///
/// let nightly = Schedule::parse("0 3 * * *", Some("Europe/Kyiv")).unwrap();
/// let next = nightly.next("2026-01-31T12:00:00Z".parse().unwrap()).unwrap();
/// assert_eq!(next.to_string(), "2026-02-01T01:00:00Z");
/// ```
#[derive(Clone)]
pub struct Schedule {
    text: Box<str>,
    /// Works on local times without a zone; this type adds the zone.
    times: Crontab,
    zone: TimeZone,
    /// True if the schedule recurs every minute or hour, or every few of them.
    is_frequent: bool,
}

/// Why a schedule is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScheduleError {
    /// The expression cannot be parsed.
    Syntax {
        /// The expression.
        text: String,
        /// The parser's explanation.
        reason: String,
    },
    /// No date matches the expression.
    NeverComes {
        /// The expression.
        text: String,
    },
    /// The time zone does not exist.
    UnknownZone {
        /// The zone.
        zone: String,
    },
}

/// The names that Kubernetes accepts in place of five fields.
const NAMED: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// The library searches this many years ahead.
const YEARS_AT_ONCE: i64 = 4;
/// The maximum number of searches: each valid expression matches within 40 years, even February 29 on a certain day
/// of the week.
const LOOKS: usize = 12;

// === impl Schedule ===

impl Schedule {
    /// Parses a cron expression: minute, hour, day of the month, month, day of the week. The zone is a name of the
    /// IANA database; UTC if absent.
    ///
    /// # Errors
    /// Returns an error if the expression cannot be parsed or never matches, or if the zone does not exist.
    pub fn parse(text: &str, zone: Option<&str>) -> Result<Self, ScheduleError> {
        let times = times(text)?;
        let schedule = Self {
            text: text.into(),
            times,
            zone: zone.map_or(Ok(TimeZone::UTC), find_zone)?,
            is_frequent: fields(text).iter().take(2).any(|it| it.starts_with('*')),
        };
        // The start date does not matter for whether the expression ever matches.
        let long_ago = date(2000, 1, 1).at(0, 0, 0, 0);
        match schedule.next_civil(long_ago) {
            Some(_) => Ok(schedule),
            None => Err(ScheduleError::NeverComes { text: text.into() }),
        }
    }

    /// Returns the first time after `after`; `None` if it exceeds the range of `jiff`.
    ///
    /// If clocks go forward, a run at a skipped time is due once, at the end of the gap. If clocks go back, a run in
    /// the repeated hour is due at the first occurrence. Schedules for every minute or hour, or every few of them
    /// (`*/15 * * * *`, `0 * * * *`), simply follow the clock: they have no runs in the gap, and runs in both of the
    /// repeated hours.
    #[must_use]
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        if self.is_frequent { self.next_on_the_clocks(after) } else { self.next_of_each_once(after) }
    }

    fn next_on_the_clocks(&self, after: Timestamp) -> Option<Timestamp> {
        let mut offset = self.zone.to_offset(after);
        let mut from = after;
        let mut civil = offset.to_datetime(after);
        loop {
            let next = offset.to_timestamp(self.next_civil(civil)?).ok()?;
            let mut changes = self.zone.following(from);
            let change = changes.next().filter(|change| change.timestamp() <= next);
            let Some(change) = change else {
                return Some(next);
            };
            from = change.timestamp();
            offset = self.zone.to_offset(from);
            // The moment of the change itself counts.
            civil = offset.to_datetime(from);
            civil = civil.checked_sub(SignedDuration::from_secs(1)).ok()?;
        }
    }

    fn next_of_each_once(&self, after: Timestamp) -> Option<Timestamp> {
        let mut civil = self.zone.to_offset(after).to_datetime(after);
        loop {
            civil = self.next_civil(civil)?;
            let at = self.first_moment_of(civil)?;
            if at > after {
                return Some(at);
            }
        }
    }

    /// Returns when the clocks first show this time; for a skipped time, when they would have shown it.
    fn first_moment_of(&self, civil: DateTime) -> Option<Timestamp> {
        match self.zone.to_ambiguous_timestamp(civil).offset() {
            AmbiguousOffset::Unambiguous { offset } | AmbiguousOffset::Fold { before: offset, .. } => {
                offset.to_timestamp(civil).ok()
            }
            AmbiguousOffset::Gap { before, .. } => {
                let within = before.to_timestamp(civil).ok()?;
                let behind = within.checked_add(SignedDuration::from_secs(1)).ok()?;
                let change = self.zone.preceding(behind).next()?;
                Some(change.timestamp())
            }
        }
    }

    /// Returns the next matching local time, regardless of the zone.
    fn next_civil(&self, after: DateTime) -> Option<DateTime> {
        let mut from = after;
        for _ in 0..LOOKS {
            let asked = MakeTimestamp(Offset::UTC.to_timestamp(from).ok()?);
            if let Ok(found) = self.times.find_next(asked) {
                return Some(found.datetime());
            }
            from = from.checked_add(YEARS_AT_ONCE.years()).ok()?;
        }
        None
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let zone = self.zone.iana_name().unwrap_or("UTC");
        write!(f, "Schedule({:?} {zone})", self.text)
    }
}

fn fields(text: &str) -> Vec<&str> {
    let text = text.trim();
    let named = NAMED.iter().find(|(name, _)| *name == text);
    let text = named.map_or(text, |(_, fields)| *fields);
    text.split_whitespace().collect()
}

fn times(text: &str) -> Result<Crontab, ScheduleError> {
    let syntax = |reason: String| ScheduleError::Syntax { text: text.to_owned(), reason };
    let fields = fields(text);
    if fields.len() != 5 {
        return Err(syntax(
            "expected five fields, which are the minute, the hour, the day of the month, the month and the day of the week, or a name such as \
             `@daily`"
                .to_owned(),
        ));
    }
    // The library would parse it as the last day, which it never finds in December.
    if [fields[2], fields[4]].iter().any(|it| it.contains(['L', 'l'])) {
        return Err(syntax(
            "`L`, the last day of a month, is not supported; expected days by their numbers, or days of the week by their names"
                .to_owned(),
        ));
    }
    let mut options = ParseOptions::default();
    options.fallback_timezone_option = FallbackTimezoneOption::UTC;
    parse_crontab_with(&fields.join(" "), options).map_err(|error| {
        let said = error.to_string();
        // The text before this marker repeats the expression and points at the position.
        let reason = said.rsplit_once("^ ").map_or(said.as_str(), |(_, it)| it);
        syntax(reason.to_owned())
    })
}

fn find_zone(name: &str) -> Result<TimeZone, ScheduleError> {
    TimeZone::get(name).map_err(|_| ScheduleError::UnknownZone { zone: name.to_owned() })
}

// === impl ScheduleError ===

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax { text, reason } => {
                write!(f, "`schedule` cannot be understood: `{text}`: {reason}")
            }
            Self::NeverComes { text } => {
                write!(f, "`schedule` never comes: no day is in a month and on a day as `{text}` says")
            }
            Self::UnknownZone { zone } => write!(
                f,
                "`zone` is no time zone: `{zone}`; expected a name such as `Europe/Kyiv`, or none for UTC"
            ),
        }
    }
}

impl std::error::Error for ScheduleError {}

#[cfg(test)]
mod tests;
