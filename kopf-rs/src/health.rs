//! The health of the operator over HTTP: user-defined probes, liveness, readiness and status pages.
//!
//! The engine reports facts to the [`board`]. [`checks`] interprets them, without a clock. The [`responder`] answers
//! on the operator's own runtime. The [`listener`] has its own thread, so that it can report that the operator's
//! thread does not respond. Without requests, health checks cost nothing. With the feature `web`, a page shows the same
//! facts to people.

pub(crate) mod address;
pub(crate) mod board;
pub(crate) mod checks;
pub(crate) mod http;
pub(crate) mod listener;
mod local;
#[cfg(feature = "metrics")]
pub(crate) mod metrics_endpoint;
pub(crate) mod probes;
#[cfg(feature = "metrics")]
mod process;
mod pulse;
pub(crate) mod responder;
#[cfg(feature = "metrics")]
pub(crate) mod scrape;
#[cfg(feature = "metrics")]
pub(crate) mod scrape_access;
mod status;
#[cfg(feature = "web")]
pub(crate) mod web;
