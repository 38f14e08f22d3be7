//! URLs, parsed as Go's `net/url` does.
//!
//! Accepts absolute URLs only. Independent of expressions.

mod host;

use std::collections::BTreeMap;

/// A parsed URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) scheme: String,
    /// The host with the port.
    pub(crate) host: String,
    /// The path in its original escaped form.
    pub(crate) path: String,
    query: String,
}

// === impl Url ===

impl Url {
    /// Parses a URL, or returns Go's error message.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| Err(format!("parse {text:?}: {why}"));
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return wrong("net/url: invalid control character in URL");
        }
        if text.is_empty() {
            return wrong("empty url");
        }
        if text == "*" {
            return Ok(Self::new("", "", "*", ""));
        }
        let (scheme, rest) = match scheme(text) {
            Ok(found) => found,
            Err(why) => return wrong(why),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        if !rest.starts_with('/') {
            if scheme.is_empty() {
                return wrong("invalid URI for request");
            }
            return Ok(Self::new(scheme, "", "", query));
        }
        let Some(rest) = rest.strip_prefix("//").filter(|_| !scheme.is_empty()) else {
            return match escapes(rest) {
                Some(part) => wrong(&format!("invalid URL escape {part:?}")),
                None => Ok(Self::new(scheme, "", rest, query)),
            };
        };
        let end = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        if let Err(why) = host::check(scheme, host).and_then(|()| host::user(user)) {
            return wrong(&why);
        }
        if let Some(part) = escapes(path) {
            return wrong(&format!("invalid URL escape {part:?}"));
        }
        Ok(Self::new(scheme, host, path, query))
    }

    fn new(scheme: &str, host: &str, path: &str, query: &str) -> Self {
        Self {
            scheme: scheme.to_ascii_lowercase(),
            host: host.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
        }
    }

    pub(super) fn hostname(&self) -> &str {
        let bare = self.port().map_or(&*self.host, |port| {
            &self.host[..self.host.len() - port.len() - 1]
        });
        let inner = bare
            .strip_prefix('[')
            .and_then(|bare| bare.strip_suffix(']'));
        inner.unwrap_or(bare)
    }

    pub(super) fn port(&self) -> Option<&str> {
        let (before, port) = self.host.rsplit_once(':')?;
        let within = before.contains('[') && !before.contains(']');
        (!within).then_some(port)
    }

    /// Returns the query parameters, without those that are malformed.
    pub(super) fn query(&self) -> BTreeMap<String, Vec<String>> {
        let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in self
            .query
            .split('&')
            .filter(|pair| !pair.is_empty() && !pair.contains(';'))
        {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let (Some(name), Some(value)) = (unescaped(name), unescaped(value)) {
                found.entry(name).or_default().push(value);
            }
        }
        found
    }
}

/// Splits off the scheme, which is empty if the URL has none.
fn scheme(text: &str) -> Result<(&str, &str), &'static str> {
    for (at, letter) in text.char_indices() {
        match letter {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return Err("missing protocol scheme"),
            ':' => return Ok((&text[..at], &text[at + 1..])),
            _ => return Ok(("", text)),
        }
    }
    Ok(("", text))
}

/// Returns the first invalid percent escape.
fn escapes(text: &str) -> Option<&str> {
    let mut starts = text.match_indices('%').map(|(at, _)| at);
    let wrong = |at: &usize| {
        let digits = text.as_bytes().get(at + 1..at + 3);
        !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    let at = starts.find(wrong)?;
    let rest = &text[at..];
    let end = rest
        .char_indices()
        .nth(3)
        .map_or(rest.len(), |(end, _)| end);
    Some(&rest[..end])
}

fn unescaped(text: &str) -> Option<String> {
    let mut octets = Vec::new();
    let mut rest = text.bytes();
    while let Some(octet) = rest.next() {
        octets.push(match octet {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                let digits = std::str::from_utf8(&digits).ok()?;
                u8::from_str_radix(digits, 16).ok()?
            }
            other => other,
        });
    }
    Some(String::from_utf8_lossy(&octets).into_owned())
}
