//! A kind of objects that handlers read from memory by a [`Lister`](crate::Lister): an index of whole objects.
//!
//! This module does not know the types of the objects.

use std::sync::Arc;

use crate::handler::callee::{Callee, Returned};
use crate::handler::cause::Cause;
use crate::handler::index::erased::IndexType;
use crate::object::selector::Selector;

/// The index that stores all objects of a kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListedKind {
    pub(crate) id: fn() -> String,
    pub(crate) selector: fn() -> Selector,
    pub(crate) index: IndexType,
    /// The index function.
    pub(crate) store: fn(&Cause) -> Returned,
}

impl ListedKind {
    /// Returns the index function in the form in which it is called.
    pub(crate) fn callee(self) -> Callee {
        Callee::BlockingClosure(Arc::new(move |cause, _| (self.store)(cause)))
    }
}

impl PartialEq for ListedKind {
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index
    }
}

impl Eq for ListedKind {}
