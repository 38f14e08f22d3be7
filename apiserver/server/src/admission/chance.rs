//! Random choices of a write.
//!
//! Guarantees that a request gets the same choices each time its verb runs. Must not depend on the use of the choices.

use std::hash::{DefaultHasher, Hash, Hasher};

use uuid::Uuid;

/// A seeded sequence of choices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chance {
    seed: u128,
    count: u32,
}

// === impl Chance ===

impl Chance {
    /// A sequence with a new random seed.
    pub(crate) fn new() -> Self {
        Self {
            seed: Uuid::new_v4().as_u128(),
            count: 0,
        }
    }

    /// Returns the next choice.
    pub(crate) fn next(&mut self) -> u32 {
        let mut hasher = DefaultHasher::new();
        (self.seed, self.count).hash(&mut hasher);
        self.count += 1;
        // Half of the hash is random enough.
        let bytes = hasher.finish().to_le_bytes();
        u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }
}
