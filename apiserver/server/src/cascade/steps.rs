//! A queue of the consequences of removals; each step may add further ones.
//!
//! Guarantees that a step never runs inside another one, so that long chains of owners cannot overflow the stack. Late steps run after
//! all others, and only once even if they were added several times. Must not depend on objects.

use std::collections::{HashSet, VecDeque};

use crate::verb::Deletion;

/// A consequence of a removal.
#[derive(Debug)]
pub(crate) enum Step {
    /// Delete the dependents of the object with this uid.
    Dependents(String, Deletion),
    /// Delete the content of this namespace.
    Namespace(String),
}

/// A check that runs after all other steps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Late {
    /// Check whether the object with this uid, which waits for its dependents, can be removed.
    Owner(String),
    /// Check whether this namespace can be removed.
    Namespace(String),
}

/// The pending steps.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    running: bool,
    next: VecDeque<Step>,
    late: VecDeque<Late>,
    known: HashSet<Late>,
}

// === impl Steps ===

impl Steps {
    /// Marks the queue as running; returns `false` if it is running already, and the caller then leaves the steps to the outer run.
    pub(super) fn begin(&mut self) -> bool {
        !std::mem::replace(&mut self.running, true)
    }

    pub(super) fn end(&mut self) {
        self.running = false;
    }

    /// Returns whether a step is running.
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
