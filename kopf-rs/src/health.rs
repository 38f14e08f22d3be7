//! How the operator is, for those who ask over HTTP: probes of users, whether it lives, whether it is ready, and what it does.
//!
//! Facts are told to the [`board`]; what they mean is decided in [`checks`], without a clock; the [`responder`] answers on the operator's own
//! runtime; the [`listener`] has a thread of its own, so that somebody can say that the operator's does not answer. Promises that an operator
//! that nobody asks pays nothing for it.

pub(crate) mod address;
pub(crate) mod board;
pub(crate) mod checks;
pub(crate) mod http;
pub(crate) mod listener;
#[cfg(feature = "metrics")]
pub(crate) mod metrics_endpoint;
pub(crate) mod probes;
#[cfg(feature = "metrics")]
mod process;
mod pulse;
pub(crate) mod responder;
#[cfg(feature = "metrics")]
pub(crate) mod scrape;
mod status;
