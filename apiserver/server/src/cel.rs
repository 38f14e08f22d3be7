//! CEL expressions: parsing, type checking, cost estimation and evaluation.
//!
//! Error messages and their positions match cel-go. An expression that cannot be evaluated yields an error and never `true`.
//! Evaluation is deterministic and has no side effects. Independent of validation rules and of requests.

mod bounds;
mod check;
mod clauses;
mod cost;
mod declared;
mod expand;
pub(crate) mod kind;
mod library;
mod literal;
mod parse;
mod run;
mod tree;
mod unify;
#[cfg(feature = "cel")]
mod unread;
mod value;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

pub(crate) use declared::Declared;
pub(crate) use kind::Kind;
pub(crate) use run::url;
pub(crate) use value::{Fault, Outcome, Value};

use check::{Checker, Found};
use cost::Estimate;
use parse::Trouble;
use run::Run;
use tree::Tree;

/// The number of parsed expressions that the cache holds; a full cache is cleared.
const KEPT: usize = 4096;
/// The error for an expression that does not parse, where no parser gives a better one.
const UNREAD: &str = "this server does not understand the expression";

type Parsed = Result<Arc<Program>, String>;

static PARSED: LazyLock<Mutex<HashMap<String, Parsed>>> = LazyLock::new(Mutex::default);

/// A parsed expression that can be evaluated.
#[derive(Debug)]
pub(crate) struct Program {
    tree: Tree,
    /// The number of nodes in the tree.
    count: usize,
}

/// An error message and its position in the source, counted in characters.
type Complaint = (usize, String);

/// The variables that an expression may use, with their types.
pub(crate) type Names<'a> = [(&'a str, Kind)];

/// An expression that passed the type check.
#[derive(Debug)]
pub(crate) struct Checked {
    program: Arc<Program>,
    found: Found,
}

// === impl Program ===

impl Program {
    /// Parses an expression, or returns the cached result of an earlier parse.
    pub(crate) fn of(source: &str) -> Parsed {
        let mut known = PARSED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(source) {
            return found.clone();
        }
        if known.len() >= KEPT {
            known.clear();
        }
        let fresh = bounds::check(source).and_then(|()| match parse::parse(source) {
            Ok((tree, count)) => Ok(Arc::new(Self { tree, count })),
            Err(Trouble::Unread(reserved)) => Err(unreadable(source, reserved)),
            Err(Trouble::Misused(complaints)) => Err(told(source, complaints)),
        });
        known.insert(source.to_owned(), fresh.clone());
        fresh
    }

    /// Returns true if the expression uses the variable `name`.
    pub(crate) fn names(&self, name: &str) -> bool {
        self.tree.names(name)
    }

    /// Evaluates the expression with these variables; returns the result and its cost.
    pub(crate) fn run<'a>(
        &'a self,
        names: Vec<(&'a str, Outcome<'a>)>,
        limit: u64,
    ) -> (Outcome<'a>, u64) {
        let mut run = Run::new(names, limit);
        let made = run.value(&self.tree);
        (made, run.cost())
    }
}

/// Checks the syntax of an expression and returns the error message of the real server.
#[cfg(feature = "cel")]
pub(crate) fn syntax(source: &str) -> Result<(), String> {
    bounds::check(source)?;
    // The `cel` crate does not parse triple-quoted strings.
    if source.contains("\"\"\"") || source.contains("'''") {
        return Program::of(source).map(|_| ());
    }
    let ours = Program::of(source).map(|_| ());
    match read_by_other(source) {
        // Only our own parser reports the errors of macros.
        Err(_) if ours.as_ref().is_err_and(|why| why != UNREAD) => ours,
        Err(errors) => Err(unread::told(source, &errors)),
        Ok(()) => ours,
    }
}

/// Parses the expression with the `cel` crate, on a thread of its own: fifty levels of brackets need more stack than threads have.
#[cfg(feature = "cel")]
fn read_by_other(source: &str) -> Result<(), String> {
    const STACK: usize = 64 * 1024 * 1024;
    let read = || {
        let parser = ::cel::parser::Parser::default().enable_optional_syntax(true);
        let read = parser.parse(source).map(drop);
        read.map_err(|errors| errors.to_string())
    };
    std::thread::scope(|scope| {
        let reader = std::thread::Builder::new().stack_size(STACK);
        let reader = reader.spawn_scoped(scope, read).ok();
        let read = reader.and_then(|reader| reader.join().ok());
        // If no thread can be started, the result of our own parser is enough.
        read.unwrap_or(Ok(()))
    })
}

/// Checks the syntax of an expression; the error has no position.
#[cfg(not(feature = "cel"))]
pub(crate) fn syntax(source: &str) -> Result<(), String> {
    Program::of(source).map(|_| ())
}

// === impl Checked ===

impl Checked {
    /// Returns the type of the expression.
    pub(crate) fn kind(&self) -> &Kind {
        self.found.kind(&self.program.tree)
    }

    /// Returns an error that shows before evaluation: a sub-expression that needs no variables fails.
    pub(crate) fn flaw(&self) -> Option<String> {
        let mut flaw = None;
        self.program.tree.each_part(&mut |part| {
            if flaw.is_none() {
                flaw = run::flaw(part);
            }
        });
        flaw
    }

    /// Estimates the highest cost of evaluating the expression for a value with this declaration.
    pub(crate) fn cost(&self, of: &Declared) -> u64 {
        Estimate::new(&self.found, of).cost(&self.program.tree)
    }
}

/// Parses an expression and checks its types.
pub(crate) fn check(source: &str, names: &Names<'_>) -> Result<Checked, String> {
    let program = Program::of(source)?;
    let mut checker = Checker::new(names, program.count);
    checker.visit(&program.tree);
    match checker.found(&program.tree) {
        Ok(found) => Ok(Checked { program, found }),
        Err(complaints) => Err(told(source, complaints)),
    }
}

/// Returns the error for an expression that does not parse. With the `cel` feature, the `cel` crate adds its own errors later.
fn unreadable(source: &str, reserved: Vec<Complaint>) -> String {
    if cfg!(feature = "cel") || reserved.is_empty() {
        return UNREAD.to_owned();
    }
    told(source, reserved)
}

/// Formats the errors, ordered by their positions.
fn told(source: &str, mut complaints: Vec<Complaint>) -> String {
    complaints.sort_by_key(|(place, _)| *place);
    let lines = complaints.iter().map(|found| shown(source, found));
    lines.collect::<Vec<String>>().join("\n")
}

/// Formats an error with the source line that it concerns.
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
    fn what_evaluating_costs_by_table() {
        let given = json!({"o": {"x": "y"}, "l": ["a", "b"], "i": 3});
        let mut wrong = Vec::new();
        for (source, cost) in [
            ("1 + 1 == 2", 2),
            ("i > 2", 2),
            ("o.x == 'y'", 3),
            ("has(o.x)", 1),
            ("l.all(x, x != '')", 10),
            ("lists.range(2).all(x, x >= 0)", 24),
            ("[i, i] == [3]", 13),
            ("i in [1, 2]", 1),
            ("o.?x.orValue('z') == 'y'", 3),
            ("l[?5].hasValue()", 2),
            ("(i > 2 ? o : o).x == 'y'", 4),
            ("l.filter(x, x == 'a').size()", 20),
        ] {
            let program = Program::of(source).unwrap();
            let names = ["o", "l", "i"].map(|name| (name, Ok(Value::plain(&given[name]))));
            let (made, spent) = program.run(names.to_vec(), u64::MAX);
            assert!(made.is_ok(), "{source}: {made:?}");
            wrong.extend((spent != cost).then_some((source, spent)));
        }
        assert_eq!(wrong, []);
    }

    #[test]
    fn the_deepest_expressions_fit_on_the_stack_of_a_thread() {
        let selects = format!("i{}", ".x".repeat(500));
        let sums = format!("i{}", " + 1".repeat(500));
        let nots = format!("{}b", "!".repeat(500));
        let brackets = format!("{}i{}", "[".repeat(50), "]".repeat(50));
        let folds = format!("{}i{}", "[1].map(x, ".repeat(25), ")".repeat(25));
        let alternatives = format!("i == 2{}", " || i == 1 && b".repeat(2000));
        for source in [selects, sums, nots, brackets, folds, alternatives] {
            let program = Program::of(&source).unwrap();
            let names = vec![("i", Ok(Value::Int(1))), ("b", Ok(Value::Bool(true)))];
            let (made, _) = program.run(names, 1_000_000);
            assert_eq!(made.is_ok(), !source.contains(".x"), "{source}");
            assert!(check(&source, &[("i", Kind::Dyn), ("b", Kind::Bool)]).is_ok());
            assert_eq!(syntax(&source), Ok(()), "{source}");
        }
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
