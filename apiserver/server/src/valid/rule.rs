//! Reads the rules of the table: each word of a line is a check of a field.
//!
//! `need` (`=message`; `,on` continues with the next rule): required. `in=a,b`: one of these. `choice=a,b`: the same with other
//! words. `least=n`, `more=n`, `above`, `range=a..b`, `within=a-b`: numbers. `each=format`: applies to every item. `share`, `full`: a
//! number or percentage. Any other word is a format.
//!
//! Only `need` applies to absent fields. Independent of types beyond their names.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::Value;

use super::finder::{Finder, child, is_empty};
use super::{
    autoscaler, batch, certificate, container, endpoints, format, network, node, outcome, pod,
    quota, resource, scheduling, security, service, simple, source, storage, volume, whole,
    workload,
};
use crate::object::Body;
use crate::typed::Type;
use crate::typed::reach::Reach;

const TABLE: &str = include_str!("../../tables/rules.txt");

static RULES: LazyLock<HashMap<&'static str, Vec<Check>>> = LazyLock::new(|| parse(TABLE));

static REACH: LazyLock<Reach> = LazyLock::new(|| Reach::to(|name| RULES.contains_key(name)));

/// A function that checks a whole object of a type, given the object's path.
type Whole = fn(&mut Finder<'_>, &Body, &str);

/// A check of objects of a type.
#[derive(Debug)]
pub(super) enum Check {
    Field(&'static str, Vec<Rule>),
    Whole(Whole),
}

/// A check of a field.
#[derive(Debug)]
pub(super) enum Rule {
    Need { message: String, go_on: bool },
    In(Vec<&'static str>),
    Choice(Vec<&'static str>),
    Least(i64),
    More(i64),
    Above,
    Range(i64, i64),
    Within(i64, i64),
    Each(&'static str),
    Format(&'static str),
}

/// Returns the checks of a type.
pub(super) fn of(name: &str) -> &'static [Check] {
    RULES.get(name).map_or(&[], Vec::as_slice)
}

/// Returns true if values of this type, or anything within them, have checks.
pub(super) fn leads(of: &Type) -> bool {
    REACH.leads(of)
}

// === impl Check ===

impl Check {
    pub(super) fn apply(&self, finder: &mut Finder<'_>, body: &Body, at: &str) {
        match self {
            Self::Whole(check) => check(finder, body, at),
            Self::Field(name, rules) => {
                let at = child(at, name);
                let found = body.get(*name).filter(|value| !value.is_null());
                for rule in rules {
                    if !rule.apply(finder, found, &at) {
                        break;
                    }
                }
            }
        }
    }
}

// === impl Rule ===

impl Rule {
    /// Adds errors if the check fails; returns true if the next check should run.
    fn apply(&self, finder: &mut Finder<'_>, found: Option<&Value>, at: &str) -> bool {
        if let Self::Need { message, go_on } = self {
            // An object counts as present even if it is empty.
            let missing = is_empty(found) && !found.is_some_and(Value::is_object);
            if missing {
                finder.required(at, message);
            }
            return !missing || *go_on;
        }
        let nothing = Value::from("");
        let value = match (self, found) {
            (_, Some(value)) => value,
            // Names are checked even if they are absent.
            (Self::Format("name"), None) => &nothing,
            _ => return true,
        };
        match self {
            Self::In(known) => {
                if !known.iter().any(|word| value == word) {
                    finder.unsupported(at, value, known);
                }
            }
            Self::Choice(known) => {
                if !known.iter().any(|word| value == word) {
                    let words: Vec<String> = known.iter().map(|word| format!("'{word}'")).collect();
                    finder.invalid(at, value, &format!("must be {}", words.join(" or ")));
                }
            }
            Self::Each(format) => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    format::check(finder, format, &format!("{at}[{index}]"), item);
                }
            }
            Self::Format(format) => format::check(finder, format, at, value),
            _ => {
                if let Some(message) = value.as_i64().and_then(|number| self.of_number(number)) {
                    finder.invalid(at, value, &message);
                }
            }
        }
        true
    }

    /// Returns the error for a number that is out of range.
    fn of_number(&self, number: i64) -> Option<String> {
        let (fits, message) = match self {
            Self::Least(least) => (
                number >= *least,
                format!("must be greater than or equal to {least}"),
            ),
            Self::More(least) => (number > *least, format!("must be greater than {least}")),
            Self::Above => (number > 0, "must be greater than zero".to_owned()),
            Self::Range(from, to) => (
                (*from..=*to).contains(&number),
                format!("must be between {from} and {to}, inclusive"),
            ),
            Self::Within(from, to) => (
                (*from..=*to).contains(&number),
                format!("must be in the range {from}-{to}"),
            ),
            _ => return None,
        };
        (!fits).then_some(message)
    }
}

fn parse(table: &'static str) -> HashMap<&'static str, Vec<Check>> {
    let mut rules: HashMap<&'static str, Vec<Check>> = HashMap::new();
    let mut name = "";
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let Some(rest) = line.strip_prefix(' ') else {
            name = line;
            continue;
        };
        let (field, words) = rest.split_once(' ').unwrap_or((rest, ""));
        let checks = rules.entry(name).or_default();
        if field == "*" {
            checks.extend(words.split(' ').filter_map(named).map(Check::Whole));
        } else {
            checks.push(Check::Field(field, words.split(' ').map(rule).collect()));
        }
    }
    rules
}

fn rule(word: &'static str) -> Rule {
    let (name, rest) = word.split_once('=').unwrap_or((word, ""));
    let words = || rest.split(',').collect();
    let number = |text: &str| text.parse().unwrap_or_default();
    let pair = |mark: &str| {
        let (from, to) = rest.split_once(mark).unwrap_or((rest, rest));
        (number(from), number(to))
    };
    match name {
        "need" => Rule::Need {
            message: rest.trim_end_matches(",on").replace('_', " "),
            go_on: rest.ends_with(",on"),
        },
        "in" => Rule::In(words()),
        "choice" => Rule::Choice(words()),
        "least" => Rule::Least(number(rest)),
        "more" => Rule::More(number(rest)),
        "above" => Rule::Above,
        "range" => {
            let (from, to) = pair("..");
            Rule::Range(from, to)
        }
        "within" => {
            let (from, to) = pair("-");
            Rule::Within(from, to)
        }
        "each" => Rule::Each(rest),
        format => Rule::Format(format),
    }
}

fn named(name: &str) -> Option<Whole> {
    [
        autoscaler::NAMED,
        batch::NAMED,
        certificate::NAMED,
        container::NAMED,
        endpoints::NAMED,
        network::NAMED,
        node::NAMED,
        outcome::NAMED,
        pod::NAMED,
        quota::NAMED,
        resource::NAMED,
        scheduling::NAMED,
        security::NAMED,
        service::NAMED,
        simple::NAMED,
        source::NAMED,
        storage::NAMED,
        volume::NAMED,
        whole::NAMED,
        workload::NAMED,
    ]
    .concat()
    .into_iter()
    .find(|(known, _)| *known == name)
    .map(|(_, check)| check)
}

/// Functions by their names in the table.
pub(super) type Named = &'static [(&'static str, Whole)];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::typed::is_known;

    #[test]
    fn every_line_of_the_table_is_understood() {
        let mut of = "";
        for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
            match line.strip_prefix(' ') {
                None => {
                    of = line;
                    assert!(is_known(line, None), "no type {line}");
                }
                Some(rest) => {
                    let (field, words) = rest.split_once(' ').unwrap();
                    for word in words.split(' ') {
                        let known = match (field, rule(word)) {
                            ("*", _) => named(word).is_some(),
                            (_, Rule::Format(name) | Rule::Each(name)) => format::is_known(name),
                            _ => true,
                        };
                        assert!(known, "{of}: {word}");
                    }
                    assert!(field == "*" || is_known(of, Some(field)), "{of}: {field}");
                }
            }
        }
    }
}
