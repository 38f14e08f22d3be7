//! The calls of handlers of objects that have begun and not returned, for those who ask how the operator is.
//!
//! Kept only where somebody may ask. Must not know what a call comes to.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use crate::engine::memory::Version;
use crate::object::reference::Reference;

/// All of them. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallsInFlight(Arc<Mutex<Calls>>);

#[derive(Debug, Default)]
struct Calls {
    running: BTreeMap<u64, CallInFlight>,
    next: u64,
}

/// One call.
#[derive(Clone, Debug)]
pub(crate) struct CallInFlight {
    pub(crate) handler: Arc<str>,
    /// `namespace/name`, or the name alone.
    pub(crate) object: String,
    pub(crate) uid: String,
    /// Of the object that the handler was given.
    pub(crate) version: Version,
    pub(crate) since: Instant,
}

/// Ends a call when it is dropped.
#[derive(Debug)]
pub(crate) struct InFlight {
    calls: CallsInFlight,
    number: u64,
}

impl CallsInFlight {
    /// A call begins, and lasts as long as what is returned.
    pub(crate) fn begin(
        &self,
        handler: &Arc<str>,
        about: &Reference,
        version: Version,
    ) -> InFlight {
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
        let mut calls = self.lock();
        calls.next += 1;
        let number = calls.next;
        calls.running.insert(number, call);
        InFlight {
            calls: self.clone(),
            number,
        }
    }

    /// Those that run now, the oldest first.
    pub(crate) fn all(&self) -> Vec<CallInFlight> {
        self.lock().running.values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.calls.lock().running.remove(&self.number);
    }
}
