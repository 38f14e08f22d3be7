//! Schedules of timers: cron expressions in time zones.
//!
//! A crate of its own, so that the attributes refuse at compile time what the framework would refuse at the start. Promises that a schedule
//! that can be made comes again and again, and that a change of the clocks neither loses a run nor makes one twice. Must not know timers, nor
//! the time it is.

use std::fmt;

use cronexpr::{Crontab, FallbackTimezoneOption, MakeTimestamp, ParseOptions, parse_crontab_with};
use jiff::civil::{DateTime, date};
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use jiff::{SignedDuration, Timestamp, ToSpan as _};

/// When a timer is to be called: a cron expression in a time zone.
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
    /// Asked for times without a zone: the zone is our own business.
    times: Crontab,
    zone: TimeZone,
    /// It is for every minute or hour, or every few of them.
    is_frequent: bool,
}

/// What is wrong with a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScheduleError {
    /// The expression cannot be read.
    Syntax {
        /// The expression.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No day is like that.
    NeverComes {
        /// The expression.
        text: String,
    },
    /// There is no such time zone.
    UnknownZone {
        /// The zone.
        zone: String,
    },
}

/// What Kubernetes takes in place of five fields, too.
const NAMED: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// The library looks so many years ahead.
const YEARS_AT_ONCE: i64 = 4;
/// So often it is asked: what comes at all comes within 40 years, as the 29th of February on a certain day of the week.
const LOOKS: usize = 12;

// === impl Schedule ===

impl Schedule {
    /// The schedule of a cron expression: minute, hour, day of the month, month, day of the week. The zone is a name of the IANA database, UTC
    /// where there is none.
    ///
    /// # Errors
    /// Where the expression cannot be read, never comes, or there is no such zone.
    pub fn parse(text: &str, zone: Option<&str>) -> Result<Self, ScheduleError> {
        let times = times(text)?;
        let schedule = Self {
            text: text.into(),
            times,
            zone: zone.map_or(Ok(TimeZone::UTC), find_zone)?,
            is_frequent: fields(text).iter().take(2).any(|it| it.starts_with('*')),
        };
        // Whether it ever comes is the same in each of these years.
        let long_ago = date(2000, 1, 1).at(0, 0, 0, 0);
        match schedule.next_civil(long_ago) {
            Some(_) => Ok(schedule),
            None => Err(ScheduleError::NeverComes { text: text.into() }),
        }
    }

    /// The first time after `after`; `None` where `jiff` has no time as late as that.
    ///
    /// Where clocks are put forward, a run for a time that is left out is due at the end of the gap, once. Where they are put back, a run for
    /// an hour that comes twice is due when it comes first. What is for every minute or hour, or every few of them (`*/15 * * * *`,
    /// `0 * * * *`), just goes by the clocks: it has no runs in the gap, and runs in both of the hours.
    #[must_use]
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        if self.is_frequent {
            self.next_on_the_clocks(after)
        } else {
            self.next_of_each_once(after)
        }
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

    /// When the clocks show this for the first time, or would, were it not left out.
    fn first_moment_of(&self, civil: DateTime) -> Option<Timestamp> {
        match self.zone.to_ambiguous_timestamp(civil).offset() {
            AmbiguousOffset::Unambiguous { offset }
            | AmbiguousOffset::Fold { before: offset, .. } => offset.to_timestamp(civil).ok(),
            AmbiguousOffset::Gap { before, .. } => {
                let within = before.to_timestamp(civil).ok()?;
                let behind = within.checked_add(SignedDuration::from_secs(1)).ok()?;
                let change = self.zone.preceding(behind).next()?;
                Some(change.timestamp())
            }
        }
    }

    /// The next time that the expression means, whatever the zone.
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
    let syntax = |reason: String| ScheduleError::Syntax {
        text: text.to_owned(),
        reason,
    };
    let fields = fields(text);
    if fields.len() != 5 {
        return Err(syntax(
            "expected five fields, which are the minute, the hour, the day of the month, the month and the day of the week, or a name such as \
             `@daily`"
                .to_owned(),
        ));
    }
    // The library takes it for the last day, and never finds one in December.
    if [fields[2], fields[4]]
        .iter()
        .any(|it| it.contains(['L', 'l']))
    {
        return Err(syntax(
            "`L`, the last day of a month, is not supported; expected days by their numbers, or days of the week by their names"
                .to_owned(),
        ));
    }
    let mut options = ParseOptions::default();
    options.fallback_timezone_option = FallbackTimezoneOption::UTC;
    parse_crontab_with(&fields.join(" "), options).map_err(|error| {
        let said = error.to_string();
        // Before that, it shows the expression again, and points at the place.
        let reason = said.rsplit_once("^ ").map_or(said.as_str(), |(_, it)| it);
        syntax(reason.to_owned())
    })
}

fn find_zone(name: &str) -> Result<TimeZone, ScheduleError> {
    TimeZone::get(name).map_err(|_| ScheduleError::UnknownZone {
        zone: name.to_owned(),
    })
}

// === impl ScheduleError ===

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax { text, reason } => {
                write!(f, "`schedule` cannot be understood: `{text}`: {reason}")
            }
            Self::NeverComes { text } => write!(
                f,
                "`schedule` never comes: no day is in a month and on a day as `{text}` says"
            ),
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
