//! Points in time as Go parses and formats them, and durations as CEL formats them.
//!
//! A point in time keeps the zone offset it was written with. Independent of expressions.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// The first and the last second that CEL supports.
const FIRST: i64 = -62_135_596_800;
const LAST: i64 = 253_402_300_799;

const SECOND: i64 = 1_000_000_000;

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// A point in time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// Nanoseconds since 1970.
    pub(crate) at: i128,
    /// The zone offset in seconds.
    offset: i32,
}

// === impl Moment ===

impl Moment {
    /// Parses an RFC 3339 timestamp; `T` and `Z` must be capitals.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let octets = text.as_bytes();
        if octets.get(10) != Some(&b'T') || octets.get(13) != Some(&b':') {
            return None;
        }
        let (civil, offset) = if let Some(civil) = text.strip_suffix('Z') {
            (civil, 0)
        } else {
            let start = text.len().checked_sub(6)?;
            let zone = text.get(start..)?;
            let zone = Some(zone).filter(|zone| zone.starts_with(['+', '-']))?;
            (&text[..start], 60 * minutes(zone)?)
        };
        let plain = |letter: char| letter.is_ascii_digit() || "-T:.".contains(letter);
        let civil: DateTime = civil.chars().all(plain).then(|| civil.parse().ok())??;
        let at = EPOCH.duration_until(civil).as_nanos() - i128::from(offset) * i128::from(SECOND);
        Self { at, offset }.within()
    }

    /// Returns the time `seconds` after 1970.
    pub(crate) fn from_seconds(seconds: i64) -> Option<Self> {
        let at = i128::from(seconds) * i128::from(SECOND);
        Self { at, offset: 0 }.within()
    }

    fn within(self) -> Option<Self> {
        (FIRST..=LAST).contains(&self.seconds()).then_some(self)
    }

    pub(crate) fn seconds(self) -> i64 {
        i64::try_from(self.at.div_euclid(i128::from(SECOND))).unwrap_or_default()
    }

    /// Returns the time `nanos` later.
    pub(crate) fn plus(self, nanos: i64) -> Option<Self> {
        let at = self.at + i128::from(nanos);
        Self { at, ..self }.within()
    }

    /// Returns the nanoseconds since another point in time.
    pub(crate) fn since(self, other: Self) -> Option<i64> {
        i64::try_from(self.at - other.at).ok()
    }

    fn ahead(self, seconds: i32) -> DateTime {
        let nanos = self.at + i128::from(seconds) * i128::from(SECOND);
        let whole = nanos.div_euclid(i128::from(SECOND));
        let rest = nanos.rem_euclid(i128::from(SECOND));
        let whole = i64::try_from(whole).unwrap_or_default();
        let rest = i32::try_from(rest).unwrap_or_default();
        EPOCH.saturating_add(SignedDuration::new(whole, rest))
    }

    /// Returns the date and time in the given zone, or in its own; the error says why the zone is invalid.
    pub(crate) fn civil(self, zone: Option<&str>) -> Result<DateTime, String> {
        let Some(zone) = zone else {
            return Ok(self.ahead(self.offset));
        };
        if !zone.contains(':') {
            let name = if zone.is_empty() { "UTC" } else { zone };
            let found = TimeZone::get(name).map_err(|_| format!("unknown time zone {zone}"))?;
            let at = self.at.clamp(
                Timestamp::MIN.as_nanosecond(),
                Timestamp::MAX.as_nanosecond(),
            );
            let at = Timestamp::from_nanosecond(at).unwrap_or_default();
            return Ok(self.ahead(found.to_offset(at).seconds()));
        }
        let parts = zone
            .splitn(2, ':')
            .find(|part| part.parse::<i32>().is_err());
        if let Some(part) = parts {
            return Err(format!("strconv.Atoi: parsing {part:?}: invalid syntax"));
        }
        let minutes = minutes(zone).unwrap_or_default();
        Ok(self.ahead(minutes.saturating_mul(60)))
    }
}

impl std::fmt::Display for Moment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let civil = self.ahead(self.offset);
        let (date, time) = (civil.date(), civil.time());
        write!(
            f,
            "{:04}-{:02}-{:02}",
            date.year(),
            date.month(),
            date.day()
        )?;
        write!(
            f,
            "T{:02}:{:02}:{:02}",
            time.hour(),
            time.minute(),
            time.second()
        )?;
        if time.subsec_nanosecond() != 0 {
            let fraction = format!("{:09}", time.subsec_nanosecond());
            write!(f, ".{}", fraction.trim_end_matches('0'))?;
        }
        if self.offset == 0 {
            return f.write_str("Z");
        }
        let sign = if self.offset < 0 { '-' } else { '+' };
        let minutes = self.offset.abs() / 60;
        write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

/// Parses an offset such as `-08:00` into minutes.
fn minutes(zone: &str) -> Option<i32> {
    let (hours, minutes) = zone.split_once(':')?;
    let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
    let minutes = if zone.starts_with('-') {
        -minutes
    } else {
        minutes
    };
    hours.checked_mul(60)?.checked_add(minutes)
}

/// Formats a duration in seconds, as CEL does.
#[expect(clippy::cast_precision_loss, reason = "Go makes a float of it, too")]
pub(crate) fn seconds(nanos: i64) -> String {
    let whole = nanos / SECOND;
    let part = nanos % SECOND;
    format!("{}s", whole as f64 + part as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::go::duration;

    #[test]
    fn durations_by_table() {
        for (text, nanos) in [
            ("1h30m", Some(5400 * SECOND)),
            ("-1.5s", Some(-1_500_000_000)),
            (".5ms", Some(500_000)),
            ("0", Some(0)),
            ("1d", None),
            ("", None),
            ("1", None),
            ("9999999h", None),
        ] {
            assert_eq!(duration::nanos(text).ok(), nanos, "{text}");
        }
        assert_eq!(seconds(1_500_000_000), "1.5s");
        assert_eq!(seconds(3600 * SECOND), "3600s");
    }

    #[test]
    fn moments_are_written_as_they_were_read() {
        for text in [
            "2024-01-02T03:04:05Z",
            "2024-01-02T03:04:05.25+02:00",
            "0001-01-01T00:00:00Z",
            "9999-12-31T23:59:59Z",
        ] {
            let found = Moment::parse(text).map(|moment| moment.to_string());
            assert_eq!(found.as_deref(), Some(text));
        }
        for text in [
            "2024-01-02 03:04:05Z",
            "2024-01-02T03:04:05",
            "2024-13-02T03:04:05Z",
            "9999-12-31T23:59:59-08:30",
            "later",
            "",
        ] {
            assert!(Moment::parse(text).is_none(), "{text}");
        }
    }
}
