//! What follows from removals, in steps: each may ask for further ones, which wait for their turn.
//!
//! Promise: a step never runs within another one, so that no chain of owners is too long for the stack; what is late runs once all other
//! steps are done, however often it was asked for. Must not know objects.

use std::collections::{HashSet, VecDeque};

use crate::verb::Deletion;

/// What follows from a removal.
#[derive(Debug)]
pub(crate) enum Step {
    /// The dependants of the object of this uid are to go.
    Dependents(String, Deletion),
    /// What is in this namespace is to go.
    Namespace(String),
}

/// What is looked at once the rest is done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Late {
    /// Whether the object of this uid, which waits for its dependants, can go.
    Owner(String),
    /// Whether this namespace can go.
    Namespace(String),
}

/// The steps that are still to be taken.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    running: bool,
    next: VecDeque<Step>,
    late: VecDeque<Late>,
    known: HashSet<Late>,
}

// === impl Steps ===

impl Steps {
    /// Begin to take steps; `false` within one: then they are taken after it.
    pub(super) fn begin(&mut self) -> bool {
        !std::mem::replace(&mut self.running, true)
    }

    pub(super) fn end(&mut self) {
        self.running = false;
    }

    /// Whether this is within a step.
    pub(crate) fn is_running(&self) -> bool {
        self.running
    }

    pub(super) fn add(&mut self, step: Step) {
        self.next.push_back(step);
    }

    pub(super) fn add_late(&mut self, late: Late) {
        if self.known.insert(late.clone()) {
            self.late.push_back(late);
        }
    }

    pub(super) fn next(&mut self) -> Option<Step> {
        self.next.pop_front()
    }

    pub(super) fn next_late(&mut self) -> Option<Late> {
        let late = self.late.pop_front()?;
        self.known.remove(&late);
        Some(late)
    }
}
