//! Records the running calls of handlers for status pages.
//!
//! Exists only where a status page may ask for them. Must not know outcomes.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::engine::memory::Version;
use crate::object::reference::Reference;

/// All running calls. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallsInFlight(Arc<Mutex<Calls>>);

#[derive(Debug, Default)]
struct Calls {
    running: BTreeMap<u64, CallInFlight>,
    next: u64,
}

/// One running call.
#[derive(Clone, Debug)]
pub(crate) struct CallInFlight {
    pub(crate) handler: Arc<str>,
    /// `namespace/name`, or the name alone.
    pub(crate) object: String,
    pub(crate) uid: String,
    /// The version of the object that the handler was given.
    pub(crate) version: Version,
    pub(crate) since: Instant,
}

/// Removes the call from the record when it is dropped.
#[derive(Debug)]
pub(crate) struct InFlight {
    calls: CallsInFlight,
    number: u64,
}

impl CallsInFlight {
    /// Records a call, which lasts until the returned guard is dropped.
    pub(crate) fn begin(&self, handler: &Arc<str>, about: &Reference, version: Version) -> InFlight {
        let object = match &about.namespace {
            Some(namespace) => format!("{namespace}/{}", about.name),
            None => about.name.clone(),
        };
        let call = CallInFlight {
            handler: handler.clone(),
            object,
            uid: about.uid.clone(),
            version,
            since: Instant::now(),
        };
        let mut calls = self.0.lock();
        calls.next += 1;
        let number = calls.next;
        calls.running.insert(number, call);
        InFlight { calls: self.clone(), number }
    }

    /// Returns the running calls, the oldest first.
    pub(crate) fn all(&self) -> Vec<CallInFlight> {
        self.0.lock().running.values().cloned().collect()
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.calls.0.lock().running.remove(&self.number);
    }
}
