//! The string formats of schemas.
//!
//! Accepts what the real server and Go's parsers accept; an unknown format accepts everything. Independent of the rest of the schema.

mod address;
mod counted;
mod email;

use std::net::Ipv6Addr;

use serde_json::Value;

use super::go::duration;
use crate::rules::names;

/// The formats of strings, without dashes.
const OF_TEXTS: [&str; 26] = [
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "datetime",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8slongname",
    "k8sshortname",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
];

/// Returns true if the format is one of strings.
pub(super) fn is_of_text(format: &str) -> bool {
    !format.is_empty() && OF_TEXTS.contains(&format.replace('-', "").as_str())
}

/// Returns the format of a schema if it suits the type, else an empty string.
pub(super) fn of(schema: &Value) -> &str {
    let text = |name: &str| schema.get(name).and_then(Value::as_str).unwrap_or_default();
    let format = text("format");
    let known = match text("type") {
        _ if super::is(schema, "x-kubernetes-int-or-string") => is_of_text(format),
        "" | "string" => is_of_text(format),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    };
    if known { format } else { "" }
}

/// Returns true if the string matches the format.
pub(crate) fn fits(text: &str, format: &str) -> bool {
    match format.replace('-', "").as_str() {
        "datetime" => is_time(text),
        "date" => is_date(text),
        "duration" => duration(text).is_some(),
        "ipv4" => address::is_ipv4(text),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => address::is_cidr(text),
        "mac" => address::is_mac(text),
        "uuid" => address::is_uuid(text, None),
        "uuid3" => address::is_uuid(text, Some(b'3')),
        "uuid4" => address::is_uuid(text, Some(b'4')),
        "uuid5" => address::is_uuid(text, Some(b'5')),
        "uri" => address::is_uri(text),
        "email" => email::is_email(text),
        "hostname" => address::is_hostname(text),
        "byte" => is_base64(text),
        "creditcard" => counted::is_credit_card(text),
        "hexcolor" => counted::is_hex_color(text),
        "isbn" => counted::is_isbn10(text) || counted::is_isbn13(text),
        "isbn10" => counted::is_isbn10(text),
        "isbn13" => counted::is_isbn13(text),
        "rgbcolor" => counted::is_rgb_color(text),
        "ssn" => counted::is_ssn(text),
        "k8sshortname" => names::label(text).is_none(),
        "k8slongname" => names::subdomain(text).is_none(),
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
        _ => true,
    }
}

/// Checks a date and time. Any character may precede the fraction of a second, and text after a second `T` is ignored, as in the real server.
fn is_time(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let mut parts = text.split('t');
    let (Some(day), Some(time)) = (parts.next(), parts.next()) else {
        return false;
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let clock = |text: &str| {
        let colons = text.get(2..3) == Some(":") && text.get(5..6).is_none_or(|sign| sign == ":");
        colons && text.split(':').all(|part| part.len() == 2 && digits(part))
    };
    let Some(hours) = time.get(..8).filter(|hours| clock(hours)) else {
        return false;
    };
    let within = hours <= "23:59:59" && &hours[3..5] <= "59" && &hours[6..] <= "59";
    let rest = &time[8..];
    let zone = rest.strip_suffix('z').or_else(|| {
        let (before, zone) = rest.split_at_checked(rest.len().checked_sub(6)?)?;
        let zone = zone.strip_prefix(['+', '-'])?;
        (zone.len() == 5 && clock(zone)).then_some(before)
    });
    let parts = |parts: &str| {
        let mut letters = parts.chars();
        letters.next().is_none() || !letters.as_str().is_empty() && digits(letters.as_str())
    };
    within && is_date(day) && zone.is_some_and(parts)
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

/// Parses a duration into nanoseconds, in Go's notation (`1h30m`) or in words (`2 days and 1 hour`).
pub(crate) fn duration(text: &str) -> Option<i64> {
    duration::nanos(text).ok().or_else(|| in_words(text))
}

/// Adds up all numbers with units and ignores the text between them.
fn in_words(text: &str) -> Option<i64> {
    let mut rest = text;
    let mut found = None;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        rest = &rest[start..];
        let end = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (digits, tail) = rest.split_at(end);
        let tail = tail.trim_start();
        let letter = |c: char| c.is_ascii_alphabetic() || c == 'µ';
        let end = tail.find(|c| !letter(c)).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        rest = tail;
        if unit.is_empty() {
            continue;
        }
        let number: i64 = digits.parse().ok()?;
        if let Some(nanos) = nanoseconds(&unit.to_lowercase()) {
            found = Some(
                found
                    .unwrap_or(0_i64)
                    .wrapping_add(number.wrapping_mul(nanos)),
            );
        }
    }
    found
}

/// Returns the nanoseconds of a unit; more letters may follow the longest name of a unit, as in `minutes`.
fn nanoseconds(unit: &str) -> Option<i64> {
    const SECOND: i64 = 1_000_000_000;
    let units: [(&[&str], i64); 8] = [
        (&["ns", "nano"], 1),
        (&["us", "µs", "micro"], 1_000),
        (&["ms", "milli"], 1_000_000),
        (&["s", "sec"], SECOND),
        (&["m", "min"], 60 * SECOND),
        (&["h", "hr", "hour"], 3600 * SECOND),
        (&["d", "day"], 24 * 3600 * SECOND),
        (&["w", "wk", "week"], 7 * 24 * 3600 * SECOND),
    ];
    let is = |names: &[&str]| {
        let longest = names
            .last()
            .is_some_and(|longest| unit.starts_with(longest));
        longest || names.contains(&unit)
    };
    units
        .iter()
        .find(|(names, _)| is(names))
        .map(|(_, nanos)| *nanos)
}

/// Checks base64: at least one group of four characters; only the last group may be padded.
fn is_base64(text: &str) -> bool {
    let letters = text.trim_end_matches('=');
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && text.len() - letters.len() <= 2
        && letters.bytes().all(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_by_table() {
        for (format, good, bad) in [
            ("date-time", "2020-01-01T00:00:00Z", "2020-01-01 00:00:00Z"),
            ("date", "2020-12-01", "2020-13-01"),
            ("duration", "1h30m", "forever"),
            ("duration", "2 days, 1 Hour", "1 month"),
            ("duration", "1.5 hours", "P"),
            ("ipv4", "1.2.3.4", "1.2.3"),
            ("ipv6", "::1", "1.2.3.4"),
            ("cidr", "10.0.0.0/8", "10.0.0.0"),
            ("mac", "00:00:5e:00:53:01", "xyz"),
            ("uuid", "00000000-0000-0000-0000-000000000000", "xyz"),
            ("uri", "http://a/b", "not a uri"),
            ("email", "a@b.c", "nobody"),
            ("hostname", "a.example", "-a"),
            ("byte", "YQ==", "%%%"),
            ("byte", "YWJj", ""),
        ] {
            assert!(fits(good, format), "{format} {good}");
            assert!(!fits(bad, format), "{format} {bad}");
        }
        assert!(fits("anything", "password"));
    }
}
