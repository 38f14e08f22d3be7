//! Records the running calls of handlers, and the handlers that wait for their next attempt, for status pages.
//!
//! Exists only where a status page may ask for them. Must not know outcomes.

use std::collections::{BTreeMap, BTreeSet};
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
    /// By the uid of the object.
    waiting: BTreeMap<String, Vec<WaitingCall>>,
}

/// The maximum number of objects whose waiting handlers are recorded.
const OBJECTS: usize = 1000;

/// One running call.
#[derive(Clone, Debug)]
pub(crate) struct CallInFlight {
    pub(crate) handler: Arc<str>,
    /// The object, as [`Reference::kind_word`] and as `namespace/name` or the name alone.
    pub(crate) kind: String,
    pub(crate) object: String,
    pub(crate) uid: String,
    /// The version of the object that the handler was given.
    pub(crate) version: Version,
    pub(crate) since: Instant,
}

/// A handler that waits for its next attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WaitingCall {
    pub(crate) handler: Arc<str>,
    /// The object, as [`Reference::kind_word`] and as `namespace/name` or the name alone.
    pub(crate) kind: String,
    pub(crate) object: String,
    pub(crate) due: Instant,
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
        let call = CallInFlight {
            handler: handler.clone(),
            kind: about.kind_word(),
            object: about.to_string(),
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

    /// Replaces the waiting handlers of an object. Beyond a number of objects, further ones are not recorded.
    pub(crate) fn wait(&self, about: &Reference, waiting: Vec<(Arc<str>, Instant)>) {
        let mut calls = self.0.lock();
        if waiting.is_empty() {
            calls.waiting.remove(&about.uid);
            return;
        }
        if calls.waiting.len() >= OBJECTS && !calls.waiting.contains_key(&about.uid) {
            return;
        }
        let (kind, object) = (about.kind_word(), about.to_string());
        let waiting = waiting.into_iter().map(|(handler, due)| {
            let (kind, object) = (kind.clone(), object.clone());
            WaitingCall { handler, kind, object, due }
        });
        calls.waiting.insert(about.uid.clone(), waiting.collect());
    }

    /// Removes all waiting handlers from the record, because no handler waits while another instance leads.
    pub(crate) fn end_waiting(&self) {
        self.0.lock().waiting.clear();
    }

    /// Returns the handlers that wait for their next attempt, the first ones in front. A handler that runs again does not wait.
    pub(crate) fn waiting(&self) -> Vec<WaitingCall> {
        let calls = self.0.lock();
        let running: BTreeSet<(&str, &str)> =
            calls.running.values().map(|it| (it.uid.as_str(), &*it.handler)).collect();
        let of_object = |(uid, waiting): (&String, &Vec<WaitingCall>)| -> Vec<WaitingCall> {
            let waiting = waiting.iter().filter(|call| !running.contains(&(uid.as_str(), &*call.handler)));
            waiting.cloned().collect()
        };
        let mut waiting: Vec<WaitingCall> = calls.waiting.iter().flat_map(of_object).collect();
        waiting.sort_by_key(|call| call.due);
        waiting
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.calls.0.lock().running.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn handlers_wait_until_they_run_or_nothing_is_left() {
        let calls = CallsInFlight::default();
        let about =
            |uid: &str| Reference { uid: uid.to_owned(), name: uid.to_owned(), ..Reference::default() };
        let (soon, later) = (Instant::now(), Instant::now() + Duration::from_secs(9));
        let ids = ["one", "two"].map(Arc::<str>::from);
        calls.wait(&about("a"), vec![(ids[0].clone(), later), (ids[1].clone(), soon)]);
        let waiting = || calls.waiting().iter().map(|call| call.handler.to_string()).collect::<Vec<_>>();
        assert_eq!(waiting(), ["two", "one"]);
        let running = calls.begin(&ids[1], &about("a"), Version::Unknown);
        assert_eq!(waiting(), ["one"]);
        drop(running);
        for uid in 0..2 * OBJECTS {
            calls.wait(&about(&uid.to_string()), vec![(ids[0].clone(), soon)]);
        }
        assert_eq!(calls.waiting().len(), OBJECTS + 1, "the first object has two of them");
        calls.wait(&about("a"), Vec::new());
        assert_eq!(calls.waiting().len(), OBJECTS - 1);
        calls.end_waiting();
        assert_eq!(calls.waiting(), []);
    }
}
