//! What the parts of an expression are, and whether they fit together.
//!
//! Promise: nothing is complained about twice: what is wrong is anything from there on. Must not know texts.

use super::kind::{Kind, TYPES};
use super::library::{self, Overload};
use super::parse::{Part, Tree};
use super::{Complaint, Names};
use crate::schema::pattern;

/// Looks through an expression.
pub(super) struct Checker {
    names: Vec<(String, Kind)>,
    /// What the open kinds have turned out to be.
    open: Vec<Option<Kind>>,
    complaints: Vec<Complaint>,
}

// === impl Checker ===

impl Checker {
    pub(super) fn new(names: &Names<'_>) -> Self {
        let names = names
            .iter()
            .map(|(name, kind)| ((*name).to_owned(), kind.clone()));
        Self {
            names: names.collect(),
            open: Vec::new(),
            complaints: Vec::new(),
        }
    }

    pub(super) fn complaints(self) -> Vec<Complaint> {
        self.complaints
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
        let found = self.names.iter().rev().find(|(known, _)| known == name);
        found.map(|(_, kind)| kind)
    }

    /// What a part is.
    pub(super) fn visit(&mut self, tree: &Tree) -> Kind {
        match &tree.part {
            Part::Null => Kind::Null,
            Part::Bool => Kind::Bool,
            Part::Int => Kind::Int,
            Part::Uint => Kind::Uint,
            Part::Double => Kind::Double,
            Part::Bytes => Kind::Bytes,
            Part::Text(_) => Kind::Text,
            Part::Name(name) => match self.known(name) {
                Some(kind) => kind.clone(),
                None if name == "type" || TYPES.contains(&name.as_str()) => Kind::Type,
                None => self.undeclared(tree.place, name),
            },
            Part::Select {
                of,
                field,
                optional,
            } => {
                let of = self.visit(of);
                self.select(tree.place, &of, field, *optional)
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
        }
    }

    /// What parts are that must be alike.
    fn alike(&mut self, parts: &[(usize, Kind)]) -> Kind {
        let Some((_, first)) = parts.first() else {
            self.open.push(None);
            return Kind::Open(self.open.len() - 1);
        };
        for (place, kind) in &parts[1..] {
            if !self.fits(first, kind) {
                let why = format!("expected type '{first}' but found '{kind}'");
                self.complain(*place, why);
            }
        }
        first.clone()
    }

    fn select(&mut self, place: usize, of: &Kind, field: &str, optional: bool) -> Kind {
        let of = self.settled(of);
        let (inner, wrapped) = match &of {
            Kind::Optional(inner) => (self.settled(inner), true),
            _ => (of.clone(), optional),
        };
        let found = match &inner {
            Kind::Object(object) => match object.fields.get(field) {
                Some(kind) => kind.clone(),
                None => return self.complain(place, format!("undefined field '{field}'")),
            },
            Kind::Map(_, of) => (**of).clone(),
            loose if loose.is_loose() => loose.clone(),
            Kind::Open(_) => Kind::Dyn,
            other => {
                let why = format!("type '{other}' does not support field selection");
                return self.complain(place, why);
            }
        };
        if wrapped {
            return Kind::Optional(Box::new(found));
        }
        found
    }

    fn call(&mut self, tree: &Tree, name: &str, target: Option<&Tree>, given: &[Tree]) -> Kind {
        match (name, target, given) {
            ("has", None, [field]) => return self.has(tree.place, field),
            ("_&&_" | "_||_", None, given) => return self.logical(given),
            ("all" | "exists" | "exists_one" | "filter", Some(range), [name, body]) => {
                return self.each(tree, name, range, &[body]);
            }
            ("map", Some(range), [name, rest @ ..]) if matches!(rest.len(), 1 | 2) => {
                let rest: Vec<&Tree> = rest.iter().collect();
                return self.each(tree, name, range, &rest);
            }
            _ => {}
        }
        // A name with a dot may be one of a function, rather than a field of something.
        let qualified = target.and_then(|target| match &target.part {
            Part::Name(space) if self.known(space).is_none() => Some(format!("{space}.{name}")),
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
        if overloads.is_empty() {
            return Kind::Unknown;
        }
        let operands: Vec<Kind> = target
            .into_iter()
            .chain(given)
            .map(|part| self.visit(part))
            .collect();
        let kind = self.choose(tree.place, name, target.is_some(), &overloads, &operands);
        self.literals(name, given.last());
        kind
    }

    /// Texts that say what cannot be meant.
    fn literals(&mut self, name: &str, last: Option<&Tree>) {
        let Some(Tree {
            place,
            part: Part::Text(text),
        }) = last
        else {
            return;
        };
        let wrong = match name {
            "matches" => pattern::complaint(text).is_some(),
            "duration" => crate::schema::format::duration(text).is_none(),
            "timestamp" => text.parse::<jiff::Timestamp>().is_err(),
            _ => false,
        };
        if wrong {
            self.complain(*place, format!("invalid {name} argument"));
        }
    }

    fn has(&mut self, place: usize, field: &Tree) -> Kind {
        if let Part::Select { of, field, .. } = &field.part {
            let of = self.visit(of);
            self.select(place, &of, field, false);
        }
        Kind::Bool
    }

    fn logical(&mut self, given: &[Tree]) -> Kind {
        for part in given {
            let kind = self.visit(part);
            if !self.fits(&Kind::Bool, &kind) {
                let why = format!("expected type 'bool' but found '{kind}'");
                self.complain(part.place, why);
            }
        }
        Kind::Bool
    }

    /// A macro that looks at each part of a range.
    fn each(&mut self, tree: &Tree, name: &Tree, range: &Tree, bodies: &[&Tree]) -> Kind {
        let Part::Name(variable) = &name.part else {
            return Kind::Unknown;
        };
        let of = self.visit(range);
        let of = self.settled(&of);
        let item = match &of {
            Kind::List(of) => (**of).clone(),
            Kind::Map(key, _) => (**key).clone(),
            loose if loose.is_loose() => Kind::Dyn,
            other => {
                let why = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.complain(range.place, why);
                Kind::Unknown
            }
        };
        self.names.push((variable.clone(), item.clone()));
        let found: Vec<Kind> = bodies.iter().map(|body| self.visit(body)).collect();
        self.names.pop();
        let Part::Call { name: word, .. } = &tree.part else {
            return Kind::Unknown;
        };
        let condition = (word != "map" || bodies.len() == 2).then(|| (bodies[0].place, &found[0]));
        if let Some((place, kind)) = condition
            && !self.fits(&Kind::Bool, kind)
        {
            self.not_a_condition(word, tree.place, place, kind, &item);
        }
        match word.as_str() {
            "filter" => Kind::list(item),
            "map" => Kind::list(found.last().cloned().unwrap_or(Kind::Dyn)),
            _ => Kind::Bool,
        }
    }

    /// What macros expand to decides the words.
    fn not_a_condition(&mut self, word: &str, at: usize, place: usize, kind: &Kind, item: &Kind) {
        if matches!(word, "all" | "exists") {
            let why = format!("expected type 'bool' but found '{kind}'");
            self.complain(place, why);
            return;
        }
        let kept = match word {
            "exists_one" => Kind::Int,
            _ => Kind::list(item.clone()),
        };
        let why =
            format!("found no matching overload for '_?_:_' applied to '({kind}, {kept}, {kept})'");
        self.complain(at, why);
    }

    /// The overload that takes these operands, and what it makes of them.
    fn choose(
        &mut self,
        place: usize,
        name: &str,
        method: bool,
        overloads: &[Overload],
        operands: &[Kind],
    ) -> Kind {
        let mut made: Option<Kind> = None;
        let before = self.open.clone();
        for overload in overloads {
            if overload.method != method || overload.takes.len() != operands.len() {
                continue;
            }
            let state = self.open.clone();
            let base = self.open.len();
            self.open.extend([None, None]);
            let fits = overload
                .takes
                .iter()
                .zip(operands)
                .all(|(wanted, found)| self.fits(&shifted(wanted, base), found));
            if !fits {
                self.open = state;
                continue;
            }
            let kind = self.settled(&shifted(&overload.makes, base));
            made = Some(match made {
                None => kind,
                Some(other) if other == kind => kind,
                Some(_) => {
                    self.open.truncate(before.len());
                    Kind::Dyn
                }
            });
        }
        if let Some(kind) = made {
            return kind;
        }
        let shown: Vec<String> = operands
            .iter()
            .map(|kind| self.settled(kind).to_string())
            .collect();
        let shown = match (method, shown.split_first()) {
            (true, Some((target, rest))) => format!("{target}.({})", rest.join(", ")),
            _ => format!("({})", shown.join(", ")),
        };
        self.complain(
            place,
            format!("found no matching overload for '{name}' applied to '{shown}'"),
        )
    }

    /// A kind with what its open parts have turned out to be.
    fn settled(&self, kind: &Kind) -> Kind {
        match kind {
            Kind::Open(at) => match self.open.get(*at).and_then(Option::as_ref) {
                Some(found) => self.settled(found),
                None => kind.clone(),
            },
            Kind::List(of) => Kind::list(self.settled(of)),
            Kind::Optional(of) => Kind::Optional(Box::new(self.settled(of))),
            Kind::Map(key, of) => {
                Kind::Map(Box::new(self.settled(key)), Box::new(self.settled(of)))
            }
            other => other.clone(),
        }
    }

    /// Whether a value of one kind may stand where another is wanted.
    fn fits(&mut self, wanted: &Kind, found: &Kind) -> bool {
        let (wanted, found) = (self.settled(wanted), self.settled(found));
        match (&wanted, &found) {
            (Kind::Open(one), Kind::Open(two)) if one == two => true,
            (Kind::Open(at), other) | (other, Kind::Open(at)) => {
                // What is a part of itself stays open.
                let slot = self.open.get_mut(*at).filter(|_| !holds(other, *at));
                if let Some(slot) = slot {
                    *slot = Some(other.clone());
                }
                true
            }
            (wanted, found) if wanted.is_loose() || found.is_loose() => true,
            (Kind::List(wanted), Kind::List(found))
            | (Kind::Optional(wanted), Kind::Optional(found)) => self.fits(wanted, found),
            (Kind::Map(key, of), Kind::Map(other_key, other)) => {
                self.fits(key, other_key) && self.fits(of, other)
            }
            (
                Kind::Object(_)
                | Kind::Named(_)
                | Kind::Timestamp
                | Kind::Duration
                | Kind::Optional(_),
                Kind::Null,
            )
            | (
                Kind::Null,
                Kind::Object(_)
                | Kind::Named(_)
                | Kind::Timestamp
                | Kind::Duration
                | Kind::Optional(_),
            ) => true,
            (wanted, found) => wanted == found,
        }
    }
}

/// Whether an open kind is a part of a kind.
fn holds(kind: &Kind, open: usize) -> bool {
    match kind {
        Kind::Open(at) => *at == open,
        Kind::List(of) | Kind::Optional(of) => holds(of, open),
        Kind::Map(key, of) => holds(key, open) || holds(of, open),
        _ => false,
    }
}

/// The open kinds of an overload as those of this use of it.
fn shifted(kind: &Kind, base: usize) -> Kind {
    match kind {
        Kind::Open(at) => Kind::Open(at + base),
        Kind::List(of) => Kind::list(shifted(of, base)),
        Kind::Optional(of) => Kind::Optional(Box::new(shifted(of, base))),
        Kind::Map(key, of) => Kind::Map(Box::new(shifted(key, base)), Box::new(shifted(of, base))),
        other => other.clone(),
    }
}
