//! How long texts, lists and maps may be, and what it costs to go through them.
//!
//! Promise: nothing overflows where the real server's numbers do not. Must not know expressions.

/// What a letter costs that is looked at.
pub(super) const LETTER: f64 = 0.1;
/// What a letter of a pattern costs for each step.
pub(super) const PATTERN: f64 = 0.25;

/// The least and the most that there may be of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) min: u64,
    pub(super) max: u64,
}

/// How long the parts of a list or a map may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    pub(super) of_list: bool,
    pub(super) key: Size,
    pub(super) value: Size,
}

// === impl Size ===

impl Size {
    pub(super) const UNKNOWN: Self = Self {
        min: 0,
        max: u64::MAX,
    };
    /// Wider than this with everything that is put to it.
    pub(super) const NONE: Self = Self {
        min: u64::MAX,
        max: 0,
    };

    pub(super) fn exactly(size: u64) -> Self {
        Self {
            min: size,
            max: size,
        }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_add(other.min),
            max: self.max.saturating_add(other.max),
        }
    }

    pub(super) fn times(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_mul(other.min),
            max: self.max.saturating_mul(other.max),
        }
    }

    /// What is either.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }

    /// What it costs at most, where each costs so much.
    pub(super) fn cost(self, each: f64) -> u64 {
        cost(self.max, each)
    }
}

// === impl Parts ===

impl Parts {
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            of_list: self.of_list,
            key: self.key.or(other.key),
            value: self.value.or(other.value),
        }
    }
}

/// What so many cost, where each costs so much; rounded up.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the real server estimates in floats, and what is too large is the largest number"
)]
pub(super) fn cost(count: u64, each: f64) -> u64 {
    (count as f64 * each).ceil() as u64
}
