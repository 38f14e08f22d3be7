//! The highest costs of calls to functions of the language, of lists and of sets.
//!
//! A function that is not listed here costs one. Independent of expression trees.

use super::size::{LETTER, PATTERN, Parts, Size, cost};
use super::{Estimate, LIST, Operand};
use crate::cel::kind::Kind;
use crate::cel::library::Overload;
use crate::cel::tree::{Part, Tree};

/// The cost of a call and the size of its result.
pub(super) struct Call {
    pub(super) cost: u64,
    pub(super) size: Option<Size>,
}

// === impl Call ===

impl Call {
    pub(super) fn costs(cost: u64) -> Self {
        Self { cost, size: None }
    }

    pub(super) fn makes(cost: u64, size: Size) -> Self {
        let size = Some(size);
        Self { cost, size }
    }

    fn with(self, given: &[Operand<'_>]) -> Self {
        let sum = |sum: u64, part: &Operand<'_>| sum.saturating_add(part.cost);
        let cost = given.iter().fold(self.cost, sum);
        Self { cost, ..self }
    }

    /// Creates a list of the given size at a cost of `each` per item.
    fn list(each: f64, size: Size) -> Self {
        Self::makes(size.cost(each).saturating_add(1 + LIST), size)
    }
}

// === impl Operand ===

impl Operand<'_> {
    fn size(&self) -> Size {
        self.size.unwrap_or(Size::UNKNOWN)
    }

    pub(super) fn int(&self) -> Option<i64> {
        match self.tree.part {
            Part::Int(value) => Some(value),
            _ => None,
        }
    }

    /// Returns the integer literal, zero if it is negative, or `otherwise` if the operand is not a literal.
    fn count(&self, otherwise: u64) -> u64 {
        let number = self.int().map(|value| u64::try_from(value).unwrap_or(0));
        number.unwrap_or(otherwise)
    }
}

// === impl Estimate ===

impl<'a> Estimate<'a> {
    /// Returns the cost of a call that resolves to this overload.
    pub(super) fn used(
        &mut self,
        tree: &Tree,
        name: &str,
        overload: &Overload,
        target: Option<&Operand<'a>>,
        given: &[Operand<'a>],
    ) -> Call {
        if name == "_?_:_" {
            return self.choice(tree, given);
        }
        let method = target.filter(|_| overload.method);
        let found = of_lists(name, overload, method, given);
        let found = found.or_else(|| self.of_items(name, method, given));
        let found = found.or_else(|| self.of_texts(name, method, given));
        let found = found.or_else(|| self.of_kubernetes(name, overload, method, given));
        let found = found.or_else(|| self.of_language(tree, name, overload, method, given));
        found.unwrap_or_else(|| Call::costs(1)).with(given)
    }

    fn choice(&mut self, tree: &Tree, given: &[Operand<'a>]) -> Call {
        let [condition, one, other] = given else {
            return Call::costs(1);
        };
        let parts = self.parts_of(one.tree).zip(self.parts_of(other.tree));
        if let Some((one, other)) = parts {
            self.parts.insert(tree.id, one.or(other));
        }
        let cost = condition.cost.saturating_add(one.cost.max(other.cost));
        Call::makes(cost, one.size().or(other.size()))
    }

    /// Returns the cost of a function of the language itself.
    fn of_language(
        &mut self,
        tree: &Tree,
        name: &str,
        overload: &Overload,
        target: Option<&Operand<'a>>,
        given: &[Operand<'a>],
    ) -> Option<Call> {
        let takes = overload.takes.as_slice();
        Some(match (name, target, given) {
            ("format", Some(target), _) => Call::costs(target.size().cost(LETTER)),
            ("bytes", None, [of]) if takes == [Kind::Text] => {
                let Size { min, max } = of.size();
                // The real server lets this overflow as well.
                let max = max.wrapping_mul(4);
                Call::makes(of.size().cost(LETTER), Size { min, max })
            }
            ("string", None, [of]) if takes == [Kind::Bytes] => {
                let Size { min, max } = of.size();
                Call::makes(of.size().cost(LETTER), Size { min: min / 4, max })
            }
            ("strings.quote", None, [of]) => {
                let Size { min, max } = of.size();
                let (min, max) = (min.wrapping_add(2), max.wrapping_mul(2).wrapping_add(2));
                Call::makes(of.size().cost(LETTER), Size { min, max })
            }
            ("startsWith" | "endsWith", _, [of]) => Call::costs(of.size().cost(LETTER)),
            ("@in", None, [_, Operand { size, .. }]) if matches!(takes[1], Kind::List(_)) => {
                Call::costs(size.unwrap_or(Size::UNKNOWN).cost(1.0))
            }
            ("matches", Some(text), [pattern]) => Call::costs(searched(text, pattern)),
            ("contains", Some(text), [part]) => {
                let steps = text.size().cost(LETTER);
                Call::costs(steps.saturating_mul(part.size().cost(LETTER)))
            }
            ("_+_", None, [one, other]) => return self.joined(tree, takes, one, other),
            ("_<_" | "_<=_" | "_>_" | "_>=_", None, [one, other])
                if matches!(takes, [Kind::Text | Kind::Bytes, _]) =>
            {
                Call::costs(compared(one, other))
            }
            ("_==_" | "_!=_", None, [one, other]) => Call::costs(compared(one, other)),
            _ => return None,
        })
    }

    fn joined(
        &mut self,
        tree: &Tree,
        takes: &[Kind],
        one: &Operand<'a>,
        other: &Operand<'a>,
    ) -> Option<Call> {
        let list = match takes.first()? {
            Kind::List(_) => true,
            Kind::Text | Kind::Bytes => false,
            _ => return None,
        };
        let size = one.size().plus(other.size());
        let parts = self.parts_of(one.tree).zip(self.parts_of(other.tree));
        if let Some((one, other)) = parts {
            let parts: Parts = one.or(other);
            self.parts.insert(tree.id, parts);
        }
        let cost = if list { 1 } else { size.cost(LETTER) };
        Some(Call::makes(cost, size))
    }
}

/// Returns the cost of a function of lists or sets.
fn of_lists(
    name: &str,
    overload: &Overload,
    target: Option<&Operand<'_>>,
    given: &[Operand<'_>],
) -> Option<Call> {
    let whole = target.map(Operand::size);
    let square = |size: Size| size.times(size);
    let sorting = |keys: &Kind| match keys {
        Kind::List(of) if matches!(**of, Kind::Text | Kind::Bytes) => 2.0 + LETTER,
        _ => 2.0,
    };
    Some(match (name, given) {
        ("sets.contains" | "sets.intersects" | "sets.equivalent", [one, other]) => {
            let each = if name == "sets.equivalent" { 2.0 } else { 1.0 };
            let pairs = one.size().times(other.size());
            Call::costs(pairs.cost(each).saturating_add(1))
        }
        ("slice", [from, to]) => {
            let count = to.count(whole?.max).wrapping_sub(from.count(0));
            Call::list(1.0, Size::exactly(count))
        }
        ("lists.range", [count]) => Call::list(1.0, Size::exactly(count.count(u64::MAX))),
        ("reverse" | "flatten", []) => Call::list(1.0, whole?),
        ("flatten", [depth]) => Call::list(float(depth.count(u64::MAX)), whole?),
        ("distinct", []) => Call::list(2.0, square(whole?)),
        ("sort", []) => Call::list(sorting(overload.takes.first()?), square(whole?)),
        ("@sortByAssociatedKeys", [keys]) => {
            Call::list(sorting(overload.takes.get(1)?), square(keys.size()))
        }
        _ => return None,
    })
}

#[expect(clippy::cast_precision_loss, reason = "the real server does the same")]
pub(super) fn float(number: u64) -> f64 {
    number as f64
}

/// Returns the cost of matching a string against a pattern.
fn searched(text: &Operand<'_>, pattern: &Operand<'_>) -> u64 {
    search(text.size(), pattern.size())
}

pub(super) fn search(text: Size, pattern: Size) -> u64 {
    let steps = text.plus(Size::exactly(1)).cost(LETTER);
    steps.saturating_mul(pattern.cost(PATTERN))
}

/// Returns the cost of comparing two values up to the length of the shorter one.
fn compared(one: &Operand<'_>, other: &Operand<'_>) -> u64 {
    cost(one.size().max.min(other.size().max), LETTER)
}
