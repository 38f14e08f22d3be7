//! The highest costs of functions that Kubernetes adds, and of language functions that Kubernetes counts differently.
//!
//! A function that is not listed here is one of the language. Independent of expression trees.

use super::call::{Call, float, search};
use super::path::Step;
use super::size::{LETTER, PATTERN, Size, cost};
use super::{Estimate, Operand};
use crate::cel::kind::Kind;
use crate::cel::library::Overload;

/// The assumed length of the pattern that checks a format.
const FORMAT_PATTERN: f64 = 128.0;
/// The greatest length of a format name.
const FORMAT: u64 = 64;
/// The size of an IP address in bytes.
const ADDRESS: u64 = 16;

// === impl Estimate ===

impl<'a> Estimate<'a> {
    /// Returns the size of an operand, which may be known only from its path in the schema.
    fn length(&self, of: &Operand<'_>) -> Size {
        let known = of.size.or_else(|| self.declared(&of.path));
        known.unwrap_or(Size::UNKNOWN)
    }

    /// Returns the type and the size of the items of a list.
    fn item(&self, list: &Operand<'a>) -> Option<(&'a Kind, Size)> {
        let of = match list.kind {
            Kind::List(of) | Kind::Optional(of) | Kind::Map(of, _) => &**of,
            _ => return None,
        };
        let known = (!list.path.is_empty()).then(|| list.path.extended(Step::Item));
        let size = known.and_then(|path| self.declared(&path));
        Some((of, size.unwrap_or(Size::UNKNOWN)))
    }

    /// Returns the cost of a function of list items, or of one that searches in a string.
    pub(super) fn of_items(
        &self,
        name: &str,
        target: Option<&Operand<'a>>,
        given: &[Operand<'a>],
    ) -> Option<Call> {
        let list = target?;
        Some(match name {
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
                let size = self.length(list);
                match self.item(list) {
                    Some((kind, of)) => {
                        let long = matches!(kind, Kind::Text | Kind::Bytes);
                        let each = if long { of.cost(LETTER) } else { 0 }.saturating_add(1);
                        Call::costs(size.max.saturating_mul(each))
                    }
                    None => Call::costs(size.cost(LETTER)),
                }
            }
            "join" => {
                let count = self.length(list);
                let texts = self.item(list).map(|(_, size)| count.times(size));
                let mut size = texts.unwrap_or(Size::exactly(0));
                if let Some(between) = given.first().map(|of| self.length(of)) {
                    let Size { min, max } = count;
                    let (min, max) = (min.saturating_sub(1), max.saturating_sub(1));
                    size = size.plus(between.times(Size { min, max }));
                }
                Call::makes(size.cost(LETTER), size)
            }
            _ => return None,
        })
    }

    /// Returns the cost of a function of strings.
    pub(super) fn of_texts(
        &self,
        name: &str,
        target: Option<&Operand<'a>>,
        given: &[Operand<'a>],
    ) -> Option<Call> {
        let first = given.first().map(|of| self.length(of));
        Some(match (name, target) {
            ("url", None) => {
                let size = first?;
                Call::makes(size.cost(LETTER), size)
            }
            ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(text)) => {
                let size = self.length(text);
                Call::makes(size.cost(LETTER), size)
            }
            ("replace", Some(text)) => {
                let [old, new, ..] = given else { return None };
                let [text, old, new] = [text, old, new].map(|of| self.length(of));
                Call::makes(text.cost(2.0 * LETTER), replaced(text, old, new))
            }
            ("split", Some(text)) => {
                let size = self.length(text);
                let limit = given.get(1).and_then(Operand::int);
                let max = limit.map_or(size.max, i64::cast_unsigned);
                Call::makes(size.cost(2.0 * LETTER), Size { min: 0, max })
            }
            ("find" | "findAll", Some(text)) => {
                let Size { max, .. } = self.length(text);
                let cost = search(Size { min: 0, max }, first?);
                Call::makes(cost, Size { min: 0, max })
            }
            _ => return None,
        })
    }

    /// Returns the cost of a function of other Kubernetes types, such as quantities and addresses.
    pub(super) fn of_kubernetes(
        &self,
        name: &str,
        overload: &Overload,
        target: Option<&Operand<'a>>,
        given: &[Operand<'a>],
    ) -> Option<Call> {
        let first = given.first().map(|of| self.length(of));
        let of_text = |each: f64| first.map(|size| Call::costs(size.cost(each)));
        Some(match (name, target) {
            ("ip", Some(_)) => Call::costs(1),
            (
                "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver"
                | "isSemver",
                None,
            ) => of_text(LETTER)?,
            ("ip.isCanonical", None) => of_text(2.0 * LETTER)?,
            ("containsIP" | "containsCIDR", Some(_)) => {
                let mut cost = Size::exactly(2 * ADDRESS).cost(LETTER);
                if name == "containsCIDR" {
                    cost += Size::exactly(ADDRESS).cost(LETTER) + 1;
                }
                if overload.takes.get(1) == Some(&Kind::Text) {
                    cost = cost.saturating_add(first?.cost(LETTER));
                }
                Call::costs(cost)
            }
            ("validate", Some(_)) => {
                Call::costs(cost(first?.cost(LETTER), FORMAT_PATTERN * PATTERN))
            }
            ("_==_", None) => return special(given),
            _ => return None,
        })
    }
}

/// Returns the cost of comparing values of a Kubernetes type.
fn special(given: &[Operand<'_>]) -> Option<Call> {
    let [one, other] = given else { return None };
    let Kind::Named(name) = one.kind else {
        return None;
    };
    if one.kind != other.kind {
        return None;
    }
    Some(Call::costs(match *name {
        "kubernetes.NamedFormat" => cost(FORMAT, LETTER),
        "kubernetes.URL" => {
            let size = other.size.unwrap_or(Size::exactly(1));
            size.cost(LETTER)
        }
        _ => 1,
    }))
}

/// Returns the size of a string after replacing `old` with `new`.
fn replaced(text: Size, old: Size, new: Size) -> Size {
    let fill = |length: u64| (length.saturating_add(1), length);
    let (most, most_kept) = if old.min == 0 {
        // Replacing the empty string inserts the new one between all characters.
        fill(text.max)
    } else if new.max <= old.min {
        (0, text.max)
    } else {
        (parts(text.max, old.min), 0)
    };
    let (fewest, fewest_kept) = if old.max == 0 {
        fill(text.min)
    } else if old.max <= new.min {
        (0, text.min)
    } else {
        (parts(text.min, old.max), 0)
    };
    let count = Size {
        min: fewest,
        max: most,
    };
    count.times(new).plus(Size {
        min: fewest_kept,
        max: most_kept,
    })
}

/// Returns how many pieces of length `part` fit into `whole`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what is too large is the largest number"
)]
fn parts(whole: u64, part: u64) -> u64 {
    (float(whole) / float(part)).ceil() as u64
}
