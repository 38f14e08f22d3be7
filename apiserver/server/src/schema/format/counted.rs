//! Formats of numbers with a check digit, of social security numbers and of colours.
//!
//! Accepts what the real server accepts, which often ignores the characters between digits. Independent of schemas.

/// Checks an ISBN-10, whose last digit may be an X.
pub(super) fn is_isbn10(text: &str) -> bool {
    let digits = bare(text);
    let [first @ .., last] = digits.as_slice() else {
        return false;
    };
    if first.len() != 9 || !first.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let check = match last {
        b'X' => 10,
        digit if digit.is_ascii_digit() => value(*digit),
        _ => return false,
    };
    let weighted = (1..)
        .zip(first)
        .map(|(weight, digit)| weight * value(*digit));
    (weighted.sum::<u32>() + 10 * check).is_multiple_of(11)
}

/// Checks an ISBN-13.
pub(super) fn is_isbn13(text: &str) -> bool {
    let digits = bare(text);
    if digits.len() != 13 || !digits.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let weighted = [1, 3].into_iter().cycle().zip(&digits);
    let sum: u32 = weighted.map(|(weight, digit)| weight * value(*digit)).sum();
    sum.is_multiple_of(10)
}

/// Removes dashes and white space.
fn bare(text: &str) -> Vec<u8> {
    let between = |byte: &u8| matches!(byte, b'-' | b' ' | b'\t' | b'\n' | b'\r' | 0x0c);
    text.bytes().filter(|byte| !between(byte)).collect()
}

fn value(digit: u8) -> u32 {
    u32::from(digit - b'0')
}

/// Checks a credit card number of a known issuer; ignores all other characters.
pub(super) fn is_credit_card(text: &str) -> bool {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_digit).collect();
    if !is_known_firm(&digits) {
        return false;
    }
    let doubled = |(at, digit): (usize, &u8)| match value(*digit) {
        even if at.is_multiple_of(2) => even,
        odd if odd >= 5 => 2 * odd - 9,
        odd => 2 * odd,
    };
    let sum: u32 = digits.iter().rev().enumerate().map(doubled).sum();
    sum.is_multiple_of(10)
}

/// Returns true if an issuer uses numbers with this prefix and length.
fn is_known_firm(digits: &[u8]) -> bool {
    let lengths: &[usize] = match digits {
        [b'4', ..] => &[13, 16],
        [b'3', b'4' | b'7', ..] | [b'2', b'1', b'3', b'1', ..] | [b'1', b'8', b'0', b'0', ..] => {
            &[15]
        }
        [b'3', b'0', b'0'..=b'5', ..] | [b'3', b'6' | b'8', ..] => &[14],
        [b'5', b'1'..=b'5', ..] | [b'3' | b'6', b'5', ..] | [b'6', b'0', b'1', b'1', ..] => &[16],
        _ => &[],
    };
    lengths.contains(&digits.len())
}

/// Checks a social security number with two separators.
pub(super) fn is_ssn(text: &str) -> bool {
    let fits = |(at, byte): (usize, u8)| match at {
        3 | 6 => matches!(byte, b'-' | b' '),
        _ => byte.is_ascii_digit(),
    };
    text.len() == 11 && text.bytes().enumerate().all(fits)
}

/// Checks an `rgb(..)` colour whose numbers have no leading zeros.
pub(super) fn is_rgb_color(text: &str) -> bool {
    let inner = text
        .strip_prefix("rgb(")
        .and_then(|text| text.strip_suffix(')'));
    let level = |part: &str| {
        let part = part.trim_matches([' ', '\t', '\n', '\r', '\x0c']);
        let plain = part == "0" || part.starts_with(|first| ('1'..='9').contains(&first));
        plain && part.bytes().all(|byte| byte.is_ascii_digit()) && part.parse::<u8>().is_ok()
    };
    inner.is_some_and(|inner| inner.split(',').count() == 3 && inner.split(',').all(level))
}

pub(super) fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}
