//! How large a worker is.

use super::*;

/// The size of what `make` returns.
fn size_made<A, B, F>(_: impl FnOnce(A, B) -> F) -> usize {
    size_of::<F>()
}

/// A burst of failures has thousands of workers that wait for their next attempt: what a turn needs is made for the turn.
#[test]
fn a_worker_that_waits_is_small() {
    let size = size_made(work);
    assert!(size <= 1536, "{size} bytes");
}
