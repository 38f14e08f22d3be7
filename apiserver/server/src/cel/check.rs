//! The type check of an expression.
//!
//! Reports each error once: a faulty node gets the type `Unknown`, which fits everywhere. Independent of the source text.

mod parts;
mod placed;

use super::kind::{Kind, TYPES};
use super::library::{self, Overload};
use super::tree::{Fold, Part, Tree, plain};
use super::unify::{Open, closed, shifted};
use super::value::moment::Moment;
use super::{Complaint, Names};
use crate::schema::go::duration;
use crate::schema::pattern;

/// Walks through an expression and checks its types.
pub(super) struct Checker {
    names: Vec<(String, Kind)>,
    open: Open,
    complaints: Vec<Complaint>,
    /// Errors that are reported only if there are no type errors.
    later: Vec<Complaint>,
    /// The number of enclosing calls whose lists may mix types.
    free: usize,
    found: Found,
}

/// The types that the check found for all nodes.
#[derive(Debug)]
pub(super) struct Found {
    kinds: Vec<Kind>,
    uses: Vec<Vec<Overload>>,
}

// === impl Found ===

impl Found {
    fn new(count: usize) -> Self {
        Self {
            kinds: vec![Kind::Unknown; count],
            uses: vec![Vec::new(); count],
        }
    }

    pub(super) fn kind(&self, tree: &Tree) -> &Kind {
        &self.kinds[tree.id]
    }

    /// Returns the overloads that a call may resolve to, given the types of its operands.
    pub(super) fn uses(&self, tree: &Tree) -> &[Overload] {
        &self.uses[tree.id]
    }
}

// === impl Checker ===

impl Checker {
    /// Creates a checker for an expression of `count` nodes.
    pub(super) fn new(names: &Names<'_>, count: usize) -> Self {
        let names = names
            .iter()
            .map(|(name, kind)| ((*name).to_owned(), kind.clone()));
        Self {
            names: names.collect(),
            open: Open::default(),
            complaints: Vec::new(),
            later: Vec::new(),
            free: 0,
            found: Found::new(count),
        }
    }

    /// Returns the types of all nodes, or the errors.
    pub(super) fn found(mut self, tree: &Tree) -> Result<Found, Vec<Complaint>> {
        if !self.complaints.is_empty() {
            return Err(self.complaints);
        }
        let kinds = std::mem::take(&mut self.found.kinds);
        let kinds = kinds.iter().map(|kind| closed(self.open.settled(kind)));
        let kinds = kinds.collect();
        let found = Found {
            kinds,
            ..self.found
        };
        placed::check(tree, &found, &mut self.later);
        if self.later.is_empty() {
            return Ok(found);
        }
        Err(self.later)
    }

    fn complain(&mut self, place: usize, why: String) -> Kind {
        self.complaints.push((place, why));
        Kind::Unknown
    }

    fn undeclared(&mut self, place: usize, name: &str) -> Kind {
        self.complain(
            place,
            format!("undeclared reference to '{name}' (in container '')"),
        )
    }

    fn known(&self, name: &str) -> Option<&Kind> {
        let name = plain(name);
        let found = self.names.iter().rev().find(|(known, _)| known == name);
        found.map(|(_, kind)| kind)
    }

    /// Checks a node and returns its type.
    pub(super) fn visit(&mut self, tree: &Tree) -> Kind {
        let kind = self.kind_of(tree);
        self.found.kinds[tree.id] = kind.clone();
        kind
    }

    fn kind_of(&mut self, tree: &Tree) -> Kind {
        match &tree.part {
            Part::Null => Kind::Null,
            Part::Bool(_) => Kind::Bool,
            Part::Int(_) => Kind::Int,
            Part::Uint(_) => Kind::Uint,
            Part::Double(_) => Kind::Double,
            Part::Bytes(_) => Kind::Bytes,
            Part::Text(_) => Kind::Text,
            Part::Name(name) => match self.known(name) {
                Some(kind) => kind.clone(),
                None if is_type(name) => Kind::Type,
                None => self.undeclared(tree.place, name),
            },
            Part::Perhaps(of) => self.perhaps(of),
            Part::Message(name, fields) => self.message(tree.place, name, fields),
            Part::Select { .. }
                if self.known("google").is_none() && tree.named_type().is_some() =>
            {
                Kind::Type
            }
            Part::Select {
                of,
                field,
                optional,
                test,
            } => {
                let of = self.visit(of);
                let kind = self.select(tree.place, &of, field, *optional);
                if *test { Kind::Bool } else { kind }
            }
            Part::List(items) => {
                let items: Vec<(usize, Kind)> = items
                    .iter()
                    .map(|item| (item.place, self.visit(item)))
                    .collect();
                Kind::list(self.alike(&items))
            }
            Part::Map(entries) => {
                let mut of = |trees: Vec<&Tree>| -> Kind {
                    let found: Vec<(usize, Kind)> = trees
                        .iter()
                        .map(|tree| (tree.place, self.visit(tree)))
                        .collect();
                    self.alike(&found)
                };
                let key = of(entries.iter().map(|(key, _)| key).collect());
                let value = of(entries.iter().map(|(_, value)| value).collect());
                Kind::Map(Box::new(key), Box::new(value))
            }
            Part::Call {
                name,
                target,
                given,
            } => self.call(tree, name, target.as_deref(), given),
            Part::Fold(fold) => self.fold(fold),
        }
    }

    fn call(&mut self, tree: &Tree, name: &str, target: Option<&Tree>, given: &[Tree]) -> Kind {
        if matches!(name, "_&&_" | "_||_") {
            return self.logical(given);
        }
        // `a.b()` may call the function named `a.b` rather than the method `b` of a variable `a`.
        let qualified = target.and_then(|target| match &target.part {
            Part::Name(space) if self.known(space).is_none() => {
                Some(format!("{}.{name}", plain(space)))
            }
            _ => None,
        });
        let qualified = qualified.filter(|name| library::overloads(name).is_some());
        let (name, target) = match &qualified {
            Some(name) => (name.as_str(), None),
            None => (name, target),
        };
        let Some(overloads) = library::overloads(name) else {
            self.undeclared(tree.place, name);
            for part in target.into_iter().chain(given) {
                self.visit(part);
            }
            return Kind::Unknown;
        };
        let free = usize::from(name == "format");
        self.free += free;
        let operands = target.into_iter().chain(given);
        let operands: Vec<Kind> = operands.map(|part| self.visit(part)).collect();
        self.free -= free;
        let chosen = self.choose(tree.place, name, target.is_some(), &overloads, &operands);
        let (kind, uses) = chosen;
        self.found.uses[tree.id] = uses;
        self.literals(name, given.last());
        kind
    }

    /// Checks string literals that must be a valid pattern, duration or timestamp.
    fn literals(&mut self, name: &str, last: Option<&Tree>) {
        let Some(Tree {
            place,
            part: Part::Text(text),
            ..
        }) = last
        else {
            return;
        };
        let wrong = match name {
            "matches" => pattern::complaint(text).is_some(),
            "duration" => duration::nanos(text).is_err(),
            "timestamp" => Moment::parse(text).is_none(),
            _ => false,
        };
        if wrong {
            self.later
                .push((*place, format!("invalid {name} argument")));
        }
    }

    fn logical(&mut self, given: &[Tree]) -> Kind {
        for part in given {
            let kind = self.visit(part);
            if !self.open.fits(&Kind::Bool, &kind) {
                let why = format!("expected type 'bool' but found '{kind}'");
                self.complain(part.place, why);
            }
        }
        Kind::Bool
    }

    fn fold(&mut self, fold: &Fold) -> Kind {
        let of = self.visit(&fold.range);
        let start = self.visit(&fold.start);
        let of = self.open.settled(&of);
        let double = fold.names.1.is_some();
        let (first, second) = match &of {
            Kind::List(of) if double => (Kind::Int, (**of).clone()),
            Kind::List(of) => ((**of).clone(), Kind::Unknown),
            Kind::Map(key, of) => ((**key).clone(), (**of).clone()),
            loose if loose.is_loose() || matches!(loose, Kind::Open(_)) => (Kind::Dyn, Kind::Dyn),
            other => {
                let why = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.complain(fold.range.place, why);
                (Kind::Unknown, Kind::Unknown)
            }
        };
        let outside = self.names.len();
        self.names.push((fold.value.clone(), start.clone()));
        let inside = self.names.len();
        self.names.push((fold.names.0.clone(), first));
        if let Some(name) = &fold.names.1 {
            self.names.push((name.clone(), second));
        }
        for (part, wanted) in [(&fold.while_true, &Kind::Bool), (&fold.step, &start)] {
            let kind = self.visit(part);
            if !self.open.fits(wanted, &kind) {
                let (wanted, kind) = (self.open.settled(wanted), self.open.settled(&kind));
                let why = format!("expected type '{wanted}' but found '{kind}'");
                self.complain(part.place, why);
            }
        }
        self.names.truncate(inside);
        let end = self.visit(&fold.end);
        self.names.truncate(outside);
        self.open.settled(&end)
    }

    /// Returns the overloads that take these operands, and the type of the result.
    fn choose(
        &mut self,
        place: usize,
        name: &str,
        method: bool,
        overloads: &[Overload],
        operands: &[Kind],
    ) -> (Kind, Vec<Overload>) {
        let mut made: Option<Kind> = None;
        let mut uses = Vec::new();
        for overload in overloads {
            if overload.method != method || overload.takes.len() != operands.len() {
                continue;
            }
            let state = self.open.clone();
            let base = self.open.more(2);
            let fits = overload
                .takes
                .iter()
                .zip(operands)
                .all(|(wanted, found)| self.open.fits(&shifted(wanted, base), found));
            if !fits {
                self.open = state;
                continue;
            }
            uses.push(overload.clone());
            let kind = self.open.settled(&shifted(&overload.makes, base));
            made = Some(match made {
                None => kind,
                Some(other) if other == kind => kind,
                Some(_) => Kind::Dyn,
            });
        }
        if let Some(kind) = made {
            return (kind, uses);
        }
        let shown: Vec<String> = operands
            .iter()
            .map(|kind| self.open.settled(kind).to_string())
            .collect();
        let shown = match (method, shown.split_first()) {
            (true, Some((target, rest))) => format!("{target}.({})", rest.join(", ")),
            _ => format!("({})", shown.join(", ")),
        };
        let why = format!("found no matching overload for '{name}' applied to '{shown}'");
        (self.complain(place, why), uses)
    }
}

fn is_type(name: &str) -> bool {
    let name = plain(name);
    name == "type" || TYPES.contains(&name)
}
