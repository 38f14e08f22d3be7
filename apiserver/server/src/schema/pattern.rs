//! Regular expressions with Go's syntax.
//!
//! Rejected patterns get Go's error message; accepted patterns are compiled once and cached. Independent of schemas.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// The capacity of the cache; a full cache is cleared.
const KEPT: usize = 4096;

static COMPILED: LazyLock<Mutex<HashMap<String, Option<Pattern>>>> = LazyLock::new(Mutex::default);

/// A compiled regular expression.
#[derive(Clone, Debug)]
pub(crate) enum Pattern {
    /// The common case: `regex-lite` reads most patterns as Go does.
    Plain(Arc<regex_lite::Regex>),
    /// A pattern that needs the `regex` crate, such as one with Unicode classes.
    Large(Arc<regex::Regex>),
}

// === impl Pattern ===

impl Pattern {
    /// Compiles a pattern, or returns `None` if this build cannot match it.
    pub(crate) fn new(source: &str) -> Option<Self> {
        let mut known = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(source) {
            return found.clone();
        }
        if known.len() >= KEPT {
            known.clear();
        }
        let fresh = Self::compiled(source);
        known.insert(source.to_owned(), fresh.clone());
        fresh
    }

    fn compiled(source: &str) -> Option<Self> {
        if let Ok(regex) = regex_lite::Regex::new(source) {
            return Some(Self::Plain(Arc::new(regex)));
        }
        let regex = regex::Regex::new(&large(source)).ok()?;
        Some(Self::Large(Arc::new(regex)))
    }

    pub(crate) fn is_match(&self, text: &str) -> bool {
        match self {
            Self::Plain(regex) => regex.is_match(text),
            Self::Large(regex) => regex.is_match(text),
        }
    }

    /// Returns all matches in a string.
    pub(crate) fn find<'t>(&self, text: &'t str) -> Vec<&'t str> {
        match self {
            Self::Plain(regex) => regex.find_iter(text).map(|found| found.as_str()).collect(),
            Self::Large(regex) => regex.find_iter(text).map(|found| found.as_str()).collect(),
        }
    }
}

/// Translates a Go pattern for the `regex` crate: there, `\d`, `\w`, `\s` and `\b` are Unicode-aware while Go's are ASCII, and classes have
/// operators that Go lacks.
fn large(source: &str) -> String {
    let mut made = String::with_capacity(source.len() * 2);
    let mut rest = source;
    let mut in_class = false;
    while let Some(letter) = rest.chars().next() {
        let escaped = rest.strip_prefix('\\').and_then(|rest| rest.chars().next());
        if let Some(quoted) = rest.strip_prefix("\\Q").filter(|_| !in_class) {
            let (text, after) = quoted.split_once("\\E").unwrap_or((quoted, ""));
            made.push_str(&regex::escape(text));
            rest = after;
            continue;
        }
        let named = rest.strip_prefix("[:").filter(|_| in_class);
        let named = named.and_then(|named| named.find(":]"));
        let length = match (escaped, named) {
            (Some(escaped), _) => 1 + escaped.len_utf8(),
            (None, Some(end)) => end + 4,
            (None, None) => letter.len_utf8(),
        };
        let (part, after) = rest.split_at(length);
        match (in_class, part) {
            (false, r"\b") => made.push_str(r"(?-u:\b)"),
            (_, r"\d") => made.push_str("[0-9]"),
            (_, r"\D") => made.push_str("[^0-9]"),
            (_, r"\w") => made.push_str("[0-9A-Za-z_]"),
            (_, r"\W") => made.push_str("[^0-9A-Za-z_]"),
            (_, r"\s") => made.push_str(r"[\t\n\f\r ]"),
            (_, r"\S") => made.push_str(r"[^\t\n\f\r ]"),
            (true, "[" | "&" | "~") => {
                made.push('\\');
                made.push_str(part);
            }
            _ => made.push_str(part),
        }
        rest = after;
        if !in_class && part == "[" {
            in_class = true;
            // A bracket directly after the opening one is a member of the class.
            for first in ["^", "]"] {
                if let Some(after) = rest.strip_prefix(first) {
                    made.push_str(if first == "]" { r"\]" } else { first });
                    rest = after;
                }
            }
        } else if part == "]" {
            in_class = false;
        }
    }
    made
}

/// Returns Go's error message for an invalid pattern.
pub(crate) fn complaint(source: &str) -> Option<String> {
    let mut reader = Reader {
        source,
        at: 0,
        open: 0,
    };
    let told = reader.read().err()?;
    Some(format!("error parsing regexp: {told}"))
}

/// Parses a pattern only as far as needed to find errors.
struct Reader<'a> {
    source: &'a str,
    at: usize,
    open: usize,
}

/// The element before a repetition operator.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    Nothing,
    Something,
    /// A repetition that starts at this position; Go rejects a repeated repetition.
    Repeated(usize),
}

// === impl Reader ===

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    fn read(&mut self) -> Result<(), String> {
        let mut before = Before::Nothing;
        while let Some(letter) = self.rest().chars().next() {
            let start = self.at;
            before = match letter {
                '(' => {
                    self.group()?;
                    Before::Nothing
                }
                ')' if self.open == 0 => {
                    return Err(format!("unexpected ): `{}`", self.source));
                }
                ')' => {
                    self.open -= 1;
                    self.at += 1;
                    Before::Something
                }
                '|' => {
                    self.at += 1;
                    Before::Nothing
                }
                '[' => {
                    self.class()?;
                    Before::Something
                }
                '*' | '+' | '?' => self.repeat(1, start, before)?,
                '{' => match counts(self.rest()) {
                    None => self.take(letter),
                    Some((length, fits)) if fits => self.repeat(length, start, before)?,
                    Some((length, _)) => {
                        let part = &self.rest()[..length];
                        return Err(format!("invalid repeat count: `{part}`"));
                    }
                },
                '\\' => {
                    self.escape(false)?;
                    Before::Something
                }
                other => self.take(other),
            };
        }
        match self.open {
            0 => Ok(()),
            _ => Err(format!("missing closing ): `{}`", self.source)),
        }
    }

    fn take(&mut self, letter: char) -> Before {
        self.at += letter.len_utf8();
        Before::Something
    }

    fn group(&mut self) -> Result<(), String> {
        let rest = self.rest();
        self.open += 1;
        self.at += 1;
        let Some(special) = rest.strip_prefix("(?") else {
            return Ok(());
        };
        let named = special
            .strip_prefix("P<")
            .or_else(|| special.strip_prefix('<'));
        if let Some(named) = named.filter(|named| !named.starts_with(['=', '!'])) {
            let Some(end) = named.find('>') else {
                return Err(format!("invalid named capture: `{rest}`"));
            };
            let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if end == 0 || !named[..end].chars().all(word) {
                let length = rest.len() - named.len() + end + 1;
                return Err(format!("invalid named capture: `{}`", &rest[..length]));
            }
            self.at += rest.len() - named.len() + end;
            return Ok(());
        }
        let flags = special
            .find(|c: char| !"imsU-".contains(c))
            .unwrap_or(special.len());
        match special[flags..].chars().next() {
            Some(':') => self.at += flags + 2,
            Some(')') if flags > 0 => {
                self.at += flags + 2;
                self.open -= 1;
            }
            Some(odd) => {
                let length = 2 + flags + odd.len_utf8();
                let part = &rest[..length];
                return Err(format!("invalid or unsupported Perl syntax: `{part}`"));
            }
            None => return Err("missing argument to repetition operator: `?`".to_owned()),
        }
        Ok(())
    }

    fn repeat(&mut self, length: usize, start: usize, before: Before) -> Result<Before, String> {
        let mut length = length;
        if self.rest()[length..].starts_with('?') {
            length += 1;
        }
        let end = self.at + length;
        match before {
            Before::Nothing => {
                let part = &self.source[start..end];
                Err(format!("missing argument to repetition operator: `{part}`"))
            }
            Before::Repeated(first) => {
                let part = &self.source[first..end];
                Err(format!("invalid nested repetition operator: `{part}`"))
            }
            Before::Something => {
                self.at = end;
                Ok(Before::Repeated(start))
            }
        }
    }

    fn class(&mut self) -> Result<(), String> {
        let whole = self.rest();
        let missing = || Err(format!("missing closing ]: `{whole}`"));
        self.at += 1;
        if self.rest().starts_with('^') {
            self.at += 1;
        }
        let mut first = true;
        loop {
            let rest = self.rest();
            if rest.is_empty() {
                return missing();
            }
            if rest.starts_with(']') && !first {
                self.at += 1;
                return Ok(());
            }
            first = false;
            let named = rest.strip_prefix("[:").and_then(|rest| rest.find(":]"));
            if let Some(end) = named {
                let length = end + 4;
                let name = rest[2..end + 2].trim_start_matches('^');
                if !CLASSES.contains(&name) {
                    let part = &rest[..length];
                    return Err(format!("invalid character class range: `{part}`"));
                }
                self.at += length;
                continue;
            }
            let start = self.at;
            let Some(low) = self.letter()? else { continue };
            let tail = self.rest();
            if tail.starts_with('-') && tail.len() > 1 && !tail.starts_with("-]") {
                self.at += 1;
                let Some(high) = self.letter()? else { continue };
                if high < low {
                    let part = &self.source[start..self.at];
                    return Err(format!("invalid character class range: `{part}`"));
                }
            }
        }
    }

    /// Reads a member of a class; `None` means an escape for several characters.
    fn letter(&mut self) -> Result<Option<char>, String> {
        let rest = self.rest();
        if rest.starts_with('\\') {
            return self.escape(true);
        }
        let letter = rest.chars().next();
        self.at += letter.map_or(0, char::len_utf8);
        Ok(letter)
    }

    fn escape(&mut self, in_class: bool) -> Result<Option<char>, String> {
        let rest = self.rest();
        let Some(letter) = rest[1..].chars().next() else {
            return Err("trailing backslash at end of expression: ``".to_owned());
        };
        self.at += 1 + letter.len_utf8();
        match letter {
            'a' | 'f' | 't' | 'n' | 'r' | 'v' | 'x' | '0' | 'd' | 'D' | 's' | 'S' | 'w' | 'W' => {
                Ok(None)
            }
            'A' | 'b' | 'B' | 'C' | 'Q' | 'E' | 'z' if !in_class => Ok(None),
            'p' | 'P' => {
                let length = match rest[2..].strip_prefix('{') {
                    Some(name) => name.find('}').map_or(rest.len(), |end| end + 4),
                    None => 2 + rest[2..].chars().next().map_or(0, char::len_utf8),
                };
                self.at += length - 2;
                Ok(None)
            }
            letter if letter.is_ascii_punctuation() => Ok(Some(letter)),
            _ => {
                let part = &rest[..=letter.len_utf8()];
                Err(format!("invalid escape sequence: `{part}`"))
            }
        }
    }
}

/// The named classes.
const CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];

/// Returns the length of a count such as `{2,5}`, and true if Go allows it.
fn counts(rest: &str) -> Option<(usize, bool)> {
    let end = rest.find('}')?;
    let inner = &rest[1..end];
    let (least, most) = inner.split_once(',').unwrap_or((inner, inner));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if least.is_empty() || !digits(least) || !digits(most) {
        return None;
    }
    let number = |text: &str| text.parse::<u32>().unwrap_or(u32::MAX);
    let fits = number(least) <= 1000
        && (most.is_empty() || (number(most) <= 1000 && number(least) <= number(most)));
    Some((end + 1, fits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_by_table() {
        for (source, fits, differs) in [
            (r"^\p{L}+$", "Größe", "a1"),
            (r"^\pN$", "٣", "a"),
            (r"^\P{Lu}$", "a", "Ä"),
            (r"^[\p{Greek}\d-]+$", "αβ1-", "αβ٣"),
            (r"^\p{L}\w$", "Äa", "aÄ"),
            (r"^\p{L}\s$", "Ä ", "Ä\u{a0}"),
            (r"\bx\p{L}", "äxä", "axä"),
            (r"^[[a&&\p{Nd}]+$", "[a&1", "b"),
            (r"^[]\p{Nd}]+$", "]1", "a"),
            (r"^[^]\p{Nd}]+$", "a", "]"),
            (r"^\Qa.b\E\p{L}$", "a.bä", "axbä"),
            (r"^[[:alpha:]\p{Nd}]$", "a", "ä"),
        ] {
            let pattern = Pattern::new(source).unwrap_or_else(|| panic!("{source} is no pattern"));
            assert!(pattern.is_match(fits), "{source} {fits}");
            assert!(!pattern.is_match(differs), "{source} {differs}");
        }
    }

    #[test]
    fn complaints_by_table() {
        for (source, expected) in [
            ("^[a-z]+$", None),
            (r"^\p{L}+(?i:x)(?P<n>y)\d{2,3}?$", None),
            ("[", Some("missing closing ]: `[`")),
            ("(a", Some("missing closing ): `(a`")),
            ("a)", Some("unexpected ): `a)`")),
            ("*", Some("missing argument to repetition operator: `*`")),
            ("a**", Some("invalid nested repetition operator: `**`")),
            ("(?=a)", Some("invalid or unsupported Perl syntax: `(?=`")),
            (r"\1", Some(r"invalid escape sequence: `\1`")),
            ("[z-a]", Some("invalid character class range: `z-a`")),
            ("a{2,1}", Some("invalid repeat count: `{2,1}`")),
            ("[[:alpha:]]", None),
            ("[[:]", None),
        ] {
            let expected = expected.map(|told| format!("error parsing regexp: {told}"));
            assert_eq!(complaint(source), expected, "{source}");
        }
    }
}
