//! Tasks around the heart: one mailbox and one worker per object.
//!
//! Must not name `kube`.
