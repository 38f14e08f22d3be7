//! The namespaces that an operator serves: all of them, or those that match patterns.
//!
//! A pattern is a comma-separated list of globs; `!` negates. The globs before the first negation are a union that limits all matches. For
//! the globs after it, the last match decides, and a later glob can re-include only members of that union. A pattern of negations only
//! excludes namespaces from all other patterns.

use globset::Glob;
use regex_lite::Regex;

/// The namespaces of an operator.
#[derive(Clone, Debug, Default)]
pub(crate) enum Scope {
    #[default]
    All,
    Some(Patterns),
}

/// Several patterns. A namespace must match at least one of them, and must not be excluded by one that has only negations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Patterns(Vec<Pattern>);

#[derive(Clone, Debug)]
struct Pattern {
    text: String,
    globs: Vec<Part>,
}

#[derive(Clone, Debug)]
struct Part {
    negative: bool,
    regex: Regex,
}

/// The error for a pattern that cannot match any namespace or cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "namespace pattern `{pattern}`: {reason}; expected comma-separated names or globs such as `prod-*,!prod-test`"
)]
pub struct BadPattern {
    pattern: String,
    reason: String,
}

impl Patterns {
    pub(crate) fn parse<S: AsRef<str>>(texts: impl IntoIterator<Item = S>) -> Result<Self, BadPattern> {
        let parsed = texts.into_iter().map(|text| Pattern::parse(text.as_ref()));
        let patterns = parsed.collect::<Result<Vec<_>, _>>()?;
        if patterns.is_empty() {
            return Err(BadPattern { pattern: String::new(), reason: "no pattern is given".to_owned() });
        }
        Ok(Self(patterns))
    }

    pub(crate) fn matches(&self, namespace: &str) -> bool {
        let (exclusions, patterns): (Vec<_>, Vec<_>) =
            self.0.iter().partition(|pattern| pattern.only_excludes());
        let taken = patterns.is_empty() || patterns.iter().any(|p| p.matches(namespace));
        taken && exclusions.iter().all(|pattern| pattern.matches(namespace))
    }

    /// Returns the plain names among the patterns, which remain usable if namespaces cannot be listed.
    pub(crate) fn literals(&self) -> impl Iterator<Item = &str> {
        self.parts().filter(|part| is_name(part))
    }

    /// Returns the patterns as a CEL expression about the given name, for components that are not notified of new namespaces.
    #[cfg(any(feature = "cli", test))]
    pub(crate) fn expression(&self, namespace: &str) -> String {
        let (exclusions, patterns): (Vec<_>, Vec<_>) =
            self.0.iter().partition(|pattern| pattern.only_excludes());
        let expressions = |all: Vec<&Pattern>| all.into_iter().map(|it| it.expression(namespace)).collect();
        let taken = joined(expressions(patterns), " || ");
        let left = expressions(exclusions);
        joined([taken].into_iter().flatten().chain(left).collect(), " && ").unwrap_or_default()
    }

    /// Returns true if all patterns are plain names.
    pub(crate) fn are_names(&self) -> bool {
        self.parts().all(is_name)
    }

    fn parts(&self) -> impl Iterator<Item = &str> {
        let parts = self.0.iter().flat_map(|pattern| pattern.text.split(','));
        parts.map(str::trim)
    }
}

fn is_name(part: &str) -> bool {
    !part.contains(['!', '*', '?', '[', '{'])
}

impl Pattern {
    fn parse(text: &str) -> Result<Self, BadPattern> {
        let bad = |reason: String| BadPattern { pattern: text.to_owned(), reason };
        let mut globs = Vec::new();
        for part in text.split(',').map(str::trim) {
            let (negative, glob) = match part.strip_prefix('!') {
                Some(rest) => (true, rest.trim()),
                None => (false, part),
            };
            if glob.is_empty() {
                return Err(bad("a part of it is empty".to_owned()));
            }
            let odd = |c: char| !(matches!(c, 'a'..='z' | '0'..='9') || "-*?[]!".contains(c));
            if let Some(odd) = glob.chars().find(|c| odd(*c)) {
                return Err(bad(format!("`{odd}` in `{glob}` cannot be in the name of a namespace")));
            }
            let glob = Glob::new(glob).map_err(|error| bad(error.kind().to_string()))?;
            // Compiles globset's pattern with regex-lite, because globset's own matcher would link a second, large engine. Removes `(?-u)`,
            // which CEL's RE2 does not support (`expression`): names of namespaces are ASCII.
            let regex = glob.regex().replace("(?-u)", "");
            let regex = Regex::new(&regex).map_err(|error| bad(error.to_string()))?;
            globs.push(Part { negative, regex });
        }
        Ok(Self { text: text.to_owned(), globs })
    }

    fn only_excludes(&self) -> bool {
        self.globs.iter().all(|part| part.negative)
    }

    fn matches(&self, namespace: &str) -> bool {
        let union = self.globs.iter().take_while(|part| !part.negative).count();
        let (first, rest) = self.globs.split_at(union);
        let taken = first.is_empty() || first.iter().any(|part| part.regex.is_match(namespace));
        let last_word = rest.iter().rfind(|part| part.regex.is_match(namespace));
        taken && last_word.is_none_or(|part| !part.negative)
    }

    #[cfg(any(feature = "cli", test))]
    fn expression(&self, namespace: &str) -> String {
        let union = self.globs.iter().take_while(|part| !part.negative).count();
        let (first, rest) = self.globs.split_at(union);
        let matches = |part: &Part| part.expression(namespace);
        let taken = joined(first.iter().map(matches).collect(), " || ");
        let others = (!rest.is_empty()).then(|| {
            rest.iter().fold("true".to_owned(), |before, part| {
                format!("({} ? {} : {before})", matches(part), !part.negative)
            })
        });
        joined(taken.into_iter().chain(others).collect(), " && ").unwrap_or_default()
    }
}

impl Part {
    #[cfg(any(feature = "cli", test))]
    fn expression(&self, namespace: &str) -> String {
        let regex = self.regex.as_str().replace('\\', "\\\\");
        format!("{namespace}.matches('{regex}')")
    }
}

/// Joins these expressions; `None` if there are none.
#[cfg(any(feature = "cli", test))]
fn joined(expressions: Vec<String>, operator: &str) -> Option<String> {
    match expressions.len() {
        0 => None,
        1 => expressions.into_iter().next(),
        _ => Some(format!("({})", expressions.join(operator))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(patterns: &[&str], yes: &[&str], no: &[&str]) {
        let parsed = Patterns::parse(patterns).unwrap();
        for name in yes {
            assert!(parsed.matches(name), "{patterns:?} should match {name}");
        }
        for name in no {
            assert!(!parsed.matches(name), "{patterns:?} should not match {name}");
        }
    }

    #[test]
    fn patterns_select_as_documented() {
        check(&["default"], &["default"], &["default2", "kube-system"]);
        check(&["a,b"], &["a", "b"], &["c"]);
        check(&["a", "b"], &["a", "b"], &["c"]);
        check(
            &["myapp-*, !*-pr-*, *-pr-123"],
            &["myapp-1", "myapp-pr-123"],
            &["myapp-pr-1", "otherapp-pr-123"],
        );
        check(&["!*-pr-*,*pr-123"], &["x", "otherapp-pr-123"], &["a-pr-1"]);
        check(&["team-*", "!team-x"], &["team-a"], &["team-x", "other"]);
        check(&["a*,!a-x", "b*"], &["a1", "b1"], &["a-x", "c"]);
        check(&["!kube-*"], &["default"], &["kube-system"]);
        check(&["v?"], &["v1"], &["v12", "v"]);
    }

    #[test]
    fn bad_patterns_say_what_is_wrong() {
        for (pattern, reason) in [
            ("", "a part of it is empty"),
            ("a,,b", "a part of it is empty"),
            ("!", "a part of it is empty"),
            ("Prod", "`P` in `Prod` cannot be in the name of a namespace"),
            ("a b", "` ` in `a b` cannot be in the name of a namespace"),
            ("a[", "unclosed character class; missing ']'"),
        ] {
            let error = Patterns::parse([pattern]).unwrap_err();
            assert_eq!(error.reason, reason, "for {pattern:?}");
        }
    }

    #[test]
    fn names_are_known_without_listing() {
        let patterns = Patterns::parse(["a,b*", "c", "!d"]).unwrap();
        assert_eq!(patterns.literals().collect::<Vec<_>>(), ["a", "c"]);
    }
}
