//! The formats of strings that schemas may ask for.
//!
//! Promise: accepts what the real server accepts, with Go's parsers in mind; a format that it does not know accepts
//! anything. Must not know schemas beyond the name of the format.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::Value;

use super::go::duration;
use crate::cel::moment::Moment;
use crate::rules::names;

/// The formats of texts, without dashes.
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

/// Whether a format is one of texts.
pub(super) fn is_of_text(format: &str) -> bool {
    !format.is_empty() && OF_TEXTS.contains(&format.replace('-', "").as_str())
}

/// The format of a schema, if it is one that goes with its type; else empty.
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

/// Whether a text has a format.
pub(crate) fn fits(text: &str, format: &str) -> bool {
    match format.replace('-', "").as_str() {
        "datetime" => is_time(text),
        "date" => text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(),
        "duration" => duration(text).is_some(),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uuid" => is_uuid(text, None),
        "uuid3" => is_uuid(text, Some(b'3')),
        "uuid4" => is_uuid(text, Some(b'4')),
        "uuid5" => is_uuid(text, Some(b'5')),
        "uri" => is_uri(text),
        "email" => is_email(text),
        "hostname" => is_hostname(text),
        "byte" => is_base64(text),
        "hexcolor" => is_hex_color(text),
        "k8sshortname" => names::label(text).is_none(),
        "k8slongname" => names::subdomain(text).is_none(),
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
        _ => true,
    }
}

fn is_time(text: &str) -> bool {
    // Go wants the T, where RFC 3339 allows a space.
    Moment::parse(&text.to_ascii_uppercase()).is_some()
}

/// The nanoseconds of a duration: as Go writes it, `1h30m`, or in words, `2 days and 1 hour`.
pub(crate) fn duration(text: &str) -> Option<i64> {
    duration::nanos(text).ok().or_else(|| in_words(text))
}

/// Numbers with units behind them, whatever is between.
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

/// What a unit is worth; the longest name of each may go on: `minutes`.
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

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    let most = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    length.parse::<u8>().is_ok_and(|length| length <= most)
}

fn is_mac(text: &str) -> bool {
    let parts: Vec<&str> = text.split([':', '-']).collect();
    matches!(parts.len(), 6 | 8 | 20)
        && parts
            .iter()
            .all(|part| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn is_uuid(text: &str, version: Option<u8>) -> bool {
    let plain: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
    let variant = |byte: &u8| {
        matches!(version, None | Some(b'3')) || matches!(byte, b'8' | b'9' | b'a' | b'b')
    };
    plain.len() == 32
        && plain.iter().all(u8::is_ascii_hexdigit)
        && version.is_none_or(|version| plain[12] == version)
        && variant(&plain[16].to_ascii_lowercase())
}

/// As Go's `url.ParseRequestURI`: absolute, or a path from the root.
fn is_uri(text: &str) -> bool {
    if text.starts_with('/') {
        return !text.contains(|c: char| c.is_control());
    }
    let Some((scheme, rest)) = text.split_once(':') else {
        return false;
    };
    let letters = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let host_has_space = rest
        .strip_prefix("//")
        .and_then(|rest| rest.split('/').next())
        .is_some_and(|host| host.contains(' '));
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(letters)
        && !host_has_space
        && !text.contains(|c: char| c.is_control())
}

fn is_email(text: &str) -> bool {
    let address = match text.rsplit_once('<') {
        Some((_, tail)) => tail.strip_suffix('>').unwrap_or(""),
        None => text,
    };
    let atom = |part: &str| {
        !part.is_empty()
            && part.split('.').all(|word| !word.is_empty())
            && !part.contains(|c: char| c.is_whitespace() || "@<>,;:\\\"()[]".contains(c))
    };
    address
        .rsplit_once('@')
        .is_some_and(|(local, domain)| atom(local) && atom(domain))
}

/// Labels whose last one has two letters or more.
fn is_hostname(text: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|c| c.is_alphanumeric() || c == '-')
    };
    let text = text.strip_suffix('.').unwrap_or(text);
    let last = text.rsplit('.').next().unwrap_or_default();
    text.len() <= 255
        && text.split('.').all(label)
        && last.chars().count() >= 2
        && (text.contains('.') || last.chars().all(char::is_alphanumeric) || label(text))
}

/// Groups of four, at least one, of which the last may be filled up.
fn is_base64(text: &str) -> bool {
    let letters = text.trim_end_matches('=');
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && text.len() - letters.len() <= 2
        && letters.bytes().all(letter)
}

fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
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
