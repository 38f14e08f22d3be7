//! What is chosen by chance for a write.
//!
//! Promise: the choices for a request are the same each time its verb runs. Must not know what is chosen.

use std::hash::{DefaultHasher, Hash, Hasher};

use uuid::Uuid;

/// The choices of one write, one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chance {
    seed: u128,
    count: u32,
}

// === impl Chance ===

impl Chance {
    /// Other choices than ever before.
    pub(crate) fn new() -> Self {
        Self {
            seed: Uuid::new_v4().as_u128(),
            count: 0,
        }
    }

    /// The next choice.
    pub(crate) fn next(&mut self) -> u32 {
        let mut hasher = DefaultHasher::new();
        (self.seed, self.count).hash(&mut hasher);
        self.count += 1;
        // The lower half of a hash is as good as all of it.
        let bytes = hasher.finish().to_le_bytes();
        u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }
}
