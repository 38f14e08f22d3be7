//! Parses cron schedules and time zones, and finds the next time at which a schedule is due.
//!
//! Supports the standard form with five fields, names of months and days, and descriptors such as `@hourly`.
//! Independent of objects and clocks.

use jiff::civil::DateTime;
use jiff::{Timestamp, ToSpan as _};

use crate::schema::go::duration;

/// The range of a field, and the names of its values.
struct Bounds {
    from: u32,
    to: u32,
    names: &'static str,
}

const FIELDS: [Bounds; 5] = [
    Bounds {
        from: 0,
        to: 59,
        names: "",
    },
    Bounds {
        from: 0,
        to: 23,
        names: "",
    },
    Bounds {
        from: 1,
        to: 31,
        names: "",
    },
    Bounds {
        from: 1,
        to: 12,
        names: " jan feb mar apr may jun jul aug sep oct nov dec",
    },
    Bounds {
        from: 0,
        to: 6,
        names: "sun mon tue wed thu fri sat",
    },
];

/// A parsed schedule: one bit per minute, hour, day, month and day of the week, and the fields given as `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    bits: [u64; 5],
    open: [bool; 5],
    every: Option<i64>,
}

/// Returns the errors of a schedule: for a time zone, which the real server still parses, and for the fields.
pub(super) fn complaints(text: &str) -> Vec<String> {
    let mut told = Vec::new();
    if text.contains("TZ") {
        told.push("cannot use TZ or CRON_TZ in schedule, use timeZone field instead".to_owned());
    }
    told.extend(without_zone(text).and_then(Schedule::parse).err());
    told
}

fn without_zone(text: &str) -> Result<&str, String> {
    let zoned = ["TZ=", "CRON_TZ="]
        .iter()
        .find_map(|start| text.strip_prefix(start));
    let Some(zoned) = zoned else {
        return Ok(text);
    };
    let Some((name, rest)) = zoned.split_once(' ') else {
        return Err(
            "invalid schedule format: runtime error: slice bounds out of range [:-1]".to_owned(),
        );
    };
    let doubted = !matches!(name, "" | "Local") && !jiff::tz::db().is_definitively_empty();
    if doubted && jiff::tz::TimeZone::get(name).is_err() {
        return Err(format!(
            "provided bad location {name}: unknown time zone {name}"
        ));
    }
    Ok(rest.trim())
}

/// Returns the errors of a time zone.
pub(super) fn zone(name: &str) -> Vec<String> {
    let is_fine = |part: &str| {
        let letters = |c: char| c.is_ascii_alphanumeric() || "._-+".contains(c);
        (1..=14).contains(&part.len())
            && !matches!(part, "." | "..")
            && !part.starts_with('-')
            && part.chars().all(letters)
    };
    if name.is_empty() {
        return vec!["timeZone must be nil or non-empty string".to_owned()];
    }
    let unknown = || format!("unknown time zone {name}");
    if !name.split('/').all(is_fine) {
        return vec![unknown()];
    }
    let mut messages = Vec::new();
    if name.eq_ignore_ascii_case("local") {
        messages.push(
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
                .to_owned(),
        );
    }
    let is_gos = name == "Local";
    // Without a time zone database on this system, every zone passes.
    let doubted = !is_gos && !jiff::tz::db().is_definitively_empty();
    if doubted && jiff::tz::TimeZone::get(name).is_err() {
        messages.push(unknown());
    }
    messages
}

// === impl Schedule ===

impl Schedule {
    /// Parses a schedule.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not a schedule.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if let Some(time) = text.strip_prefix("@every ") {
            let nanos = duration::nanos(time).map_err(|why| {
                let shown = duration::quoted(time);
                format!("failed to parse duration {text}: time: {why} {shown}")
            })?;
            return Ok(Self {
                bits: [0; 5],
                open: [false; 5],
                every: Some((nanos / 1_000_000_000).max(1)),
            });
        }
        let text = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other if other.starts_with('@') => {
                return Err(format!("unrecognized descriptor: {other}"));
            }
            other => other,
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.len() != FIELDS.len() {
            let (count, shown) = (words.len(), words.join(" "));
            return Err(format!(
                "expected exactly 5 fields, found {count}: [{shown}]"
            ));
        }
        let (mut bits, mut open) = ([0; 5], [false; 5]);
        for (at, (word, bounds)) in words.iter().zip(&FIELDS).enumerate() {
            for part in word.split(',').filter(|part| !part.is_empty()) {
                bits[at] |= range(part, bounds)?;
                open[at] |= part.starts_with(['*', '?']) && !part.contains('/');
            }
        }
        Ok(Self {
            bits,
            open,
            every: None,
        })
    }

    /// Returns the first time after `after` at which the schedule is due, within four years.
    pub(crate) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        if let Some(seconds) = self.every {
            return after.checked_add(seconds.seconds()).ok();
        }
        let zone = jiff::tz::TimeZone::UTC;
        let start = after.to_zoned(zone.clone()).datetime();
        let mut at = start.with().second(0).subsec_nanosecond(0).build().ok()?;
        at = at.checked_add(1.minute()).ok()?;
        let end = start.checked_add(4.years()).ok()?;
        while at < end {
            if !self.has_day(at) {
                at = at.checked_add(1.day()).ok()?;
                at = at.with().hour(0).minute(0).build().ok()?;
            } else if !self.has(1, at.hour()) {
                at = at.checked_add(1.hour()).ok()?;
                at = at.with().minute(0).build().ok()?;
            } else if !self.has(0, at.minute()) {
                at = at.checked_add(1.minute()).ok()?;
            } else {
                return at.to_zoned(zone).ok().map(|found| found.timestamp());
            }
        }
        None
    }

    fn has(&self, field: usize, value: i8) -> bool {
        self.bits[field] >> u32::try_from(value).unwrap_or(63) & 1 == 1
    }

    /// Checks the day: if both day fields are restricted, one match is enough.
    fn has_day(&self, at: DateTime) -> bool {
        let (day, week) = (
            self.has(2, at.day()),
            self.has(4, at.weekday().to_sunday_zero_offset()),
        );
        let days = if self.open[2] || self.open[4] {
            day && week
        } else {
            day || week
        };
        self.has(3, at.month()) && days
    }
}

fn range(text: &str, bounds: &Bounds) -> Result<u64, String> {
    let parts: Vec<&str> = text.split('/').collect();
    let ends: Vec<&str> = parts[0].split('-').collect();
    let (from, mut to) = match ends.as_slice() {
        ["*" | "?", ..] => (bounds.from, bounds.to),
        [one] => {
            let one = number_or_name(one, bounds)?;
            (one, one)
        }
        [from, to] => (number_or_name(from, bounds)?, number_or_name(to, bounds)?),
        _ => return Err(format!("too many hyphens: {text}")),
    };
    let step = match parts.as_slice() {
        [_] => 1,
        [_, step] => {
            if ends.len() == 1 {
                to = bounds.to;
            }
            number(step)?
        }
        _ => return Err(format!("too many slashes: {text}")),
    };
    if from < bounds.from {
        let least = bounds.from;
        return Err(format!(
            "beginning of range ({from}) below minimum ({least}): {text}"
        ));
    }
    if to > bounds.to {
        let most = bounds.to;
        return Err(format!(
            "end of range ({to}) above maximum ({most}): {text}"
        ));
    }
    if from > to {
        return Err(format!(
            "beginning of range ({from}) beyond end of range ({to}): {text}"
        ));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    let chosen = (from..=to).step_by(usize::try_from(step).unwrap_or(usize::MAX));
    Ok(chosen.fold(0, |bits, value| bits | 1 << value))
}

fn number_or_name(text: &str, bounds: &Bounds) -> Result<u32, String> {
    let name = text.to_lowercase();
    let at = bounds
        .names
        .split(' ')
        .position(|known| known == name && !name.is_empty());
    match at {
        Some(at) => Ok(u32::try_from(at).unwrap_or_default()),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u32, String> {
    let Ok(found) = text.parse::<i64>() else {
        return Err(format!(
            "failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax"
        ));
    };
    u32::try_from(found).map_err(|_| format!("negative number ({found}) not allowed: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_by_table() {
        for (text, from, next) in [
            (
                "*/15 * * * *",
                "2026-01-01T10:07:30Z",
                "2026-01-01T10:15:00Z",
            ),
            ("0 3 * * *", "2026-01-31T10:00:00Z", "2026-02-01T03:00:00Z"),
            (
                "0 0 29 feb *",
                "2026-03-01T00:00:00Z",
                "2028-02-29T00:00:00Z",
            ),
            (
                "30 8 * * mon-fri",
                "2026-01-02T09:00:00Z",
                "2026-01-05T08:30:00Z",
            ),
            ("@hourly", "2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z"),
        ] {
            let schedule = Schedule::parse(text).unwrap();
            let due = schedule.next(from.parse().unwrap()).unwrap();
            assert_eq!(due.to_string(), next, "{text}");
        }
        for text in [
            "",
            "* * * *",
            "60 * * * *",
            "a * * * *",
            "5-1 * * * *",
            "@never",
            "*/0 * * * *",
        ] {
            assert!(!complaints(text).is_empty(), "{text}");
        }
    }
}
