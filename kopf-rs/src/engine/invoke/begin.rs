//! A call that waits for a thread: it begins as soon as it has one, unless it is called off before.
//!
//! Must not know the handler.

use std::sync::{Arc, Mutex, PoisonError};

use crate::object::patch::Patch;

/// The state of one waiting call. It holds the patch of the call: the call begins by taking the patch, and is called off by the same step,
/// so only one of the two can succeed.
#[derive(Clone)]
pub(super) struct Begin(Arc<Mutex<Option<Patch>>>);

impl Begin {
    pub(super) fn new(patch: Patch) -> Self {
        Self(Arc::new(Mutex::new(Some(patch))))
    }

    /// Begins the call. Returns its patch, or `None` if the call was called off.
    pub(super) fn begin(&self) -> Option<Patch> {
        self.take()
    }

    /// Calls the call off. Returns its patch, or `None` if the call has begun.
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
