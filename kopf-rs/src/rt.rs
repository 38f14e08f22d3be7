//! The clock, rng, and what tells when to go on. If it mentions an object it is in the wrong place.

pub(crate) mod backoff;
pub(crate) mod clock;
pub(crate) mod gate;
pub(crate) mod locked_file;
pub(crate) mod outage;
pub(crate) mod printed;
pub(crate) mod rng;
