//! The cost of list and map literals.
//!
//! All items count as long as the longest one. Independent of calls.

use super::{Estimate, LIST, MAP};
use crate::cel::cost::size::{Parts, Size};
use crate::cel::tree::Tree;

// === impl Estimate ===

impl<'a> Estimate<'a> {
    pub(super) fn list(&mut self, tree: &Tree, items: &'a [Tree]) -> u64 {
        let (mut cost, mut value) = (LIST, Size::NONE);
        if items.is_empty() {
            value.min = 0;
        }
        for item in items {
            cost = cost.saturating_add(self.cost(item));
            value = value.or(self.size_or_unknown(item));
        }
        let parts = Parts {
            of_list: true,
            key: Size::exactly(1),
            value,
        };
        self.parts.insert(tree.id, parts);
        cost
    }

    pub(super) fn map(&mut self, tree: &Tree, entries: &'a [(Tree, Tree)]) -> u64 {
        let (mut cost, mut key, mut value) = (MAP, Size::NONE, Size::NONE);
        if entries.is_empty() {
            (key.min, value.min) = (0, 0);
        }
        for (name, of) in entries {
            cost = cost.saturating_add(self.cost(name));
            cost = cost.saturating_add(self.cost(of));
            key = key.or(self.size_or_unknown(name));
            value = value.or(self.size_or_unknown(of));
        }
        let parts = Parts {
            of_list: false,
            key,
            value,
        };
        self.parts.insert(tree.id, parts);
        cost
    }
}
