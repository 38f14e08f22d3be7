//! Converts objects between the versions of their kind: chains over several versions, conversion reviews, and the
//! preservation of fields that a version lacks.
//!
//! Pure. This module must not depend on sockets, requests to the cluster, or the current time.

pub(crate) mod carrier;
pub(crate) mod definition;
#[cfg(test)]
mod fuzz;
pub(crate) mod graph;
pub(crate) mod lost;
pub(crate) mod partial;
mod restoring;
pub(crate) mod review;
pub(crate) mod rules;
mod schema;
pub(crate) mod stanza;
