//! The clock and the gates. If it mentions an object it is in the wrong place.

pub(crate) mod backoff;
pub(crate) mod chance;
pub(crate) mod clock;
