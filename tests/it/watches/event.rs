//! What may happen in a history, besides users' edits. Each history has some of it.

use std::collections::BTreeSet;

use crate::random::dice::Dice;

/// Something that may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A kind of the same plural is installed in another group, and removed.
    OtherGroup,
    /// The definition gets a second version, which is then preferred, and loses it.
    SecondVersion,
    /// Versions are served and not served.
    Served,
    /// The status subresource goes and comes.
    Status,
    /// The definition is deleted, and made again.
    Definition,
    /// Namespaces are deleted, and made again.
    Namespaces,
    /// Watches are cut, silent, late, or too old.
    Watches,
    /// The server does not say what it serves.
    Discovery,
    /// Requests are refused, answers are lost.
    Refusals,
    /// The operator is killed and started again.
    Kills,
    /// The operator is stopped, and started again.
    Stops,
    /// Objects are deleted and made anew.
    Deletions,
    /// Handlers take their time, and fail.
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

    /// Some of all events: each in a few histories.
    pub(super) fn some(dice: &mut Dice) -> BTreeSet<Self> {
        let mut some: BTreeSet<_> = Self::ALL
            .into_iter()
            .filter(|event| dice.one_in(event.sides()))
            .collect();
        // Which handlers are served must not change.
        if some.contains(&Self::TwoVersions) {
            some.remove(&Self::SecondVersion);
            some.remove(&Self::Served);
        }
        if some.contains(&Self::Definition) && dice.one_in(2) {
            some.insert(Self::Discovery);
        }
        some
    }

    /// In how many histories there is one with it.
    fn sides(self) -> usize {
        match self {
            Self::TwoVersions => 12,
            Self::Failures => 2,
            _ => 4,
        }
    }

    /// Whether it keeps handlers from running, so that their time may be over before it was their turn.
    pub(super) fn delays(self) -> bool {
        !matches!(self, Self::Failures | Self::Deletions)
    }
}
