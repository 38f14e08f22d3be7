//! Runtime tools: the clock, random numbers, and signals to continue. Code that mentions an object does not belong
//! here.

pub(crate) mod backoff;
pub(crate) mod broken_pipe;
pub(crate) mod clock;
pub(crate) mod flow;
pub(crate) mod gate;
pub(crate) mod locked_file;
pub(crate) mod outage;
pub(crate) mod places;
pub(crate) mod rng;
pub(crate) mod task;
pub(crate) mod tls;
