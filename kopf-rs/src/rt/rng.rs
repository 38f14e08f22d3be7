//! Random numbers for spreading load; not suitable for secrets.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A random number generator. Each operator has one, shared by its tasks.
#[derive(Debug)]
pub(crate) struct Rng(AtomicU64);

impl Rng {
    /// Creates a generator seeded by the system.
    pub(crate) fn new() -> Self {
        Self::seeded(RandomState::new().hash_one(0_u64))
    }

    /// Creates a generator with reproducible numbers for a seed.
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// Creates another generator, seeded by the next number of this one.
    pub(crate) fn fork(&self) -> Self {
        Self::seeded(self.next_u64())
    }

    /// Returns a number in `0.0..1.0`.
    pub(crate) fn next_f64(&self) -> f64 {
        let bits = u32::try_from(self.next_u64() >> 32).unwrap_or_default();
        f64::from(bits) / (f64::from(u32::MAX) + 1.0)
    }

    fn next_u64(&self) -> u64 {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut mixed = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a random part of `whole`, from nothing to all of it.
    pub(crate) fn jitter(&self, whole: Duration) -> Duration {
        whole.mul_f64(self.next_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_in_range_and_differ() {
        let rng = Rng::new();
        let numbers: Vec<f64> = (0..1000).map(|_| rng.next_f64()).collect();
        assert!(numbers.iter().all(|roll| (0.0..1.0).contains(roll)));
        let mean = numbers.iter().sum::<f64>() / 1000.0;
        assert!((0.4..0.6).contains(&mean), "mean of {mean}");
    }

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_another_gives_others() {
        let numbers = |seed| {
            let rng = Rng::seeded(seed);
            (0..16).map(|_| rng.next_f64().to_bits()).collect::<Vec<_>>()
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
        assert!((0..16).any(|_| numbers(7)[0] != Rng::new().next_f64().to_bits()));
    }
}
