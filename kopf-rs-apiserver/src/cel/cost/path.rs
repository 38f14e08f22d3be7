//! Where in the schema a part of an expression is.
//!
//! A path shares its steps with those it was made from, and making one path longer may write over the end of another one, as
//! it does in the real server: lengths of values within nested macros can be those of other fields.
//! Promise: it goes wrong where the real server's goes wrong. Must not know expressions.

use std::cell::RefCell;
use std::rc::Rc;

/// A part of what is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Item,
    Index,
    Key,
    Value,
    Field(String),
}

/// Steps from a variable on; the first names it.
#[derive(Clone, Debug, Default)]
pub(super) struct Path {
    steps: Rc<RefCell<Vec<Step>>>,
    length: usize,
    /// How long it may get where it lies.
    room: usize,
}

// === impl Path ===

impl Path {
    pub(super) fn of(name: &str) -> Self {
        Self {
            steps: Rc::new(RefCell::new(vec![Step::Field(name.to_owned())])),
            length: 1,
            room: 1,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// One step longer.
    pub(super) fn join(&self, step: Step) -> Self {
        let longer = if self.length < self.room {
            self.clone()
        } else {
            Self {
                steps: Rc::new(RefCell::new(self.steps())),
                length: self.length,
                room: (2 * self.room).max(1),
            }
        };
        let mut steps = longer.steps.borrow_mut();
        match steps.get_mut(self.length) {
            Some(slot) => *slot = step,
            None => steps.push(step),
        }
        drop(steps);
        Self {
            length: self.length + 1,
            ..longer
        }
    }

    /// A copy with one step more.
    pub(super) fn extended(&self, step: Step) -> Self {
        let mut steps = self.steps();
        steps.push(step);
        Self {
            length: steps.len(),
            room: steps.len(),
            steps: Rc::new(RefCell::new(steps)),
        }
    }

    pub(super) fn steps(&self) -> Vec<Step> {
        self.steps.borrow()[..self.length].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_paths_share_what_has_room() {
        let field = |name: &str| Step::Field(name.to_owned());
        let list = Path::of("self").join(field("list"));
        let item = list.join(Step::Item);
        let (one, two) = (item.join(field("one")), item.join(field("two")));
        assert_eq!(list.steps(), [field("self"), field("list")]);
        assert_eq!(one.steps(), two.steps());
        let copy = item.extended(field("three"));
        assert_ne!(two.steps(), copy.steps());
    }
}
