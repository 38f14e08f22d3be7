//! Kopf's own storages, byte for byte: what Kopf 1.45 has written is read, and what is written here Kopf reads.
//!
//! Each comes with its parameters under Kopf's names and defaults. Must not know our own formats.

pub(crate) mod annotations;
pub(crate) mod dumps;
pub(crate) mod keys;
pub(crate) mod multi;
pub(crate) mod status;

/// Kopf's prefix, which all its operators share unless told otherwise.
pub(crate) const PREFIX: &str = "kopf.zalando.org";
/// Kopf's finalizer.
pub(crate) const FINALIZER: &str = "kopf.zalando.org/KopfFinalizerMarker";
