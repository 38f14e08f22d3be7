//! Two answers, and where they differ.
//!
//! Promise: every difference is named by a JSON pointer from `/code`, `/headers` or `/body`; what one server made up stands
//! for one and the same thing of the other throughout a script. Must not know excuses.

use std::collections::HashMap;
use std::fmt;

use serde_json::{Value, json};

use super::exchange::Answer;
use super::normal::MARKS;

/// One place where two answers differ.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// Where.
    pub pointer: String,
    /// What the server in the process says there, if anything.
    pub ours: Option<Value>,
    /// What the real server says there, if anything.
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

/// What the real server made up, and what ours did in its place.
#[derive(Debug, Default)]
pub(super) struct Matches {
    ours_of: HashMap<String, String>,
    real_of: HashMap<String, String>,
}

// === impl Matches ===

impl Matches {
    /// Where two answers differ.
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
        let (one, two): (Vec<&str>, Vec<&str>) =
            (ours.split(MARKS).collect(), real.split(MARKS).collect());
        // Every other part is something made up.
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

    /// Whether these stand for each other; those that were never seen do from now on.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

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
