//! Kopf's own storages, byte for byte: this module reads the records of Kopf 1.45, and Kopf reads the records written here.
//!
//! Each storage has its parameters under Kopf's names and defaults. This module must not depend on our own formats.

pub(crate) mod annotations;
pub(crate) mod dumps;
pub(crate) mod keys;
pub(crate) mod multi;
pub(crate) mod status;

/// Kopf's default prefix.
pub(crate) const PREFIX: &str = "kopf.zalando.org";
/// Kopf's finalizer.
pub(crate) const FINALIZER: &str = "kopf.zalando.org/KopfFinalizerMarker";
