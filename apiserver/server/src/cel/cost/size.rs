//! Bounds on the sizes of strings, lists and maps, and the cost of traversing them.
//!
//! Arithmetic saturates where the real server's does. Independent of expressions.

/// The cost of each traversed character.
pub(super) const LETTER: f64 = 0.1;
/// The cost of each character of a pattern, per step of the match.
pub(super) const PATTERN: f64 = 0.25;

/// The lower and upper bound of a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) min: u64,
    pub(super) max: u64,
}

/// The sizes of the items of a list, or of the keys and values of a map.
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
    /// The neutral element of `or`: the union with any size is that size.
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

    /// Returns the bounds that contain both sizes.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }

    /// Returns the highest cost at `each` per unit.
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

/// Returns `count * each`, rounded up and saturating.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the real server estimates in floats, and what is too large is the largest number"
)]
pub(super) fn cost(count: u64, each: f64) -> u64 {
    (count as f64 * each).ceil() as u64
}
