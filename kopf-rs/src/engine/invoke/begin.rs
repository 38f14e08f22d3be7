//! A call that waits for a thread: it begins once it has one, unless it is called off before.
//!
//! Must not know what is called.

use std::sync::{Arc, Mutex, PoisonError};

use crate::object::patch::Patch;

/// The begin of one call: whoever takes its patch first, the call or whoever calls it off.
#[derive(Clone)]
pub(super) struct Begin(Arc<Mutex<Option<Patch>>>);

impl Begin {
    pub(super) fn new(patch: Patch) -> Self {
        Self(Arc::new(Mutex::new(Some(patch))))
    }

    /// The call begins, and this is its patch. Nothing where it was called off.
    pub(super) fn begin(&self) -> Option<Patch> {
        self.take()
    }

    /// Call it off, and give its patch back. Nothing where it has begun.
    pub(super) fn call_off(&self) -> Option<Patch> {
        self.take()
    }

    pub(super) fn has_begun(&self) -> bool {
        let patch = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        patch.is_none()
    }

    fn take(&self) -> Option<Patch> {
        let mut patch = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        patch.take()
    }
}
