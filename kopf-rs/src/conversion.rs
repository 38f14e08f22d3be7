//! Conversion of objects between the versions of their kind: ways over several versions, reviews, and what keeps anything from being lost.
//!
//! Pure. Must not know sockets, requests to the cluster, or the time it is.

pub(crate) mod carrier;
pub(crate) mod definition;
pub(crate) mod graph;
pub(crate) mod lost;
pub(crate) mod object;
pub(crate) mod partial;
pub(crate) mod review;
pub(crate) mod stanza;
