//! Number, string and bytes literals.
//!
//! Decodes each literal to its exact value. Independent of the surrounding expression.

use super::parse::is_word;
use super::tree::Part;

/// Reads the number at `start`; returns it and its end.
pub(super) fn number(letters: &[char], start: usize) -> (Part, usize) {
    let mut at = start;
    while let Some(letter) = letters.get(at).copied() {
        let sign = matches!(letter, '+' | '-')
            && at > start
            && matches!(letters[at - 1], 'e' | 'E')
            && !letters[start..at].contains(&'x');
        let point = letter == '.' && letters.get(at + 1).is_some_and(char::is_ascii_digit);
        if !is_word(letter) && !point && !sign {
            break;
        }
        at += 1;
    }
    let text: String = letters[start..at].iter().collect();
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    // The syntax check rejects numbers that exceed their type, so the value here does not matter.
    let whole = |text: &str| match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).unwrap_or_default(),
        None => text.parse().unwrap_or_default(),
    };
    let part = if let Some(text) = text.strip_suffix(['u', 'U']) {
        Part::Uint(whole(text))
    } else if hex.is_none() && text.contains(['.', 'e', 'E']) {
        Part::Double(text.parse().unwrap_or_default())
    } else {
        Part::Int(whole(&text).cast_signed())
    };
    (part, at)
}

/// Reads the string or bytes literal at `start`; the inner `None` means that the literal has no end or is invalid.
#[expect(clippy::option_option, reason = "not there, or there and not right")]
pub(super) fn quoted(letters: &[char], start: usize) -> Option<Option<(Part, usize)>> {
    let (mut at, mut raw, mut bytes) = (start, false, false);
    while let Some(letter @ ('r' | 'R' | 'b' | 'B')) = letters.get(at).copied() {
        raw |= letter.eq_ignore_ascii_case(&'r');
        bytes |= letter.eq_ignore_ascii_case(&'b');
        at += 1;
    }
    let quote = *letters
        .get(at)
        .filter(|letter| matches!(letter, '"' | '\''))?;
    let three = letters.get(at..at + 3) == Some(&[quote; 3][..]);
    let width = if three { 3 } else { 1 };
    at += width;
    let (mut text, mut octets) = (String::new(), Vec::new());
    let encoded = |letter: char| letter.to_string().into_bytes();
    loop {
        let Some(letter) = letters.get(at).copied() else {
            return Some(None);
        };
        if letter == '\\' && !raw {
            let (meant, width, octet) = escaped(&letters[at + 1..]);
            text.push(meant);
            match u8::try_from(meant) {
                Ok(byte) if octet => octets.push(byte),
                _ => octets.extend(encoded(meant)),
            }
            at += 1 + width;
        } else if letters.get(at..at + width) == Some(&vec![quote; width][..]) {
            at += width;
            break;
        } else {
            text.push(letter);
            octets.extend(encoded(letter));
            at += 1;
        }
    }
    let part = if bytes {
        Part::Bytes(octets)
    } else {
        Part::Text(text)
    };
    Some(Some((part, at)))
}

/// Reads an escape after the backslash: the character, its length, and true if bytes literals take it as a single byte.
fn escaped(letters: &[char]) -> (char, usize, bool) {
    let digits = |from: usize, count: usize, radix: u32| {
        let found: String = letters.iter().skip(from).take(count).collect();
        let code = u32::from_str_radix(&found, radix).ok();
        code.and_then(char::from_u32).unwrap_or('\u{fffd}')
    };
    match letters.first() {
        Some('n') => ('\n', 1, false),
        Some('t') => ('\t', 1, false),
        Some('r') => ('\r', 1, false),
        Some('a') => ('\u{7}', 1, false),
        Some('b') => ('\u{8}', 1, false),
        Some('f') => ('\u{c}', 1, false),
        Some('v') => ('\u{b}', 1, false),
        Some('x' | 'X') => (digits(1, 2, 16), 3, true),
        Some('u') => (digits(1, 4, 16), 5, false),
        Some('U') => (digits(1, 8, 16), 9, false),
        Some('0'..='3') => (digits(0, 3, 8), 3, true),
        Some(other) => (*other, 1, false),
        None => ('\\', 1, false),
    }
}
