//! Compares two answers and names each difference.
//!
//! Each difference has a JSON pointer that starts with `/code`, `/headers` or `/body`. A value that one server generated corresponds to
//! exactly one generated value of the other server throughout a script. Must not know the ledger.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use serde_json::{Value, json};

use super::exchange::Answer;
use super::normal::MARKS;

/// One point where two answers differ.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The JSON pointer to the differing value.
    pub pointer: String,
    /// The value in the answer of the in-process server, if it has one.
    pub ours: Option<Value>,
    /// The value in the answer of the real server, if it has one.
    pub real: Option<Value>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Option<Value>| {
            let text = value.as_ref().map(Value::to_string);
            text.map_or_else(
                || "(absent)".to_owned(),
                |text| text.replace("\\u0002", "<").replace("\\u0003", ">"),
            )
        };
        write!(
            f,
            "{}\n      ours {}\n      real {}",
            self.pointer,
            shown(&self.ours),
            shown(&self.real)
        )
    }
}

/// Maps the values that the real server generated to those that our server generated, and back.
#[derive(Debug, Default)]
pub(super) struct Matches {
    ours_of: HashMap<String, String>,
    real_of: HashMap<String, String>,
}

// === impl Matches ===

impl Matches {
    /// Returns the differences between two answers.
    pub(super) fn compare(&mut self, ours: &Answer, real: &Answer) -> Vec<Difference> {
        let whole = |answer: &Answer| json!({"code": answer.code, "headers": answer.headers, "body": answer.body});
        let mut found = Vec::new();
        self.values(Some(&whole(ours)), Some(&whole(real)), "", &mut found);
        found
    }

    fn values(
        &mut self,
        ours: Option<&Value>,
        real: Option<&Value>,
        at: &str,
        found: &mut Vec<Difference>,
    ) {
        match (ours, real) {
            (Some(Value::Object(one)), Some(Value::Object(two))) => {
                let mut names: Vec<&String> = one.keys().chain(two.keys()).collect();
                names.sort();
                names.dedup();
                for name in names {
                    let part = name.replace('~', "~0").replace('/', "~1");
                    self.values(one.get(name), two.get(name), &format!("{at}/{part}"), found);
                }
            }
            (Some(Value::Array(one)), Some(Value::Array(two))) => {
                for index in 0..one.len().max(two.len()) {
                    let at = format!("{at}/{index}");
                    self.values(one.get(index), two.get(index), &at, found);
                }
            }
            (Some(Value::String(one)), Some(Value::String(two))) if self.texts(one, two) => {}
            _ if ours == real => {}
            _ => found.push(Difference {
                pointer: at.to_owned(),
                ours: ours.cloned(),
                real: real.cloned(),
            }),
        }
    }

    fn texts(&mut self, ours: &str, real: &str) -> bool {
        if let (Some(one), Some(two)) = (Untyped::of(ours), Untyped::of(real)) {
            return one.covers(&two);
        }
        if let (Some(one), Some(two)) = (Printed::of(ours), Printed::of(real)) {
            let mut found = Vec::new();
            self.values(Some(&one.value), Some(&two.value), "", &mut found);
            return found.is_empty()
                && self.texts(one.start, two.start)
                && self.texts(one.end, two.end);
        }
        let (one, two): (Vec<&str>, Vec<&str>) =
            (ours.split(MARKS).collect(), real.split(MARKS).collect());
        // Every second part is a generated value.
        let fits = |at: usize, one: &str, two: &str, matches: &mut Self| {
            if at.is_multiple_of(2) {
                one == two
            } else {
                matches.same(one, two)
            }
        };
        one.len() == two.len()
            && one
                .iter()
                .zip(&two)
                .enumerate()
                .all(|(at, (one, two))| fits(at, one, two, self))
    }

    /// Returns whether two generated values correspond to each other; two new values of the same kind correspond from now on.
    fn same(&mut self, ours: &str, real: &str) -> bool {
        let kind = |text: &str| text.split(' ').next().map(str::to_owned);
        match (self.ours_of.get(real), self.real_of.get(ours)) {
            (None, None) if kind(ours) == kind(real) => {
                self.ours_of.insert(real.to_owned(), ours.to_owned());
                self.real_of.insert(ours.to_owned(), real.to_owned());
                true
            }
            (known, _) => known.is_some_and(|known| known == ours),
        }
    }
}

/// A text that contains an object as JSON; the order of its keys does not matter.
struct Printed<'a> {
    start: &'a str,
    value: Value,
    end: &'a str,
}

// === impl Printed ===

impl<'a> Printed<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let quote = text.find("Invalid value: \"{")? + "Invalid value: ".len();
        let mut escaped = false;
        let mut plain = String::new();
        for (at, letter) in text[quote + 1..].char_indices() {
            match letter {
                '"' if !escaped => {
                    let end = &text[quote + 1 + at..];
                    let value = serde_json::from_str(&plain).ok()?;
                    return Some(Self {
                        start: &text[..quote],
                        value,
                        end,
                    });
                }
                '\\' if !escaped => escaped = true,
                // JSON must escape control characters.
                letter if letter == MARKS[0] => plain.push_str("\\u0002"),
                letter if letter == MARKS[1] => plain.push_str("\\u0003"),
                letter => {
                    escaped = false;
                    plain.push(letter);
                }
            }
        }
        None
    }
}

/// The error of server-side apply for an object that does not match its schema.
#[derive(Debug, PartialEq)]
struct Untyped<'a> {
    start: &'a str,
    lines: BTreeSet<&'a str>,
}

// === impl Untyped ===

impl<'a> Untyped<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let ends = ["): ", " to smd typed: "];
        text.starts_with("failed to create ").then_some(())?;
        let end = ends
            .iter()
            .filter_map(|end| Some(text.find(end)? + end.len()))
            .max()?;
        let (start, told) = text.split_at(end);
        let lines = told
            .strip_prefix("errors:\n  ")
            .unwrap_or(told)
            .split("\n  ");
        Some(Self {
            start,
            lines: lines.collect(),
        })
    }

    /// Returns whether our lines include those of the real server. The real server walks maps in random order and stops at the first
    /// undeclared field of a map, so it reports only a part.
    fn covers(&self, real: &Self) -> bool {
        let leaves = self
            .lines
            .iter()
            .any(|line| line.ends_with(": field not declared in schema"));
        self.start == real.start
            && self.lines.is_superset(&real.lines)
            && (leaves || self.lines == real.lines)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn objects_in_texts_have_no_order() {
        let same = |ours: &str, real: &str| Matches::default().texts(ours, real);
        let (one, two) = (
            r#"x: Invalid value: "{\"a\":1,\"b\":\"\u{2}uid u\u{3}\"}": y"#,
            r#"x: Invalid value: "{\"b\":\"\u{2}uid v\u{3}\",\"a\":1}": y"#,
        );
        let marked = |text: &str| text.replace(r"\u{2}", "\u{2}").replace(r"\u{3}", "\u{3}");
        assert!(same(&marked(one), &marked(two)));
        assert!(!same(&marked(one), &marked(two).replace(":1", ":2")));
        assert!(!same(&marked(one), &marked(two).replace(": y", ": z")));
    }

    #[test]
    fn what_is_not_of_its_type_may_be_told_in_part() {
        let told = |lines: &str| {
            format!("failed to create typed patch object (/x; g/v1, Kind=Thing): {lines}")
        };
        let covers = |ours: &str, real: &str| {
            let (ours, real) = (told(ours), told(real));
            Untyped::of(&ours)
                .unwrap()
                .covers(&Untyped::of(&real).unwrap())
        };
        let undeclared = ".z: field not declared in schema";
        let all = format!("errors:\n  .a: expected map, got &{{1}}\n  {undeclared}");
        assert!(covers(&all, undeclared));
        assert!(covers(
            &all,
            &format!("errors:\n  {undeclared}\n  .a: expected map, got &{{1}}")
        ));
        assert!(!covers(undeclared, &all));
        assert!(!covers("errors:\n  .a: x\n  .b: y", ".a: x"));
    }

    #[test]
    fn what_was_made_up_is_matched_one_to_one() {
        let answer = |body: Value| Answer {
            code: 200,
            headers: BTreeMap::new(),
            body,
        };
        let mut matches = Matches::default();
        let mut count =
            |ours: Value, real: Value| matches.compare(&answer(ours), &answer(real)).len();
        let uid = |name: &str| format!("\u{2}uid {name}\u{3}");
        assert_eq!(count(json!([uid("a"), 1]), json!([uid("x"), 1])), 0);
        assert_eq!(count(json!([uid("a")]), json!([uid("y")])), 1);
        assert_eq!(count(json!([uid("b")]), json!([uid("x")])), 1);
        assert_eq!(
            count(json!({"a": uid("b")}), json!({"a": uid("y"), "b": 2})),
            1
        );
    }
}
