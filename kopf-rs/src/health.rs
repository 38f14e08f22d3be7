//! How the operator is, for those who ask over HTTP: probes of users, whether it lives, whether it is ready, and what it does.
//!
//! Facts are told to the [`board`]; what they mean is decided in [`checks`], without a clock; the [`responder`] answers on the operator's own
//! runtime; the [`listener`] has a thread of its own, so that somebody can say that the operator's does not answer. Promises that an operator
//! that nobody asks pays nothing for it.

pub(crate) mod address;
pub(crate) mod board;
pub(crate) mod checks;
pub(crate) mod listener;
pub(crate) mod probes;
mod pulse;
pub(crate) mod responder;
mod status;
