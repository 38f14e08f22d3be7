//! Counts the results of compared pairs.
//!
//! Must not know how pairs are made.

use std::fmt;

use super::run::Pair;

/// The counts of the summary line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Equal answers.
    pub equal: usize,
    /// Answers whose differences are all in the ledger.
    pub excused: usize,
    /// All other answers.
    pub different: usize,
}

impl Tally {
    /// Counts the results of pairs.
    #[must_use]
    pub fn of(pairs: &[Pair]) -> Self {
        let mut tally = Self::default();
        for pair in pairs {
            match (pair.differences.is_empty(), pair.excused) {
                (false, _) => tally.different += 1,
                (true, 0) => tally.equal += 1,
                (true, _) => tally.excused += 1,
            }
        }
        tally
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            equal,
            excused,
            different,
        } = self;
        let all = equal + excused + different;
        write!(
            f,
            "corpus: {all} pairs, {equal} equal / {excused} in the ledger / {different} different"
        )
    }
}
