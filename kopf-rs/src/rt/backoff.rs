//! Exponential back-off with jitter, so that clients do not retry in step with each other.

use std::time::Duration;

use crate::rt::rng::Rng;

/// Exponential back-off with jitter: the n-th pause is between half and all of `first * 2^n`, at most `longest`.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
}

impl Backoff {
    pub(crate) fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, failures: 0 }
    }

    /// Counts a failure, and returns the pause after it.
    pub(crate) fn next_pause(&mut self, rng: &Rng) -> Duration {
        let doubled = 2u32.saturating_pow(self.failures.min(20));
        self.failures = self.failures.saturating_add(1);
        let ceiling = self.first.saturating_mul(doubled).min(self.longest);
        ceiling.saturating_sub(rng.jitter(ceiling / 2))
    }

    /// Counts a failure with a requested minimum pause, and returns a pause that is never shorter. Adds the usual pause and up to a quarter
    /// of the requested one, because other clients got the same request.
    pub(crate) fn next_pause_after(&mut self, asked_for: Duration, rng: &Rng) -> Duration {
        let pause = self.next_pause(rng);
        asked_for.saturating_add(rng.jitter(asked_for / 4)).saturating_add(pause)
    }

    /// Returns the number of failures in a row.
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    /// Resets the count after a success.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_to_the_longest_and_starts_over_after_a_reset() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
        let rng = Rng::new();
        for ceiling in [1, 2, 4, 8, 16, 30, 30] {
            let pause = backoff.next_pause(&rng);
            assert!(pause <= Duration::from_secs(ceiling), "{pause:?}");
            assert!(pause >= Duration::from_secs(ceiling) / 2, "{pause:?}");
        }
        backoff.reset();
        assert!(backoff.next_pause(&rng) <= Duration::from_secs(1));
    }

    #[test]
    fn two_pauses_differ() {
        let (minute, rng) = (Duration::from_secs(60), Rng::new());
        let pauses = (0..16).map(|_| Backoff::new(minute, minute).next_pause(&rng));
        assert!(pauses.collect::<std::collections::BTreeSet<_>>().len() > 1);
    }
}
