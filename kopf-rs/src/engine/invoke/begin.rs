//! A call that waits for a thread: it begins once it has one, unless it is called off before.
//!
//! Must not know what is called.

use std::sync::{Arc, Mutex, PoisonError};

use crate::object::patch::Patch;

/// One call that is to begin. It holds the patch of the call: the call begins by taking it, and is called off by taking it away.
#[derive(Clone)]
pub(super) struct Begin(Arc<Mutex<Option<Patch>>>);

impl Begin {
    pub(super) fn new(patch: Patch) -> Self {
        Self(Arc::new(Mutex::new(Some(patch))))
    }

    /// Begin the call: its patch, or `None` where the call was called off.
    pub(super) fn begin(&self) -> Option<Patch> {
        self.take()
    }

    /// Call off the call: its patch, or `None` where the call has begun.
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
