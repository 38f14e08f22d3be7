//! The events that may happen in a history besides users' edits. Each history has some of them.

use std::collections::BTreeSet;

use crate::random::dice::Dice;

/// An event that may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A kind with the same plural is installed in another group, and removed.
    OtherGroup,
    /// The definition gains a second, preferred version, and loses it.
    SecondVersion,
    /// Versions switch between served and not served.
    Served,
    /// The status subresource is removed and added.
    Status,
    /// The definition is deleted and created again.
    Definition,
    /// Namespaces are deleted and created again.
    Namespaces,
    /// Watches are cut, hang, are late, or start at a version that is too old.
    Watches,
    /// Discovery requests fail.
    Discovery,
    /// Requests are refused, answers are lost.
    Refusals,
    /// The operator is killed and started again.
    Kills,
    /// The operator is stopped and started again.
    Stops,
    /// Objects are deleted and created again.
    Deletions,
    /// Handlers take time, and fail.
    Failures,
    /// Handlers of one operator name two versions of the kind.
    TwoVersions,
}

impl Event {
    const ALL: [Self; 14] = [
        Self::OtherGroup,
        Self::SecondVersion,
        Self::Served,
        Self::Status,
        Self::Definition,
        Self::Namespaces,
        Self::Watches,
        Self::Discovery,
        Self::Refusals,
        Self::Kills,
        Self::Stops,
        Self::Deletions,
        Self::Failures,
        Self::TwoVersions,
    ];

    /// Returns a random subset of the events.
    pub(super) fn some(dice: &mut Dice) -> BTreeSet<Self> {
        let mut some: BTreeSet<_> =
            Self::ALL.into_iter().filter(|event| dice.one_in(event.sides())).collect();
        // The set of served handlers must not change.
        if some.contains(&Self::TwoVersions) {
            some.remove(&Self::SecondVersion);
            some.remove(&Self::Served);
        }
        if some.contains(&Self::Definition) && dice.one_in(2) {
            some.insert(Self::Discovery);
        }
        some
    }

    /// Returns the number of histories per history that has this event.
    fn sides(self) -> usize {
        match self {
            Self::TwoVersions => 12,
            Self::Failures => 2,
            _ => 4,
        }
    }

    /// Returns whether it delays handlers, so that their timeouts may pass before their first call.
    pub(super) fn delays(self) -> bool {
        !matches!(self, Self::Failures | Self::Deletions)
    }
}
