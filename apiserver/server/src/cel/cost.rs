//! Estimates the highest cost of an expression before it is evaluated.
//!
//! The estimate equals that of the real server, including its quirks, because it decides which rules a definition may contain.
//! Independent of rules and definitions.

mod call;
mod kubernetes;
mod made;
mod path;
mod size;

use std::collections::HashMap;

use super::check::Found;
use super::declared::Declared;
use super::kind::Kind;
use super::tree::{Fold, Part, Tree, plain};
use path::{Path, Step};
use size::{Parts, Size};

/// The cost of creating a list, a map or a message.
const LIST: u64 = 10;
const MAP: u64 = 30;
const MESSAGE: u64 = 40;

/// Estimates the costs of an expression, innermost nodes first.
pub(super) struct Estimate<'a> {
    found: &'a Found,
    root: &'a Declared,
    /// By node id: the path in the schema, the size, and the sizes of items or entries.
    paths: HashMap<usize, Path>,
    sizes: HashMap<usize, Size>,
    parts: HashMap<usize, Parts>,
    locals: Vec<Local>,
}

/// A variable that a macro introduces.
struct Local {
    name: String,
    path: Path,
    size: Option<Size>,
    parts: Option<Parts>,
}

/// An operand of a call.
struct Operand<'a> {
    tree: &'a Tree,
    kind: &'a Kind,
    path: Path,
    size: Option<Size>,
    cost: u64,
}

// === impl Estimate ===

impl<'a> Estimate<'a> {
    pub(super) fn new(found: &'a Found, root: &'a Declared) -> Self {
        Self {
            found,
            root,
            paths: HashMap::new(),
            sizes: HashMap::new(),
            parts: HashMap::new(),
            locals: Vec::new(),
        }
    }

    /// Returns the highest cost of a node.
    pub(super) fn cost(&mut self, tree: &'a Tree) -> u64 {
        match &tree.part {
            Part::Null
            | Part::Bool(_)
            | Part::Int(_)
            | Part::Uint(_)
            | Part::Double(_)
            | Part::Bytes(_)
            | Part::Text(_) => 0,
            Part::Name(name) => {
                let path = self.local(name).map(|local| local.path.clone());
                let path = path.unwrap_or_else(|| Path::of(plain(name)));
                self.paths.insert(tree.id, path);
                1
            }
            Part::Select {
                of,
                field,
                optional,
                test,
            } => {
                if let Some(name) = tree.named_type() {
                    self.paths.insert(tree.id, Path::of(name));
                    return 1;
                }
                let cost = self.cost(of);
                if *test {
                    return cost;
                }
                if *optional {
                    return cost.saturating_add(1);
                }
                let path = self.path(of).join(Step::Field(field.clone()));
                self.paths.insert(tree.id, path);
                let has_fields = matches!(
                    self.found.kind(of),
                    Kind::Map(..) | Kind::Object(_) | Kind::Named(_)
                );
                cost.saturating_add(has_fields.into())
            }
            Part::List(items) => self.list(tree, items),
            Part::Map(entries) => self.map(tree, entries),
            Part::Perhaps(of) => {
                let cost = self.cost(of);
                self.take_sizes(tree, of);
                cost
            }
            Part::Message(_, fields) => {
                let costs = fields.iter().map(|field| self.cost(&field.of));
                costs.fold(MESSAGE, u64::saturating_add)
            }
            Part::Call {
                name,
                target,
                given,
            } => self.call(tree, name, target.as_deref(), given),
            Part::Fold(fold) if fold.is_bind() => self.bind(tree, fold),
            Part::Fold(fold) => self.fold(tree, fold),
        }
    }

    fn operand(&mut self, tree: &'a Tree) -> Operand<'a> {
        let cost = self.cost(tree);
        Operand {
            tree,
            kind: self.found.kind(tree),
            path: self.path(tree),
            size: self.size(tree),
            cost,
        }
    }

    fn call(
        &mut self,
        tree: &'a Tree,
        name: &str,
        target: Option<&'a Tree>,
        given: &'a [Tree],
    ) -> u64 {
        if let ("dyn", [of]) = (name, given) {
            let cost = self.cost(of);
            self.take_sizes(tree, of);
            return cost.saturating_add(1);
        }
        let given: Vec<Operand<'a>> = given.iter().map(|part| self.operand(part)).collect();
        if matches!(name, "_&&_" | "_||_") {
            self.sizes.entry(tree.id).or_insert(Size::exactly(1));
            return given
                .iter()
                .fold(0, |sum, part| sum.saturating_add(part.cost));
        }
        let uses = self.found.uses(tree);
        let space = target.filter(|_| uses.iter().all(|overload| !overload.method));
        let name = &match space.map(|space| &space.part) {
            Some(Part::Name(space)) => format!("{}.{name}", plain(space)),
            _ => name.to_owned(),
        };
        let target = target.filter(|_| space.is_none());
        let target = target.map(|target| self.operand(target));
        let (mut most, mut size) = (0, None);
        for overload in uses {
            let estimate = self.used(tree, name, overload, target.as_ref(), &given);
            most = most.max(estimate.cost);
            if let Some(made) = estimate.size {
                size = Some(size.map_or(made, |size: Size| size.or(made)));
            }
            let step = match (name.as_str(), overload.takes.first()) {
                ("_[_]", Some(Kind::List(_))) => Some(Step::Item),
                ("_[_]", Some(Kind::Map(..))) => Some(Step::Value),
                _ => None,
            };
            if let (Some(step), Some(of)) = (step, given.first()) {
                size = self.parts_of(of.tree).map(|parts| parts.value);
                let path = self.path(of.tree).join(step);
                self.paths.insert(tree.id, path);
            }
            size = size.or_else(|| self.size(tree));
        }
        if let Some(size) = size {
            self.sizes.insert(tree.id, size);
        }
        most.saturating_add(target.map_or(0, |target| target.cost))
    }

    fn fold(&mut self, tree: &Tree, fold: &'a Fold) -> u64 {
        let mut cost = self
            .cost(&fold.range)
            .saturating_add(self.cost(&fold.start));
        let outside = self.locals.len();
        self.name_value(&fold.value, &fold.start);
        let inside = self.locals.len();
        self.name_parts(fold);
        let each = self.cost(&fold.while_true);
        let each = each.saturating_add(self.cost(&fold.step));
        self.locals.truncate(inside);
        cost = cost.saturating_add(self.cost(&fold.end));
        self.locals.truncate(outside);
        let count = self.size_or_unknown(&fold.range);
        cost = cost.saturating_add(count.max.saturating_mul(each));
        match &fold.start.part {
            Part::List(_) | Part::Map(_) => {
                self.sizes.insert(tree.id, count);
                if let Some(parts) = self.parts_of(&fold.step) {
                    self.parts.insert(tree.id, parts);
                }
            }
            Part::Bool(_) | Part::Int(_) => {
                self.sizes.insert(tree.id, Size::exactly(1));
            }
            _ => {}
        }
        cost
    }

    /// Estimates a `cel.bind`-like fold, which only names a value.
    fn bind(&mut self, tree: &Tree, fold: &'a Fold) -> u64 {
        let cost = self
            .cost(&fold.range)
            .saturating_add(self.cost(&fold.start));
        let outside = self.locals.len();
        self.name_value(&fold.value, &fold.start);
        let cost = cost.saturating_add(self.cost(&fold.end));
        self.locals.truncate(outside);
        self.take_sizes(tree, &fold.end);
        cost
    }

    fn name_value(&mut self, name: &str, value: &'a Tree) {
        let local = Local {
            name: name.to_owned(),
            path: self.path(value),
            parts: self.parts_of(value),
            size: self.size(value),
        };
        self.locals.push(local);
    }

    /// Introduces the loop variables of a fold.
    fn name_parts(&mut self, fold: &'a Fold) {
        let range = &fold.range;
        let parts = self.parts_of(range);
        let of_list = parts.map_or_else(
            || matches!(self.found.kind(range), Kind::List(_)),
            |parts| parts.of_list,
        );
        let (key, value) = (parts.map(|p| p.key), parts.map(|p| p.value));
        let (key_step, value_step) = if of_list {
            (Step::Index, Step::Item)
        } else {
            (Step::Key, Step::Value)
        };
        let mut named = |name: &str, step: Step, size: Option<Size>| {
            let local = Local {
                name: name.to_owned(),
                path: self.path(range).join(step),
                size,
                parts: None,
            };
            self.locals.push(local);
        };
        match &fold.names {
            (name, Some(second)) => {
                named(name, key_step, key);
                named(second, value_step, value);
            }
            (name, None) if of_list => named(name, value_step, value),
            (name, None) => named(name, key_step, key),
        }
    }

    fn local(&self, name: &str) -> Option<&Local> {
        let name = plain(name);
        self.locals.iter().rev().find(|local| local.name == name)
    }

    fn path(&self, tree: &Tree) -> Path {
        let local = match &tree.part {
            Part::Name(name) => self.local(name),
            _ => None,
        };
        let found = local.map(|local| &local.path).or(self.paths.get(&tree.id));
        found.cloned().unwrap_or_default()
    }

    /// Returns the size that the schema allows for the value at this path.
    fn declared(&self, path: &Path) -> Option<Size> {
        if path.is_empty() {
            return None;
        }
        let mut at = self.root;
        for step in &path.steps()[1..] {
            at = match step {
                Step::Item | Step::Value => at.part.as_deref()?,
                Step::Key if at.is_map => return Some(Size::exactly(0)),
                Step::Key | Step::Index => return None,
                Step::Field(name) => at.fields.get(name)?,
            };
        }
        Some(Size {
            min: 0,
            max: at.most,
        })
    }

    fn size(&mut self, tree: &Tree) -> Option<Size> {
        if let Some(known) = self.sizes.get(&tree.id) {
            return Some(*known);
        }
        let count = |count: usize| Some(Size::exactly(count.try_into().unwrap_or(u64::MAX)));
        match &tree.part {
            Part::Text(text) => return count(text.chars().count()),
            Part::Bytes(octets) => return count(octets.len()),
            Part::Null | Part::Bool(_) | Part::Int(_) | Part::Uint(_) | Part::Double(_) => {
                return count(1);
            }
            Part::List(items) => return count(items.len()),
            Part::Map(entries) => return count(entries.len()),
            _ => {}
        }
        if let Some(size) = self.declared(&self.path(tree)) {
            self.sizes.insert(tree.id, size);
            return Some(size);
        }
        if is_one(self.found.kind(tree)) {
            return count(1);
        }
        match &tree.part {
            Part::Name(name) => self.local(name).and_then(|local| local.size),
            _ => None,
        }
    }

    fn size_or_unknown(&mut self, tree: &Tree) -> Size {
        self.size(tree).unwrap_or(Size::UNKNOWN)
    }

    fn parts_of(&self, tree: &Tree) -> Option<Parts> {
        let local = match &tree.part {
            Part::Name(name) => self.local(name),
            _ => None,
        };
        let known = self.parts.get(&tree.id).copied();
        known.or_else(|| local.and_then(|local| local.parts))
    }

    fn take_sizes(&mut self, tree: &Tree, of: &Tree) {
        if let Some(size) = self.size(of) {
            self.sizes.insert(tree.id, size);
        }
        if let Some(parts) = self.parts_of(of) {
            self.parts.insert(tree.id, parts);
        }
    }
}

// === impl Fold ===

impl Fold {
    fn is_bind(&self) -> bool {
        matches!(&self.range.part, Part::List(items) if items.is_empty())
            && matches!(self.while_true.part, Part::Bool(false))
    }
}

/// Returns true if a value of this type always has size one.
fn is_one(kind: &Kind) -> bool {
    match kind {
        Kind::Bool | Kind::Double | Kind::Duration | Kind::Int | Kind::Timestamp | Kind::Uint => {
            true
        }
        Kind::Optional(of) => is_one(of),
        _ => false,
    }
}
