//! Happenings of an object's children.
//!
//! This module contains no wording.

use crate::object::child::ChildName;
use crate::object::child::taken::TakenFields;

/// A happening of a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChildHappening {
    /// An apply has created the child.
    Created(ChildName),
    /// An apply has changed the child.
    Changed(ChildName),
    /// An apply was a no-op.
    Unchanged(ChildName),
    /// An apply has overwritten changes of other field managers.
    TakenBack {
        child: ChildName,
        taken: Vec<TakenFields>,
    },
    /// The child was released from its owner.
    Orphaned(ChildName),
    /// The operator has requested the deletion of the child.
    Deleted(ChildName),
    /// This many calls in a row have applied different content, although the owner was unchanged.
    Unstable {
        child: ChildName,
        times: u8,
        /// The field in which the last two differ.
        place: String,
    },
    /// Applies have overwritten changes of another field manager this many times within a short time.
    Contested {
        child: ChildName,
        times: u8,
        taken: TakenFields,
    },
    /// The object was not deleted because it is not a child.
    NotDeleted { child: ChildName, why: String },
}
