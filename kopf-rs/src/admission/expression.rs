//! What an expression in CEL reads, as far as its words tell: enough to say who can evaluate it. Whether it is CEL at all, the API server says.
//!
//! Must not know what rules are.

use std::ops::Range;

/// What a rule reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reads {
    /// What was before: `oldSelf`, `oldObject`.
    pub(crate) old: bool,
    /// Of the metadata more than the name, which rules of a definition cannot see.
    pub(crate) metadata: bool,
    /// The request, the namespace, parameters and so on: what only policies have.
    pub(crate) beyond: bool,
}

/// What only policies can read.
const ONLY_IN_POLICIES: [&str; 7] = [
    "object",
    "oldObject",
    "request",
    "params",
    "namespaceObject",
    "variables",
    "authorizer",
];

/// What an object is called by rules of definitions, and by policies.
const OBJECTS: [(&str, &str); 2] = [("self", "object"), ("oldSelf", "oldObject")];

/// The metadata that rules of definitions can see.
const SEEN: [&str; 2] = ["name", "generateName"];

/// What the expression reads.
pub(crate) fn reads(expression: &str) -> Reads {
    let words = words(expression);
    let text = |at: usize| {
        words
            .get(at)
            .map_or("", |it: &Range<usize>| &expression[it.clone()])
    };
    let mut reads = Reads::default();
    for at in 0..words.len() {
        if at > 0 && text(at - 1) == "." {
            continue;
        }
        let word = text(at);
        reads.old |= matches!(word, "oldSelf" | "oldObject");
        reads.beyond |= ONLY_IN_POLICIES.contains(&word);
        let is_object = OBJECTS.iter().any(|(own, _)| *own == word);
        let dots = usize::from(text(at + 2) == "?");
        if is_object && text(at + 1) == "." && text(at + 2 + dots) == "metadata" {
            let is_seen = text(at + 3 + dots) == "." && SEEN.contains(&text(at + 4 + dots));
            reads.metadata |= !is_seen;
        }
    }
    reads
}

/// The same expression for a policy, where objects have other names.
pub(crate) fn for_policy(expression: &str) -> String {
    let words = words(expression);
    let mut made = String::with_capacity(expression.len());
    let (mut copied, mut is_selected) = (0, false);
    for word in words {
        let text = &expression[word.clone()];
        let other = OBJECTS.iter().find(|(own, _)| *own == text);
        if let Some((_, other)) = other.filter(|_| !is_selected) {
            made.push_str(&expression[copied..word.start]);
            made.push_str(other);
            copied = word.end;
        }
        is_selected = text == ".";
    }
    made.push_str(&expression[copied..]);
    made
}

/// The same expression for a part of the object: `self.spec.a` as `self.a`. `None` where it reads anything but parts of that part.
pub(crate) fn within(expression: &str, part: &str) -> Option<String> {
    let words = words(expression);
    let text = |at: usize| {
        words
            .get(at)
            .map_or("", |it: &Range<usize>| &expression[it.clone()])
    };
    let mut made = String::with_capacity(expression.len());
    let mut copied = 0;
    for at in 0..words.len() {
        let is_selected = at > 0 && text(at - 1) == ".";
        if is_selected || !OBJECTS.iter().any(|(own, _)| *own == text(at)) {
            continue;
        }
        let is_name = text(at + 4).starts_with(|it: char| it.is_ascii_alphabetic() || it == '_');
        if [text(at + 1), text(at + 2), text(at + 3)] != [".", part, "."] || !is_name {
            return None;
        }
        made.push_str(&expression[copied..words[at].end]);
        copied = words[at + 2].end;
    }
    made.push_str(&expression[copied..]);
    Some(made)
}

/// Names, and all else but spaces, comments and literals of text, character by character.
fn words(expression: &str) -> Vec<Range<usize>> {
    let bytes = expression.as_bytes();
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let mut words = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        match bytes[at] {
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                at += expression[at..].find('\n').unwrap_or(bytes.len() - at);
            }
            b'"' | b'\'' => at = end_of_text(bytes, at, false),
            byte if is_of_name(byte) => {
                while bytes.get(at).copied().is_some_and(is_of_name) {
                    at += 1;
                }
                let quoted = bytes.get(at).is_some_and(|it| matches!(it, b'"' | b'\''));
                let prefix = expression[start..at].to_ascii_lowercase();
                if quoted && matches!(prefix.as_str(), "r" | "b" | "br" | "rb") {
                    at = end_of_text(bytes, at, prefix.contains('r'));
                } else {
                    words.push(start..at);
                }
            }
            byte if byte.is_ascii_whitespace() || !byte.is_ascii() => at += 1,
            _ => {
                at += 1;
                words.push(start..at);
            }
        }
    }
    words
}

/// Where a literal ends that begins there with its quotes. Of one that never ends, the end of all.
fn end_of_text(bytes: &[u8], start: usize, is_raw: bool) -> usize {
    let quote = bytes[start];
    let is_long = bytes[start..].starts_with(&[quote; 3]);
    let size = if is_long { 3 } else { 1 };
    let mut at = start + size;
    while at < bytes.len() {
        if bytes[at] == b'\\' && !is_raw {
            at += 2;
        } else if bytes[at..].starts_with(&[quote; 3][..size]) {
            return at + size;
        } else {
            at += 1;
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_told() {
        let (old, metadata, beyond) = (
            Reads {
                old: true,
                ..Reads::default()
            },
            Reads {
                metadata: true,
                ..Reads::default()
            },
            Reads {
                beyond: true,
                ..Reads::default()
            },
        );
        for (expression, expected) in [
            ("self.spec.min <= self.spec.max", Reads::default()),
            ("self.spec.size >= oldSelf.spec.size", old),
            ("self.metadata.name.startsWith('a')", Reads::default()),
            ("self . metadata . generateName == ''", Reads::default()),
            ("has(self.metadata.labels)", metadata),
            ("self.metadata['name'] == 'a'", metadata),
            ("self.?metadata.labels.hasValue()", metadata),
            ("size(self.metadata) > 0", metadata),
            ("self.spec.metadata.labels == {}", Reads::default()),
            ("request.userInfo.username != 'a'", beyond),
            ("self.spec.request.object > 0", Reads::default()),
            (
                "self.spec.a == 'request' || self.spec.a == \"oldSelf\"",
                Reads::default(),
            ),
            (
                "self.spec.a == 'it\\'s' + r'\\' + '''a'request'''",
                Reads::default(),
            ),
            ("self.a // request\n > 1", Reads::default()),
            ("has(namespaceObject.metadata.labels)", beyond),
            ("selfish.metadata.labels == myrequest", Reads::default()),
            ("'never ends request", Reads::default()),
        ] {
            assert_eq!(reads(expression), expected, "{expression}");
        }
    }

    #[test]
    fn what_reads_one_part_is_a_rule_of_that_part() {
        for (expression, expected) in [
            (
                "self.spec.a == oldSelf . spec.b",
                Some("self.a == oldSelf.b"),
            ),
            (
                "has(self.spec.a) && 'self.b' != x.self.spec",
                Some("has(self.a) && 'self.b' != x.self.spec"),
            ),
            ("self.spec.a == self.metadata.name", None),
            ("size(self.spec) > 0", None),
            ("self.spec[a] > 0", None),
            ("self.spec.?a.hasValue()", None),
            ("true", Some("true")),
        ] {
            assert_eq!(within(expression, "spec").as_deref(), expected);
        }
    }

    #[test]
    fn objects_have_other_names_in_policies() {
        for (expression, expected) in [
            (
                "self.spec.a == oldSelf.spec.a",
                "object.spec.a == oldObject.spec.a",
            ),
            (
                "self.self.oldSelf == 'self' && x.self > 0",
                "object.self.oldSelf == 'self' && x.self > 0",
            ),
            ("selfish(self)// self", "selfish(object)// self"),
            ("größe(self) == 'ß'", "größe(object) == 'ß'"),
            ("", ""),
        ] {
            assert_eq!(for_policy(expression), expected);
        }
    }
}
