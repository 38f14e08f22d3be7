//! Evaluates expressions and counts the cost.
//!
//! Values, errors and costs match cel-go. Stops as soon as the cost exceeds the limit. Independent of rules and requests.

mod convert;
mod cost;
pub(super) mod format;
mod function;
mod kubernetes;
mod lists;
mod made;
mod operator;
mod part;
mod printf;
pub(super) mod semver;
mod texts;
mod times;
pub(crate) mod url;

use super::library;
use super::tree::{Fold, Part, Tree, is_conversion, plain};
use super::value::{Fault, Outcome, Value};
use function::apply;
use part::part_of;

/// The accumulator variable of macros. Each step uses it once, so it can be moved instead of cloned.
const MADE: &str = "@result";

/// The state of one evaluation.
pub(super) struct Run<'a> {
    scope: Vec<(&'a str, Outcome<'a>)>,
    cost: u64,
    limit: u64,
}

// === impl Run ===

impl<'a> Run<'a> {
    /// Starts an evaluation with these variables, some of which may hold errors, and this cost limit.
    pub(super) fn new(names: Vec<(&'a str, Outcome<'a>)>, limit: u64) -> Self {
        Self {
            scope: names,
            cost: 0,
            limit,
        }
    }

    pub(super) fn cost(&self) -> u64 {
        self.cost
    }

    fn spend(&mut self, cost: u64) -> Result<(), Fault> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit {
            return Err(Fault::Limit);
        }
        Ok(())
    }

    /// Evaluates a node. Recursive: this function and its callees must use little stack.
    pub(super) fn value(&mut self, tree: &'a Tree) -> Outcome<'a> {
        match &tree.part {
            Part::Null => Ok(Value::Null),
            Part::Bool(truth) => Ok(Value::Bool(*truth)),
            Part::Int(number) => Ok(Value::Int(*number)),
            Part::Uint(number) => Ok(Value::Uint(*number)),
            Part::Double(number) => Ok(Value::Double(*number)),
            Part::Bytes(octets) => Ok(Value::Bytes(octets.into())),
            Part::Text(text) => Ok(Value::text(text.as_str())),
            Part::Name(name) => self.name(name),
            Part::Select { of, .. } => {
                if let Some(name) = tree.named_type() {
                    return Ok(Value::Type(name));
                }
                let of = self.value(of)?;
                self.selected(tree, &of)
            }
            Part::Call {
                name,
                target,
                given,
            } => self.call(name, target.as_deref(), given),
            Part::List(items) => {
                let found = self.items(items)?;
                self.spend(if tree.is_constant() { 0 } else { cost::LIST })?;
                Ok(Value::list(found))
            }
            Part::Map(entries) => self.map(tree, entries),
            Part::Perhaps(of) => self.value(of),
            Part::Message(name, _) => Err(Fault::Told(format!("unknown type: {name}"))),
            Part::Fold(fold) => self.fold(fold),
        }
    }

    fn values(
        &mut self,
        target: Option<&'a Tree>,
        given: &'a [Tree],
    ) -> Result<Vec<Value<'a>>, Fault> {
        let mut found = Vec::with_capacity(given.len() + 1);
        for part in target.into_iter().chain(given) {
            found.push(self.value(part)?);
        }
        Ok(found)
    }

    fn selected(&mut self, tree: &'a Tree, found: &Value<'a>) -> Outcome<'a> {
        let Part::Select {
            of,
            field,
            optional,
            test,
        } = &tree.part
        else {
            return Ok(Value::Null);
        };
        self.spend(u64::from(!is_place(of)))?;
        let key = Value::text(field.as_str());
        let there = part_of(found, &key, *optional || *test);
        if *test {
            let there = matches!(there?, Value::Optional(Some(_)));
            return Ok(Value::Bool(there));
        }
        self.paid(there)
    }

    fn name(&mut self, name: &str) -> Outcome<'a> {
        let name = plain(name);
        let known = |(known, _): &(&str, Outcome<'a>)| *known == name;
        let Some(at) = self.scope.iter().rposition(known) else {
            let known = super::kind::TYPES.iter().find(|known| **known == name);
            return known
                .map(|name| Value::Type(name))
                .ok_or_else(|| Fault::Told(format!("no such attribute(s): {name}")));
        };
        self.spend(1)?;
        let found = &mut self.scope[at].1;
        let made = match found {
            Ok(Value::List(list)) => list.is_made(),
            Ok(Value::Map(map)) => map.is_made(),
            _ => false,
        };
        if made && name == MADE {
            return std::mem::replace(found, Ok(Value::Null));
        }
        found.clone()
    }

    fn call(&mut self, name: &'a str, target: Option<&'a Tree>, given: &'a [Tree]) -> Outcome<'a> {
        match (name, given) {
            ("_&&_", [one, other]) => self.either(one, other, false),
            ("_||_", [one, other]) => self.either(one, other, true),
            ("_?_:_", [condition, yes, no]) => self.choice(condition, yes, no),
            ("@not_strictly_false", [of]) => {
                let found = self.value(of);
                self.spend(1)?;
                match found {
                    Ok(Value::Bool(false)) => Ok(Value::Bool(false)),
                    Err(Fault::Limit) => Err(Fault::Limit),
                    _ => Ok(Value::Bool(true)),
                }
            }
            ("or" | "orValue", [other]) if target.is_some() => {
                self.alternative(target, other, name == "orValue")
            }
            _ => {
                let space = target.and_then(|target| self.space(target, name));
                let target = target.filter(|_| space.is_none());
                let operands = self.values(target, given)?;
                let name = space.as_deref().unwrap_or(name);
                self.made(name, target.is_some(), given, operands)
            }
        }
    }

    fn choice(&mut self, condition: &'a Tree, yes: &'a Tree, no: &'a Tree) -> Outcome<'a> {
        let chosen = match self.value(condition)? {
            Value::Bool(true) => yes,
            Value::Bool(false) => no,
            _ => return Err(Fault::told("no such overload")),
        };
        // Looking up the chosen branch is free if it is a path other than a nested conditional.
        let free = is_place(chosen) && !is_choice(chosen);
        let made = self.value(chosen);
        self.cost -= u64::from(free).min(self.cost);
        made
    }

    /// Calls a function; returns the result and counts its cost.
    fn made(
        &mut self,
        name: &str,
        method: bool,
        given: &[Tree],
        operands: Vec<Value<'a>>,
    ) -> Outcome<'a> {
        match (name, given, operands.as_slice()) {
            ("_[_]" | "_[?_]", [of, index], [found, key]) => {
                self.spend(u64::from(!is_place(of)))?;
                let there = part_of(found, key, name == "_[?_]");
                // If the index is a path, its own cost covers the lookup.
                return if is_place(index) {
                    there
                } else {
                    self.paid(there)
                };
            }
            ("@in", [_, list], [item, found]) if is_set(list) => {
                return operator::contains(item, found);
            }
            _ => {}
        }
        let folded = !method && is_conversion(name) && given.iter().all(Tree::is_constant);
        if !folded {
            self.spend(cost::before(name, &operands))?;
        }
        let made = apply(name, method, operands)?;
        self.spend(cost::after(name, &made))?;
        Ok(made)
    }

    /// Counts the cost of a lookup, except for an optional one that found no value.
    fn paid(&mut self, found: Outcome<'a>) -> Outcome<'a> {
        if !matches!(found, Ok(Value::Optional(None))) {
            self.spend(1)?;
        }
        found
    }

    /// Unwraps an optional value, or evaluates the alternative, which happens only if it is needed.
    fn alternative(
        &mut self,
        target: Option<&'a Tree>,
        other: &'a Tree,
        unwrapped: bool,
    ) -> Outcome<'a> {
        let Some(target) = target else {
            return Err(Fault::told("no such overload"));
        };
        match self.value(target)? {
            Value::Optional(None) => self.value(other),
            Value::Optional(Some(of)) if unwrapped => Ok((*of).clone()),
            of @ Value::Optional(_) => Ok(of),
            _ => Err(Fault::told("no such overload")),
        }
    }

    /// Returns the qualified name of a function if the target is a namespace rather than a variable.
    fn space(&self, target: &Tree, name: &str) -> Option<String> {
        let Part::Name(space) = &target.part else {
            return None;
        };
        let space = plain(space);
        if self.scope.iter().any(|(known, _)| *known == space) {
            return None;
        }
        let name = format!("{space}.{name}");
        library::overloads(&name).map(|_| name)
    }

    /// Evaluates `&&` or `||`: an operand that decides the result hides an error of the other one.
    fn either(&mut self, one: &'a Tree, other: &'a Tree, decides: bool) -> Outcome<'a> {
        let mut fault = None;
        for part in [one, other] {
            match self.value(part) {
                Ok(Value::Bool(truth)) if truth == decides => return Ok(Value::Bool(truth)),
                Ok(Value::Bool(_)) => {}
                Err(Fault::Limit) => return Err(Fault::Limit),
                Ok(_) => fault = fault.or(Some(Fault::told("no such overload"))),
                Err(why) => fault = fault.or(Some(why)),
            }
        }
        fault.map_or(Ok(Value::Bool(!decides)), Err)
    }

    fn fold(&mut self, fold: &'a Fold) -> Outcome<'a> {
        let range = self.value(&fold.range)?;
        let start = self.value(&fold.start);
        if is_over(&start) {
            return Err(Fault::Limit);
        }
        let outside = self.scope.len();
        self.scope.push((&fold.value, start));
        let folded = self.fold_parts(fold, &range);
        let made = folded.and_then(|()| self.value(&fold.end));
        self.scope.truncate(outside);
        made
    }

    fn fold_parts(&mut self, fold: &'a Fold, range: &Value<'a>) -> Result<(), Fault> {
        let parts: Vec<(Value<'a>, Option<Value<'a>>)> = match (range, &fold.names.1) {
            (Value::List(list), None) => list
                .iter()
                .map(|item| Ok((item?, None)))
                .collect::<Result<_, Fault>>()?,
            (Value::List(list), Some(_)) => {
                let numbered = list.iter().enumerate();
                let index = |at: usize| Value::Int(i64::try_from(at).unwrap_or(i64::MAX));
                let pair = |(at, item): (usize, Outcome<'a>)| Ok((index(at), Some(item?)));
                numbered.map(pair).collect::<Result<_, Fault>>()?
            }
            (Value::Map(map), double) => {
                let mut parts = Vec::new();
                for key in map.keys() {
                    let of = if double.is_some() {
                        map.find(&key)?
                    } else {
                        None
                    };
                    parts.push((key, of));
                }
                parts
            }
            (other, _) => {
                let why = format!("got '{}', expected iterable type", other.type_name());
                return Err(Fault::Told(why));
            }
        };
        let value = self.scope.len() - 1;
        for (first, second) in parts {
            self.scope.push((&fold.names.0, Ok(first)));
            if let (Some(name), Some(second)) = (&fold.names.1, second) {
                self.scope.push((name, Ok(second)));
            }
            let goes_on = self.value(&fold.while_true);
            if is_over(&goes_on) {
                return Err(Fault::Limit);
            }
            if matches!(goes_on, Ok(Value::Bool(false))) {
                self.scope.truncate(value + 1);
                break;
            }
            let step = self.value(&fold.step);
            if is_over(&step) {
                return Err(Fault::Limit);
            }
            self.scope.truncate(value + 1);
            self.scope[value].1 = step;
        }
        Ok(())
    }
}

/// Returns true if the error ends the whole evaluation.
fn is_over(found: &Outcome<'_>) -> bool {
    matches!(found, Err(Fault::Limit))
}

fn is_choice(tree: &Tree) -> bool {
    matches!(&tree.part, Part::Call { name, .. } if name == "_?_:_")
}

/// Returns true if the node is a list of literals, which the real server turns into a set.
fn is_set(tree: &Tree) -> bool {
    let plain = |item: &Tree| {
        matches!(
            item.part,
            Part::Bool(_) | Part::Int(_) | Part::Uint(_) | Part::Double(_) | Part::Text(_)
        )
    };
    matches!(&tree.part, Part::List(items) if items.iter().all(plain))
}

/// Returns true if the node counts as a path: a variable, a field, an item or a conditional.
fn is_place(tree: &Tree) -> bool {
    match &tree.part {
        Part::Name(_) | Part::Select { .. } => true,
        Part::Call { name, .. } => matches!(name.as_str(), "_[_]" | "_[?_]" | "_?_:_"),
        _ => false,
    }
}

/// Returns the error of a node that fails without any variables: the conversion of a literal, or an invalid pattern.
pub(super) fn flaw(part: &Tree) -> Option<String> {
    let Part::Call { name, given, .. } = &part.part else {
        return None;
    };
    if let ("find" | "findAll", Some(Part::Text(source))) =
        (name.as_str(), given.first().map(|pattern| &pattern.part))
    {
        return crate::schema::pattern::complaint(source);
    }
    if !is_conversion(name) || !part.is_constant() {
        return None;
    }
    match Run::new(Vec::new(), u64::MAX).value(part) {
        Err(Fault::Told(why)) => Some(why),
        _ => None,
    }
}
