//! Formats of addresses: IP, MAC, UUID, URI and host names.
//!
//! Accepts what Go's parsers and the real server's patterns accept, including their quirks. Independent of schemas.

use std::net::{IpAddr, Ipv4Addr};

use crate::cel::url::Url;

/// Checks an IPv4 address, which may have leading zeros and may be embedded in an IPv6 address.
pub(super) fn is_ipv4(text: &str) -> bool {
    text.contains('.') && sloppy(text).is_some()
}

pub(super) fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    let most = match sloppy(address) {
        Some(IpAddr::V4(_)) => 32,
        Some(IpAddr::V6(_)) => 128,
        None => return false,
    };
    let digits = length.bytes().all(|byte| byte.is_ascii_digit());
    digits && length.parse::<u8>().is_ok_and(|length| length <= most)
}

/// Parses an IP address whose decimal numbers may have leading zeros.
fn sloppy(text: &str) -> Option<IpAddr> {
    let (before, last) = match text.rsplit_once(':') {
        Some((before, last)) => (Some(before), last),
        None => (None, text),
    };
    if !last.contains('.') {
        return text.parse().ok();
    }
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let number = |part: &str| part.parse::<u8>().ok().filter(|_| digits(part));
    let numbers: Vec<u8> = last.split('.').map(number).collect::<Option<_>>()?;
    let address = Ipv4Addr::from(<[u8; 4]>::try_from(numbers).ok()?);
    match before {
        None => Some(address.into()),
        Some(before) => format!("{before}:{address}").parse().ok(),
    }
}

/// Checks a MAC address: pairs of digits with colons or dashes, groups of four with dots, or digits without separators.
pub(super) fn is_mac(text: &str) -> bool {
    let (separator, width) = match (text.as_bytes().get(2), text.as_bytes().get(4)) {
        (Some(b':'), _) => (":", 2),
        (Some(b'-'), _) => ("-", 2),
        (_, Some(b'.')) => (".", 4),
        _ => ("", text.len()),
    };
    let parts: Vec<&str> = match separator {
        "" => vec![text],
        separator => text.split(separator).collect(),
    };
    let digits = |part: &str| part.len() == width && part.bytes().all(|b| b.is_ascii_hexdigit());
    matches!(parts.len() * width, 12 | 16 | 40) && parts.into_iter().all(digits)
}

/// Checks a UUID, with or without dashes.
pub(super) fn is_uuid(text: &str, version: Option<u8>) -> bool {
    let (mut digits, mut rest) = (Vec::new(), text.as_bytes());
    for width in [8, 4, 4, 4, 12] {
        if !digits.is_empty() {
            rest = rest.strip_prefix(b"-").unwrap_or(rest);
        }
        let Some((group, tail)) = rest.split_at_checked(width) else {
            return false;
        };
        digits.extend_from_slice(group);
        rest = tail;
    }
    let variant = |byte: u8| {
        matches!(version, None | Some(b'3')) || matches!(byte, b'8' | b'9' | b'a' | b'b')
    };
    rest.is_empty()
        && digits.iter().all(u8::is_ascii_hexdigit)
        && version.is_none_or(|version| digits[12] == version)
        && variant(digits[16].to_ascii_lowercase())
}

/// Checks a URI: absolute, or a path that starts at the root.
pub(super) fn is_uri(text: &str) -> bool {
    Url::parse(text).is_ok()
}

/// Checks a host name with the real server's pattern: one label that may have a dash as its second character, or several labels, the last of letters.
pub(super) fn is_hostname(text: &str) -> bool {
    if text.len() > 255 || text.split('.').any(|label| label.len() > 63) {
        return false;
    }
    let letter = |c: char| c.is_ascii_digit() || is_letter_or_symbol(c);
    let Some((labels, last)) = text.rsplit_once('.') else {
        let mut letters = text.chars();
        let first = letters.next().is_some_and(letter);
        let rest = letters.as_str();
        return first && rest.strip_prefix('-').unwrap_or(rest).chars().all(letter);
    };
    let inner = |label: &str| {
        let ends = label.starts_with(letter) && label.ends_with(letter);
        ends && label.chars().all(|c| c == '-' || letter(c))
    };
    last.chars().count() >= 2
        && last.chars().all(char::is_alphabetic)
        && labels.split('.').all(inner)
}

/// Returns true for letters of any script and for symbols, such as currency signs, but not for punctuation.
fn is_letter_or_symbol(c: char) -> bool {
    match c {
        '$' | '+' | '<' | '=' | '>' | '^' | '`' | '|' | '~' => true,
        c if c.is_ascii() => c.is_ascii_alphabetic(),
        c => c.is_alphabetic() || !(c.is_numeric() || c.is_whitespace() || c.is_control()),
    }
}
