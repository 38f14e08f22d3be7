//! Analyses the fields that a CEL expression reads, by its tokens, to decide where it can be evaluated. The API server checks the syntax.
//!
//! This module must not depend on the rules.

use std::ops::Range;

/// The values that a rule reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reads {
    /// The former state: `oldSelf`, `oldObject`.
    pub(crate) old: bool,
    /// Metadata other than the name, which rules in a definition cannot see.
    pub(crate) metadata: bool,
    /// The request, the namespace, parameters and similar values, which only policies have.
    pub(crate) beyond: bool,
}

/// Names that only policies can read.
const ONLY_IN_POLICIES: [&str; 7] =
    ["object", "oldObject", "request", "params", "namespaceObject", "variables", "authorizer"];

/// The names of objects in rules of definitions, and in policies.
const OBJECTS: [(&str, &str); 2] = [("self", "object"), ("oldSelf", "oldObject")];

/// The metadata that rules of definitions can see.
const SEEN: [&str; 2] = ["name", "generateName"];

/// An expression, and its names and single characters.
struct Tokens<'a> {
    expression: &'a str,
    words: Vec<Range<usize>>,
}

impl<'a> Tokens<'a> {
    fn of(expression: &'a str) -> Self {
        Self { expression, words: words(expression) }
    }

    /// Returns the token at this place; an empty text beyond the last one.
    fn text(&self, at: usize) -> &'a str {
        self.words.get(at).map_or("", |it| &self.expression[it.clone()])
    }

    /// Returns the places of tokens that are not selected from another value.
    fn unselected(&self) -> impl Iterator<Item = usize> {
        (0..self.words.len()).filter(|at| *at == 0 || self.text(*at - 1) != ".")
    }

    /// Returns the places of the objects, by all of their names.
    fn objects(&self) -> impl Iterator<Item = usize> {
        self.unselected()
            .filter(|at| OBJECTS.iter().any(|(own, other)| [*own, *other].contains(&self.text(*at))))
    }

    /// Returns the expression with other texts in these ranges of bytes, which are in order.
    fn with(&self, changes: impl IntoIterator<Item = (Range<usize>, String)>) -> String {
        let mut made = String::with_capacity(self.expression.len());
        let mut copied = 0;
        for (range, text) in changes {
            made.push_str(&self.expression[copied..range.start]);
            made.push_str(&text);
            copied = range.end;
        }
        made.push_str(&self.expression[copied..]);
        made
    }
}

/// Returns the values that the expression reads.
pub(crate) fn reads(expression: &str) -> Reads {
    let tokens = Tokens::of(expression);
    let text = |at| tokens.text(at);
    let mut reads = Reads::default();
    for at in tokens.unselected() {
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

/// Returns the paths of the object's fields that the expression reads, including those of the former object. A use of the whole object yields
/// an empty path, and a method's name follows the path of its field.
pub(crate) fn fields(expression: &str) -> Vec<Vec<&str>> {
    let tokens = Tokens::of(expression);
    let of_object = |at: usize| {
        let (mut at, mut path) = (at + 1, Vec::new());
        while tokens.text(at) == "." {
            at += 1 + usize::from(tokens.text(at + 1) == "?");
            path.push(tokens.text(at));
            at += 1;
        }
        path
    };
    tokens.objects().map(of_object).collect()
}

/// Rewrites the expression so that an absent field of the object counts as zero: `o.a.b == 1` becomes `(has(o.a.b) ? o.a.b : 0) == 1`,
/// `has(o.a.b)` becomes `true`, and `o.a.?b` becomes `optional.of(..)` of that number.
pub(crate) fn zero_if_absent(expression: &str, field: &[&str]) -> String {
    let tokens = Tokens::of(expression);
    let text = |at| tokens.text(at);
    let changes = tokens.objects().filter_map(|at| {
        let (mut last, mut is_optional) = (at, false);
        let is_it = field.iter().all(|name| {
            let (is_step, may_lack) = (text(last + 1) == ".", text(last + 2) == "?");
            is_optional |= may_lack;
            last += 2 + usize::from(may_lack);
            is_step && text(last) == *name
        });
        let is_asked_for = at > 1 && text(at - 2) == "has" && text(at - 1) == "(" && text(last + 1) == ")";
        let (start, end) = if is_asked_for { (at - 2, last + 1) } else { (at, last) };
        let whole = format!("{}.{}", text(at), field.join("."));
        let zero = format!("(has({whole}) ? {whole} : 0)");
        let made = match (is_asked_for, is_optional) {
            (true, _) => "true".to_owned(),
            (_, true) => format!("optional.of{zero}"),
            (_, false) => zero,
        };
        is_it.then(|| (tokens.words[start].start..tokens.words[end].end, made))
    });
    tokens.with(changes)
}

/// Rewrites the expression for a policy, in which objects have other names.
pub(crate) fn for_policy(expression: &str) -> String {
    let tokens = Tokens::of(expression);
    let changes = tokens.unselected().filter_map(|at| {
        let (_, other) = OBJECTS.iter().find(|(own, _)| *own == tokens.text(at))?;
        Some((tokens.words[at].clone(), (*other).to_owned()))
    });
    tokens.with(changes)
}

/// Rewrites the expression for a part of the object: `self.spec.a` becomes `self.a`. Returns `None` if it reads values outside of that part.
pub(crate) fn within(expression: &str, part: &str) -> Option<String> {
    let tokens = Tokens::of(expression);
    let text = |at| tokens.text(at);
    let is_own = |at: &usize| OBJECTS.iter().any(|(own, _)| *own == text(*at));
    let changes = tokens.unselected().filter(is_own).map(|at| {
        let is_name = text(at + 4).starts_with(|it: char| it.is_ascii_alphabetic() || it == '_');
        let is_within = [text(at + 1), text(at + 2), text(at + 3)] == [".", part, "."] && is_name;
        is_within.then(|| (tokens.words[at].end..tokens.words[at + 2].end, String::new()))
    });
    let changes: Option<Vec<_>> = changes.collect();
    Some(tokens.with(changes?))
}

/// Splits the expression into names and single characters, without spaces, comments and string literals.
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

/// Returns the end of the string literal whose quotes start here, or the end of the text if it is not terminated.
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
    fn reads_of_an_expression_are_found() {
        let (old, metadata, beyond) = (
            Reads { old: true, ..Reads::default() },
            Reads { metadata: true, ..Reads::default() },
            Reads { beyond: true, ..Reads::default() },
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
            ("self.spec.a == 'request' || self.spec.a == \"oldSelf\"", Reads::default()),
            ("self.spec.a == 'it\\'s' + r'\\' + '''a'request'''", Reads::default()),
            ("self.a // request\n > 1", Reads::default()),
            ("has(namespaceObject.metadata.labels)", beyond),
            ("selfish.metadata.labels == myrequest", Reads::default()),
            ("'never ends request", Reads::default()),
        ] {
            assert_eq!(reads(expression), expected, "{expression}");
        }
    }

    #[test]
    fn the_fields_that_are_read_are_named() {
        for (expression, expected) in [
            ("self.spec.a > oldSelf . status.b", &[&["spec", "a"][..], &["status", "b"]][..]),
            ("object.spec.?a.orValue(0) == x.self.b", &[&["spec", "a", "orValue"]]),
            ("size(self) > 0 && 'self.a' == ''", &[&[]]),
            ("self['spec'].a", &[&[]]),
            ("request.dryRun", &[]),
        ] {
            assert_eq!(fields(expression), expected, "{expression}");
        }
    }

    #[test]
    fn a_number_that_is_left_out_is_zero() {
        for (expression, expected) in [
            (
                "object.spec.replicas <= oldObject.spec.replicas",
                "(has(object.spec.replicas) ? object.spec.replicas : 0) <= (has(oldObject.spec.replicas) ? oldObject.spec.replicas : 0)",
            ),
            (
                "!has(object.spec.replicas) || object.spec.replicas > 1",
                "!true || (has(object.spec.replicas) ? object.spec.replicas : 0) > 1",
            ),
            (
                "object.spec.?replicas.orValue(1) > 1 || object.?spec.?replicas.hasValue()",
                "optional.of(has(object.spec.replicas) ? object.spec.replicas : 0).orValue(1) > 1 || \
                 optional.of(has(object.spec.replicas) ? object.spec.replicas : 0).hasValue()",
            ),
            (
                "object.spec.replicasMax > 1 || x.object.spec.replicas",
                "object.spec.replicasMax > 1 || x.object.spec.replicas",
            ),
            ("", ""),
        ] {
            assert_eq!(zero_if_absent(expression, &["spec", "replicas"]), expected);
        }
    }

    #[test]
    fn a_rule_that_reads_one_part_belongs_to_it() {
        for (expression, expected) in [
            ("self.spec.a == oldSelf . spec.b", Some("self.a == oldSelf.b")),
            ("has(self.spec.a) && 'self.b' != x.self.spec", Some("has(self.a) && 'self.b' != x.self.spec")),
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
            ("self.spec.a == oldSelf.spec.a", "object.spec.a == oldObject.spec.a"),
            ("self.self.oldSelf == 'self' && x.self > 0", "object.self.oldSelf == 'self' && x.self > 0"),
            ("selfish(self)// self", "selfish(object)// self"),
            ("größe(self) == 'ß'", "größe(object) == 'ß'"),
            ("", ""),
        ] {
            assert_eq!(for_policy(expression), expected);
        }
    }
}
