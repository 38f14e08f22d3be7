//! Adding and removing the finalizer.
