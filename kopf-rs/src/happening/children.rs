//! Happenings about the children of an object.
//!
//! Must not know any wording.

use crate::object::child::ChildName;
use crate::object::child::taken::TakenFields;

/// Something that has happened to a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChildHappening {
    /// It was applied, and was not there before.
    Created(ChildName),
    /// It was applied, and has changed.
    Changed(ChildName),
    /// It was applied, and is as it was.
    Unchanged(ChildName),
    /// An apply has put right what other managers had changed.
    TakenBack {
        child: ChildName,
        taken: Vec<TakenFields>,
    },
    /// It is a child no more.
    Orphaned(ChildName),
    /// Its deletion was asked for.
    Deleted(ChildName),
    /// So many calls in a row have wanted it to be different, while its owner was the same.
    Unstable {
        child: ChildName,
        times: u8,
        /// Where the last two were different.
        place: String,
    },
    /// An apply has put right, so many times in a short while, what another manager changes each time.
    Contested {
        child: ChildName,
        times: u8,
        taken: TakenFields,
    },
    /// It was to be deleted, and is no child.
    NotDeleted { child: ChildName, why: String },
}
