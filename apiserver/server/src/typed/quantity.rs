//! Quantities in Kubernetes' canonical form: the largest suffix that needs no fraction.
//!
//! The output equals that of the real server. Independent of fields.

/// The real server's error for an invalid quantity.
pub(crate) const COMPLAINT: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// Amounts are counted in billionths; nothing smaller is kept.
const NANO: i128 = 1_000_000_000;

const DECIMAL: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];

const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Decimal,
    Binary,
    Exponent,
}

/// Returns the canonical form of a quantity.
pub(super) fn canonical(text: &str) -> Result<String, String> {
    let (nanos, format) = parse(text.trim()).ok_or_else(|| COMPLAINT.to_owned())?;
    Ok(match format {
        Format::Binary if nanos.abs() >= 1024 * NANO => binary(nanos),
        Format::Exponent => decimal(nanos, true),
        _ => decimal(nanos, false),
    })
}

/// Formats an amount in billionths with the notation of another quantity.
pub(crate) fn written(nanos: i128, like: &str) -> String {
    match parse(like.trim()) {
        Some((_, Format::Binary)) if nanos.abs() >= 1024 * NANO => binary(nanos),
        Some((_, Format::Exponent)) => decimal(nanos, true),
        _ => decimal(nanos, false),
    }
}

/// Returns a quantity in billionths.
pub(crate) fn nanos(text: &str) -> Option<i128> {
    parse(text.trim()).map(|(nanos, _)| nanos)
}

fn parse(text: &str) -> Option<(i128, Format)> {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = rest
        .find(|letter: char| !letter.is_ascii_digit() && letter != '.')
        .unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let digits: i128 = format!("0{whole}{fraction}").parse().ok()?;
    let places = i32::try_from(fraction.len()).ok()?;
    if let Some(power) = BINARY.iter().skip(1).position(|found| *found == suffix) {
        let factor = 1024_i128.checked_pow(u32::try_from(power + 1).ok()?)?;
        let nanos = scale(digits.checked_mul(factor)?, 9 - places)?;
        return Some((sign * nanos, Format::Binary));
    }
    if let Some((_, power)) = DECIMAL.iter().find(|(found, _)| *found == suffix) {
        return Some((sign * scale(digits, power + 9 - places)?, Format::Decimal));
    }
    let power: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    Some((sign * scale(digits, power + 9 - places)?, Format::Exponent))
}

/// Multiplies by a power of ten; a remainder rounds up.
fn scale(number: i128, power: i32) -> Option<i128> {
    let factor = 10_i128.checked_pow(power.unsigned_abs());
    match (power >= 0, factor) {
        (true, factor) => number.checked_mul(factor?),
        (false, Some(factor)) => Some((number + factor - 1) / factor),
        (false, None) => Some(i128::from(number > 0)),
    }
}

fn decimal(nanos: i128, exponent: bool) -> String {
    if nanos == 0 {
        return "0".to_owned();
    }
    let fitting = DECIMAL.iter().rev().find_map(|(suffix, power)| {
        let unit = 10_i128.pow(u32::try_from(power + 9).ok()?);
        (nanos % unit == 0).then(|| (nanos / unit, *suffix, *power))
    });
    match fitting {
        Some((number, _, power)) if exponent && power != 0 => format!("{number}e{power}"),
        Some((number, suffix, _)) if !exponent => format!("{number}{suffix}"),
        Some((number, ..)) => number.to_string(),
        None => nanos.to_string(),
    }
}

fn binary(nanos: i128) -> String {
    let mut number = nanos / NANO + i128::from(nanos % NANO > 0);
    let mut power = 0;
    while number % 1024 == 0 && power + 1 < BINARY.len() {
        number /= 1024;
        power += 1;
    }
    format!("{number}{}", BINARY[power])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_by_table() {
        for (given, expected) in [
            ("0", "0"),
            ("0.5", "500m"),
            ("1.5", "1500m"),
            ("1000m", "1"),
            ("1024Mi", "1Gi"),
            ("1000Mi", "1000Mi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Mi", "512Ki"),
            ("100Ki", "100Ki"),
            ("0.5Ki", "512"),
            ("1000k", "1M"),
            ("123456", "123456"),
            ("1e3", "1e3"),
            ("12e0", "12"),
            ("-1500m", "-1500m"),
            ("+2", "2"),
            (".5", "500m"),
            ("1n", "1n"),
            ("0.1n", "1n"),
        ] {
            assert_eq!(canonical(given).as_deref(), Ok(expected), "{given}");
        }
        for wrong in ["", "a", "1x", "1.2.3", "Mi", "1 Gi"] {
            assert!(canonical(wrong).is_err(), "{wrong}");
        }
    }
}
