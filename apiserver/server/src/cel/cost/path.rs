//! The path of a node within the schema.
//!
//! A path shares its steps with the path it was made from, and extending one path may overwrite the end of another one.
//! The real server has this bug as well: sizes of values in nested macros can be those of other fields.
//! This module reproduces it exactly. Independent of expressions.

use std::cell::RefCell;
use std::rc::Rc;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Item,
    Index,
    Key,
    Value,
    Field(String),
}

/// The steps from a variable on; the first step names the variable.
#[derive(Clone, Debug, Default)]
pub(super) struct Path {
    steps: Rc<RefCell<Vec<Step>>>,
    length: usize,
    /// The capacity of the shared steps, which grows like that of a Go slice.
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

    /// Returns the path with one more step; shares the steps if their capacity suffices.
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

    /// Returns an independent copy with one more step.
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
