//! Admission webhooks as data: what is asked of handlers, what is answered, what the API server is told of them, and of rules that it enforces itself.
//!
//! Pure. Must not know sockets, requests to the cluster, or the time it is.

pub(crate) mod answer;
pub(crate) mod blocking;
pub(crate) mod certificates;
pub(crate) mod changes;
pub(crate) mod conditions;
pub(crate) mod configuration;
pub(crate) mod expression;
pub(crate) mod instances;
pub(crate) mod review;
#[cfg(any(feature = "cli", test))]
pub(crate) mod rights;
pub(crate) mod route;
pub(crate) mod rules;
pub(crate) mod selection;
