//! Durations, parsed as Go's `time.ParseDuration` does.
//!
//! Error messages match Go. Independent of the use of durations.

use std::fmt::Write as _;

/// The most nanoseconds of either sign.
const MOST: u128 = 1 << 63;

/// Parses a duration such as `1h30m` into nanoseconds.
pub(crate) fn nanos(text: &str) -> Result<i64, String> {
    let invalid = || Err("invalid duration".to_owned());
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(0);
    }
    let mut total: u128 = 0;
    loop {
        let is_digit = |c: char| c.is_ascii_digit();
        let (whole, tail) = split(rest, is_digit);
        let (fraction, tail) = match tail.strip_prefix('.') {
            Some(tail) => split(tail, is_digit),
            None => ("", tail),
        };
        let whole = if whole.is_empty() { "0" } else { whole };
        let nothing = rest.starts_with(|c: char| c != '.' && !c.is_ascii_digit());
        let dot = rest.starts_with('.') && fraction.is_empty();
        let Some(whole) = whole.parse().ok().filter(|whole: &u128| *whole <= MOST) else {
            return invalid();
        };
        if rest.is_empty() || nothing || dot {
            return invalid();
        }
        let (unit, tail) = split(tail, |c| c != '.' && !c.is_ascii_digit());
        if unit.is_empty() {
            return Err("missing unit in duration".to_owned());
        }
        let Some(nanos) = nanoseconds(unit) else {
            return Err(format!("unknown unit {} in duration", quoted(unit)));
        };
        total += whole * nanos + part(fraction, nanos);
        if total > MOST {
            return invalid();
        }
        if tail.is_empty() {
            break;
        }
        rest = tail;
    }
    let total = i128::try_from(total).unwrap_or(i128::MAX);
    i64::try_from(if negative { -total } else { total }).or_else(|_| invalid())
}

/// Returns the nanoseconds of a fraction of a unit.
fn part(fraction: &str, nanos: u128) -> u128 {
    // Further digits are less than a nanosecond.
    let digits = fraction.get(..fraction.len().min(18)).unwrap_or_default();
    let scale: u128 = digits.bytes().map(|_| 10).product();
    digits.parse::<u128>().unwrap_or(0) * nanos / scale
}

fn split(text: &str, is_in: impl Fn(char) -> bool) -> (&str, &str) {
    let end = text.find(|c| !is_in(c)).unwrap_or(text.len());
    text.split_at(end)
}

fn nanoseconds(unit: &str) -> Option<u128> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// Quotes a string as Go's `time` package does.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = "\"".to_owned();
    for byte in text.bytes() {
        if !(b' '..0x80).contains(&byte) {
            // Writing to a String cannot fail.
            let _infallible = write!(quoted, "\\x{byte:02x}");
            continue;
        }
        if matches!(byte, b'"' | b'\\') {
            quoted.push('\\');
        }
        quoted.push(char::from(byte));
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_by_table() {
        let unknown = "unknown unit \"x\" in duration";
        for (text, expected) in [
            ("1s", ""),
            ("-1.5h3ms", ""),
            (".5s", ""),
            ("1.s", ""),
            ("+0", ""),
            ("-9223372036854775808ns", ""),
            ("9223372036854775808ns", "invalid duration"),
            ("2562048h", "invalid duration"),
            ("1x", unknown),
            ("1", "missing unit in duration"),
            ("zz", "invalid duration"),
            ("1s ", "unknown unit \"s \" in duration"),
            (".s", "invalid duration"),
            ("-", "invalid duration"),
            ("1µ", "unknown unit \"\\xc2\\xb5\" in duration"),
        ] {
            assert_eq!(nanos(text).err().unwrap_or_default(), expected, "{text}");
        }
    }
}
