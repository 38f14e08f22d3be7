//! Admission webhooks as data: what is asked of handlers, what is answered.
//!
//! Pure. Must not know sockets, requests to the cluster, or the time it is.

pub(crate) mod answer;
pub(crate) mod changes;
pub(crate) mod review;
pub(crate) mod route;
pub(crate) mod selection;
