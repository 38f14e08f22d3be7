//! Parses label selectors, with the real server's error messages.
//!
//! Guarantees that every valid selector is also valid on the real server. Must not depend on objects beyond a label's value.

use crate::rules::names;

/// A requirement for one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    Has,
    HasNot,
    In(Vec<String>),
    NotIn(Vec<String>),
    Greater(i64),
    Less(i64),
}

// === impl Rule ===

impl Rule {
    pub(crate) fn holds(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|text| text.parse::<i64>().ok());
        match self {
            Self::Has => value.is_some(),
            Self::HasNot => value.is_none(),
            Self::In(values) => value.is_some_and(|found| values.iter().any(|v| v == found)),
            Self::NotIn(values) => value.is_none_or(|found| values.iter().all(|v| v != found)),
            Self::Greater(limit) => number().is_some_and(|found| found > *limit),
            Self::Less(limit) => number().is_some_and(|found| found < *limit),
        }
    }
}

/// Parses a selector into requirements by key.
pub(crate) fn parse(text: &str) -> Result<Vec<(String, Rule)>, String> {
    let tokens = split(text);
    let mut parser = Parser { tokens: &tokens };
    let mut rules = Vec::new();
    loop {
        match parser.peek() {
            "" => return Ok(rules),
            token if is_word(token) || token == "!" => {
                let rule = parser.requirement();
                rules.push(rule.map_err(|why| format!("unable to parse requirement: {why}"))?);
            }
            other => {
                return Err(format!(
                    "found '{other}', expected: !, identifier, or 'end of string'"
                ));
            }
        }
        match parser.take() {
            "" => return Ok(rules),
            "," => {
                let next = parser.peek();
                if !is_word(next) && next != "!" {
                    return Err(format!("found '{next}', expected: identifier after ','"));
                }
            }
            other => {
                return Err(format!("found '{other}', expected: ',' or 'end of string'"));
            }
        }
    }
}

fn is_symbol(letter: char) -> bool {
    matches!(letter, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

fn is_word(token: &str) -> bool {
    token
        .chars()
        .next()
        .is_some_and(|letter| !is_symbol(letter))
}

/// Splits a selector into words and symbols.
fn split(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let end = if is_symbol(first) {
            let double = rest.starts_with("==") || rest.starts_with("!=");
            if double { 2 } else { 1 }
        } else {
            rest.find(|c: char| is_symbol(c) || c.is_whitespace())
                .unwrap_or(rest.len())
        };
        tokens.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    tokens
}

/// The remaining tokens; the end reads as an empty token.
struct Parser<'a> {
    tokens: &'a [&'a str],
}

// === impl Parser ===

impl<'a> Parser<'a> {
    fn peek(&self) -> &'a str {
        self.tokens.first().copied().unwrap_or_default()
    }

    fn take(&mut self) -> &'a str {
        let token = self.peek();
        self.tokens = self.tokens.get(1..).unwrap_or_default();
        token
    }

    fn requirement(&mut self) -> Result<(String, Rule), String> {
        let absent = self.peek() == "!";
        if absent {
            self.take();
        }
        let key = self.take();
        if !is_word(key) {
            return Err(format!("found '{key}', expected: identifier"));
        }
        if let Some(message) = names::qualified(key).first() {
            return Err(format!("<nil>: Invalid value: {key:?}: {message}"));
        }
        let key = key.to_owned();
        if absent {
            return Ok((key, Rule::HasNot));
        }
        if matches!(self.peek(), "" | ",") {
            return Ok((key, Rule::Has));
        }
        let rule = match self.take() {
            "=" | "==" => Rule::In(vec![self.value(&key)?]),
            "!=" => Rule::NotIn(vec![self.value(&key)?]),
            "in" => Rule::In(self.values(&key)?),
            "notin" => Rule::NotIn(self.values(&key)?),
            ">" => Rule::Greater(self.number(&key)?),
            "<" => Rule::Less(self.number(&key)?),
            other => {
                return Err(format!(
                    "found '{other}', expected: in, notin, =, ==, !=, gt, lt"
                ));
            }
        };
        Ok((key, rule))
    }

    fn value(&mut self, key: &str) -> Result<String, String> {
        if matches!(self.peek(), "" | ",") {
            return Ok(String::new());
        }
        let value = self.take();
        if !is_word(value) {
            return Err(format!("found '{value}', expected: identifier"));
        }
        checked(key, 0, value)
    }

    fn number(&mut self, key: &str) -> Result<i64, String> {
        let value = self.value(key)?;
        value.parse().map_err(|_| {
            format!("values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer")
        })
    }

    fn values(&mut self, key: &str) -> Result<Vec<String>, String> {
        match self.take() {
            "(" => {}
            other => return Err(format!("found '{other}' expected: '('")),
        }
        match self.peek() {
            token if is_word(token) || matches!(token, "," | ")") => {}
            other => return Err(format!("found '{other}', expected: ',', ')' or identifier")),
        }
        let mut values = Vec::new();
        loop {
            let token = self.peek();
            if is_word(token) {
                self.take();
            } else if !values.is_empty() && !matches!(token, "," | ")") {
                return Err(format!("found '{token}', expected: ',', or identifier"));
            }
            values.push(if is_word(token) { token } else { "" });
            match self.take() {
                "," => {}
                ")" => break,
                other => return Err(format!("found '{other}', expected: ',' or ')'")),
            }
        }
        // The real server stores the values as a set and checks them in order.
        values.sort_unstable();
        values.dedup();
        let mut complaints = Vec::new();
        for (at, value) in values.iter().enumerate() {
            complaints.extend(checked(key, at, value).err());
        }
        match complaints.as_slice() {
            [] => Ok(values.into_iter().map(str::to_owned).collect()),
            [one] => Err(one.clone()),
            all => Err(format!("[{}]", all.join(", "))),
        }
    }
}

fn checked(key: &str, at: usize, value: &str) -> Result<String, String> {
    match names::label_value(value).first() {
        None => Ok(value.to_owned()),
        Some(message) => Err(format!(
            "values[{at}][{key}]: Invalid value: {value:?}: {message}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn holds(text: &str, labels: &BTreeMap<&str, &str>) -> bool {
        parse(text).is_ok_and(|rules| {
            let value = |key: &String| labels.get(key.as_str()).copied();
            rules.iter().all(|(key, rule)| rule.holds(value(key)))
        })
    }

    #[test]
    fn selectors_by_table() {
        let labels = BTreeMap::from([("a", "1"), ("b", "x")]);
        for (text, expected) in [
            ("", true),
            ("a=1", true),
            ("a==1,b=x", true),
            ("a=1,b=y", false),
            ("a!=2", true),
            ("c!=2", true),
            ("a in (1,2)", true),
            ("a in (2, 3),b", false),
            ("b notin (y,z)", true),
            ("!c", true),
            ("!a", false),
            ("a>0", true),
            ("a<1", false),
            ("c", false),
            ("in=in", false),
        ] {
            assert_eq!(holds(text, &labels), expected, "{text}");
        }
    }

    #[test]
    fn complaints_by_table() {
        for (text, complaint) in [
            (
                "a b",
                "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
            ),
            (
                "t in",
                "unable to parse requirement: found '' expected: '('",
            ),
            (
                "t===",
                "unable to parse requirement: found '=', expected: identifier",
            ),
            ("a=b c", "found 'c', expected: ',' or 'end of string'"),
            (
                "a in (b",
                "unable to parse requirement: found '', expected: ',' or ')'",
            ),
            (
                "a in (",
                "unable to parse requirement: found '', expected: ',', ')' or identifier",
            ),
            (
                "a in (b,",
                "unable to parse requirement: found '', expected: ',', or identifier",
            ),
            (
                "=b",
                "found '=', expected: !, identifier, or 'end of string'",
            ),
        ] {
            assert_eq!(parse(text), Err(complaint.to_owned()), "{text}");
        }
    }
}
