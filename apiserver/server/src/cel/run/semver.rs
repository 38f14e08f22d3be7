//! Semantic versions, see <https://semver.org>.
//!
//! Error messages match the library that the real server uses. Independent of expressions.

use std::cmp::Ordering;

/// A version without its build metadata, which does not affect the order.
#[derive(Clone, Debug)]
pub(crate) struct Semver {
    pub(crate) numbers: [u64; 3],
    before: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Text(String),
}

// === impl Semver ===

impl Semver {
    /// Parses a version; with `loose`, accepts a leading `v`, leading zeros and missing numbers.
    pub(super) fn parse(text: &str, loose: bool) -> Result<Self, String> {
        if loose {
            return Self::strict(&filled(text)?);
        }
        Self::strict(text)
    }

    fn strict(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let parts: Vec<&str> = text.splitn(3, '.').collect();
        let [major, minor, rest] = parts[..] else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (rest, build) = rest
            .split_once('+')
            .map_or((rest, None), |(rest, build)| (rest, Some(build)));
        let (patch, before) = rest
            .split_once('-')
            .map_or((rest, None), |(patch, before)| (patch, Some(before)));
        let numbers = [
            number(major, "major")?,
            number(minor, "minor")?,
            number(patch, "patch")?,
        ];
        let before = before.map(|before| before.split('.').map(Part::parse).collect());
        for part in build.into_iter().flat_map(|build| build.split('.')) {
            if part.is_empty() {
                return Err("Build meta data is empty".to_owned());
            }
            if !part.bytes().all(is_letter) {
                return Err(format!(
                    "Invalid character(s) found in build meta data {part:?}"
                ));
            }
        }
        let before = before.unwrap_or(Ok(Vec::new()))?;
        Ok(Self { numbers, before })
    }

    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        let numbers = self.numbers.cmp(&other.numbers);
        numbers.then_with(|| match (self.before.is_empty(), other.before.is_empty()) {
            (true, true) => Ordering::Equal,
            // A pre-release is less than its release.
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => self.before.cmp(&other.before),
        })
    }
}

// === impl Part ===

impl Part {
    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Prerelease is empty".to_owned());
        }
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            if text.len() > 1 && text.starts_with('0') {
                return Err(format!(
                    "Numeric PreRelease version must not contain leading zeroes {text:?}"
                ));
            }
            return text
                .parse()
                .map(Self::Number)
                .map_err(|_| out_of_range(text));
        }
        if text.bytes().all(is_letter) {
            return Ok(Self::Text(text.to_owned()));
        }
        Err(format!("Invalid character(s) found in prerelease {text:?}"))
    }
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

fn out_of_range(text: &str) -> String {
    format!("strconv.ParseUint: parsing {text:?}: value out of range")
}

fn number(text: &str, what: &str) -> Result<u64, String> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!(
            "Invalid character(s) found in {what} number {text:?}"
        ));
    }
    if text.len() > 1 && text.starts_with('0') {
        let mut letters = what.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        let what: String = first.into_iter().chain(letters).collect();
        return Err(format!(
            "{what} number must not contain leading zeroes {text:?}"
        ));
    }
    if text.is_empty() {
        return Err("strconv.ParseUint: parsing \"\": invalid syntax".to_owned());
    }
    text.parse().map_err(|_| out_of_range(text))
}

/// Normalizes a loosely written version.
fn filled(text: &str) -> Result<String, String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let bare = |part: &str| {
        if part.len() < 2 {
            return part.to_owned();
        }
        let rest = part.trim_start_matches('0');
        if rest.starts_with(|letter: char| letter.is_ascii_digit()) {
            rest.to_owned()
        } else {
            format!("0{rest}")
        }
    };
    let mut parts: Vec<String> = text.splitn(3, '.').map(bare).collect();
    if parts.len() < 3 {
        if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            let why = "short version cannot contain PreRelease/Build meta data";
            return Err(why.to_owned());
        }
        parts.resize(3, "0".to_owned());
    }
    Ok(parts.join("."))
}
