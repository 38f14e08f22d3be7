//! Expressions in CEL, looked at before they are ever evaluated: what their parts are, and whether that fits together.
//!
//! Promise: complaints are cel-go's, in its words and at its places; what this does not understand it does not complain about.
//! Must not know rules or definitions, nor how expressions are evaluated.

mod check;
mod cost;
mod declared;
mod expand;
pub(super) mod kind;
mod library;
mod literal;
mod parse;
mod tree;
mod unify;

pub(super) use declared::Declared;
pub(super) use kind::Kind;

use check::{Checker, Found};
use cost::Estimate;
use tree::Tree;

/// A complaint and the place in the source, counted in letters.
type Complaint = (usize, String);

/// The names an expression may use beside its own, and what they stand for.
pub(super) type Names<'a> = [(&'a str, Kind)];

/// An expression whose parts fit together.
#[derive(Debug)]
pub(super) struct Checked(Option<(Tree, Found)>);

// === impl Checked ===

impl Checked {
    /// What it is.
    pub(super) fn kind(&self) -> &Kind {
        let found = self.0.as_ref();
        found.map_or(&Kind::Unknown, |(tree, found)| found.kind(tree))
    }

    /// What it costs at most to evaluate it for such a value.
    pub(super) fn cost(&self, of: &Declared) -> u64 {
        let found = self.0.as_ref();
        found.map_or(0, |(tree, found)| Estimate::new(found, of).cost(tree))
    }
}

/// An expression with what its parts are, or what is wrong with it.
pub(super) fn check(source: &str, names: &Names<'_>) -> Result<Checked, String> {
    let Some((tree, count)) = parse::parse(source) else {
        return Ok(Checked(None));
    };
    let mut checker = Checker::new(names, count);
    checker.visit(&tree);
    checker
        .found()
        .map(|found| Checked(Some((tree, found))))
        .map_err(|mut complaints| {
            complaints.sort_by_key(|(place, _)| *place);
            let lines = complaints.iter().map(|found| shown(source, found));
            lines.collect::<Vec<String>>().join("\n")
        })
}

/// A complaint with the line it is about.
fn shown(source: &str, (place, why): &Complaint) -> String {
    let (mut number, mut start) = (1, 0);
    for (at, letter) in source.chars().enumerate().take(*place) {
        if letter == '\n' {
            number += 1;
            start = at + 1;
        }
    }
    let line = source.lines().nth(number - 1).unwrap_or_default();
    let column = place - start;
    let dots = ".".repeat(column);
    format!(
        "ERROR: <input>:{number}:{}: {why}\n | {line}\n | {dots}^",
        column + 1
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(source: &str) -> Result<Kind, String> {
        let schema = json!({"type": "object", "properties": {
            "i": {"type": "integer"}, "s": {"type": "string"}, "b": {"type": "boolean"},
            "l": {"type": "array", "items": {"type": "string"}},
            "m": {"type": "object", "additionalProperties": {"type": "integer"}},
            "o": {"type": "object", "properties": {"x": {"type": "string"}, "in": {"type": "integer"}}},
            "ios": {"x-kubernetes-int-or-string": true},
        }});
        let kind = Kind::of(&schema, false).unwrap();
        let checked = check(source, &[("self", kind.clone()), ("oldSelf", kind)])?;
        Ok(checked.kind().clone())
    }

    #[test]
    fn costs_by_table() {
        let schema = json!({"type": "object", "properties": {
            "s": {"type": "string", "maxLength": 10}, "long": {"type": "string"},
            "l": {"type": "array", "maxItems": 10, "items": {"type": "string", "maxLength": 10}},
        }});
        let (kind, declared) = (Kind::of(&schema, false), Declared::of(&schema, false));
        let (kind, declared) = (kind.unwrap(), declared.unwrap());
        for (source, cost) in [
            ("self.s == 'abc'", 3),
            ("self.s.contains('abcdefghijklmn')", 10),
            ("self.l.all(x, x == 'a')", 53),
            ("self.l.map(x, x + 'a').size() > 0", 195),
            ("self.long.contains(self.long)", 98_956_172_333),
            ("has(self.s) && self.s != ''", 3),
        ] {
            let checked = check(source, &[("self", kind.clone())]).unwrap();
            assert_eq!(checked.cost(&declared), cost, "{source}");
        }
    }

    #[test]
    fn what_fits_by_table() {
        for source in [
            "self.i > 0",
            "self.i > 1.0",
            "self.l.all(x, x.startsWith('a'))",
            "self.m.all(k, k.size() > 0 && self.m[k] > 0)",
            "!has(self.o.x) || self.o.__in__ > 0",
            "type(self.ios) == int ? self.ios > 0 : self.ios == 'a'",
            "self.s in self.l && self.i in [1, 2]",
            "self.l.filter(x, x != '').map(x, x.size()).sum() > 0",
            "quantity(self.s).isGreaterThan(quantity('1Gi')) && isURL(self.s)",
            "self == oldSelf && self.s.matches('^a') && {'a': 1}.a == 1",
            "dyn(self.i) == 'a'",
            "[].all(x, x == [x])",
        ] {
            assert_eq!(told(source), Ok(Kind::Bool), "{source}");
        }
    }

    #[test]
    fn what_does_not_fit_by_table() {
        for (source, why) in [
            ("self.zz > 0", "1:5: undefined field 'zz'"),
            (
                "other > 0",
                "1:1: undeclared reference to 'other' (in container '')",
            ),
            (
                "self.s > 0",
                "1:8: found no matching overload for '_>_' applied to '(string, int)'",
            ),
            (
                "self.i == 'a'",
                "1:8: found no matching overload for '_==_' applied to '(int, string)'",
            ),
            (
                "self.s.nonsense()",
                "1:16: undeclared reference to 'nonsense' (in container '')",
            ),
            (
                "self.i.startsWith('a')",
                "1:18: found no matching overload for 'startsWith' applied to 'int.(string)'",
            ),
            (
                "self.b && self.i",
                "1:15: expected type 'bool' but found 'int'",
            ),
            (
                "self.b ? self.i > 0 : self.s",
                "1:8: found no matching overload for '_?_:_' applied to '(bool, bool, string)'",
            ),
            (
                "[1, 'a'].size() > 0",
                "1:5: expected type 'int' but found 'string'",
            ),
            ("has(self.zz)", "1:4: undefined field 'zz'"),
            (
                "self.i in ['a']",
                "1:8: found no matching overload for '@in' applied to '(int, list(string))'",
            ),
            ("self.s.matches('[')", "1:16: invalid matches argument"),
        ] {
            let found = told(source).unwrap_err();
            let first = found.lines().next().unwrap_or_default();
            assert_eq!(first, format!("ERROR: <input>:{why}"), "{source}");
        }
    }
}
