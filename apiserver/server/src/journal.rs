//! Records every answered request, for assertions in tests.
//!
//! An entry is recorded before its response reaches the client. Apart from the outcome, independent of the effect on the store.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use serde_json::Value;
use tokio::sync::watch;

use crate::call::{Call, Verb};
use crate::store::batch;

/// The default number of entries; the oldest are dropped first.
const LIMIT: usize = 100_000;

/// The total size of recorded bodies; beyond it, the oldest entries are dropped.
const BYTES: usize = 64 * 1024 * 1024;

/// An answered request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Entry {
    /// The HTTP method.
    pub method: String,
    /// The path as the client sent it.
    pub path: String,
    /// The decoded query parameters.
    pub query: Vec<(String, String)>,
    /// The verb.
    pub verb: Verb,
    /// The API group; empty for the core group and for pages.
    pub group: String,
    /// The API version.
    pub version: String,
    /// The plural of the resource; empty for pages.
    pub plural: String,
    /// The namespace in the path.
    pub namespace: Option<String>,
    /// The object's name in the path.
    pub name: Option<String>,
    /// The subresource in the path.
    pub subresource: Option<String>,
    /// The content type of the request's body.
    pub content_type: Option<String>,
    /// The name of the authenticated user.
    pub user: String,
    /// The `User-Agent` header.
    pub user_agent: Option<String>,
    /// The request's body, if it is JSON.
    pub body: Option<Value>,
    /// The status code of the response.
    pub code: u16,
    /// The resource version of the returned object or list.
    pub resource_version: Option<String>,
    /// True if the request itself changed its object.
    pub changed: bool,
    /// All resulting changes in order, such as dependents that were deleted with their owner, or conditions that the server set.
    pub effects: Vec<Effect>,
}

/// One change that resulted from a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Effect {
    /// The event type in watches: `ADDED`, `MODIFIED` or `DELETED`.
    pub event: &'static str,
    /// The API group; empty for the core group.
    pub group: String,
    /// The plural of the resource.
    pub plural: String,
    /// The object's namespace.
    pub namespace: Option<String>,
    /// The object's name.
    pub name: String,
    /// The resource version after the change.
    pub resource_version: String,
}

/// The parts of a response that the journal records.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) code: u16,
    pub(crate) revision: Option<u64>,
    pub(crate) changed: bool,
    pub(crate) effects: Vec<batch::Effect>,
}

/// The requests that an [`ApiServer`](crate::ApiServer) has answered. Clones share the same entries.
#[derive(Clone, Debug)]
pub struct Journal {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    records: Mutex<Records>,
    /// Each request holds a read lock from before its first change until it is recorded.
    noting: RwLock<()>,
    signal: watch::Sender<()>,
}

#[derive(Debug)]
struct Records {
    limit: usize,
    kept: VecDeque<Arc<Record>>,
    /// The total size of the recorded bodies.
    bytes: usize,
    /// The number of dropped entries.
    gone: usize,
}

#[derive(Debug)]
struct Record {
    call: Arc<Call>,
    code: u16,
    revision: Option<u64>,
    changed: bool,
    effects: Vec<Effect>,
}

// === impl Records ===

impl Records {
    fn shorten(&mut self) {
        while self.kept.len() > self.limit || self.bytes > BYTES && self.kept.len() > 1 {
            let Some(record) = self.kept.pop_front() else {
                return;
            };
            self.bytes -= record.call.body.len();
            self.gone += 1;
        }
    }
}

// === impl Effect ===

impl Effect {
    fn of(effect: &batch::Effect) -> Self {
        let (of, change) = (&effect.of, &effect.change);
        let slim = &change.now.slim;
        Self {
            event: change.event.word(),
            group: of.group.clone(),
            plural: of.plural.clone(),
            namespace: slim.namespace.clone(),
            name: slim.name.clone(),
            resource_version: change.revision.to_string(),
        }
    }
}

// === impl Record ===

impl Record {
    fn entry(&self) -> Entry {
        Entry {
            code: self.code,
            resource_version: self.revision.map(|revision| revision.to_string()),
            changed: self.changed,
            effects: self.effects.clone(),
            ..Entry::of(&self.call)
        }
    }
}

// === impl Entry ===

impl Entry {
    /// Returns an entry with only the fields that follow from the request.
    pub(crate) fn of(call: &Call) -> Self {
        let path = call.path.clone().unwrap_or_default();
        Self {
            method: call.method.to_string(),
            path: call.raw_path.clone(),
            query: call.query.clone(),
            verb: call.verb,
            group: path.group,
            version: path.version,
            plural: path.plural,
            namespace: path.namespace,
            name: path.name,
            subresource: path.subresource,
            content_type: call.content_type.clone(),
            user: call.user.name.clone(),
            user_agent: call.user_agent.clone(),
            body: serde_json::from_slice(&call.body).ok(),
            code: 0,
            resource_version: None,
            changed: false,
            effects: Vec::new(),
        }
    }
}

// === impl Journal ===

impl Journal {
    pub(crate) fn new() -> Self {
        Self {
            shared: Arc::new(Shared {
                records: Mutex::new(Records {
                    limit: LIMIT,
                    kept: VecDeque::new(),
                    bytes: 0,
                    gone: 0,
                }),
                noting: RwLock::new(()),
                signal: watch::Sender::new(()),
            }),
        }
    }

    /// Blocks [`entries`](Self::entries) until the guard is dropped, because the effects of a request are visible before its entry is recorded.
    pub(crate) fn noting(&self) -> RwLockReadGuard<'_, ()> {
        self.shared
            .noting
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note(&self, call: Arc<Call>, outcome: &Outcome) {
        let mut records = self.records();
        if records.limit == 0 {
            return;
        }
        let record = Record {
            call,
            code: outcome.code,
            revision: outcome.revision,
            changed: outcome.changed,
            effects: outcome.effects.iter().map(Effect::of).collect(),
        };
        records.bytes += record.call.body.len();
        records.kept.push_back(Arc::new(record));
        records.shorten();
        drop(records);
        self.shared.signal.send_replace(());
    }

    /// Limits the journal to the newest entries; the default is 100,000, and 0 records nothing. Regardless of the limit, the recorded bodies
    /// have at most 64 MiB in total.
    pub fn limit(&self, entries: usize) {
        let mut records = self.records();
        records.limit = entries;
        records.shorten();
    }

    /// Returns all entries, oldest first: by default at most the newest 100,000, with at most 64 MiB of bodies. If a client has seen any effect
    /// of a request, its entry is included.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        let noting = self.shared.noting.write();
        drop(noting.unwrap_or_else(PoisonError::into_inner));
        let records: Vec<_> = self.records().kept.iter().cloned().collect();
        records.iter().map(|record| record.entry()).collect()
    }

    /// Returns the entries whose verb writes (create, update, patch, delete, deletecollection), including rejected requests.
    #[must_use]
    pub fn writes(&self) -> Vec<Entry> {
        let mut entries = self.entries();
        entries.retain(|entry| entry.verb.writes());
        entries
    }

    /// Removes all entries.
    pub fn clear(&self) {
        let mut records = self.records();
        records.gone += records.kept.len();
        records.kept.clear();
        records.bytes = 0;
    }

    /// Returns the first entry that the predicate accepts, among existing and future entries.
    ///
    /// Waits without a limit; wrap it in `tokio::time::timeout` to add one.
    pub async fn wait_for(&self, mut accepts: impl FnMut(&Entry) -> bool) -> Entry {
        let mut signal = self.shared.signal.subscribe();
        let mut seen = 0;
        loop {
            signal.mark_unchanged();
            for record in self.after(&mut seen) {
                let entry = record.entry();
                if accepts(&entry) {
                    return entry;
                }
            }
            if signal.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    fn after(&self, seen: &mut usize) -> Vec<Arc<Record>> {
        let records = self.records();
        let from = seen.saturating_sub(records.gone).min(records.kept.len());
        *seen = records.gone + records.kept.len();
        records.kept.range(from..).cloned().collect()
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        // A panic elsewhere leaves the records consistent: every change is a single push or pop.
        self.shared
            .records
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Verb ===

impl Verb {
    /// Returns true if this verb changes objects.
    #[must_use]
    pub const fn writes(self) -> bool {
        matches!(
            self,
            Self::Create | Self::Update | Self::Patch | Self::Delete | Self::DeleteCollection
        )
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn requests_are_kept_within_a_number_and_a_size_of_their_bodies() {
        let content = Bytes::from(vec![0; BYTES + 1]);
        let kept = |limit: usize, sizes: &[usize]| {
            let journal = Journal::new();
            journal.limit(limit);
            for (number, size) in sizes.iter().enumerate() {
                let request = http::Request::post(format!("/{number}")).body(()).unwrap();
                let call = Call::new(&request.into_parts().0, content.slice(..*size));
                let outcome = Outcome {
                    code: 201,
                    revision: None,
                    changed: false,
                    effects: Vec::new(),
                };
                journal.note(Arc::new(call), &outcome);
            }
            let entries = journal.entries();
            entries.iter().map(|it| it.path.clone()).collect::<Vec<_>>()
        };
        let half = BYTES / 2;
        assert_eq!(kept(9, &[half, half]), ["/0", "/1"]);
        assert_eq!(kept(9, &[half, half, 1]), ["/1", "/2"]);
        assert_eq!(kept(9, &[1, 1, BYTES + 1]), ["/2"]);
        assert_eq!(kept(9, &[BYTES + 1, 0]), ["/1"]);
        assert_eq!(kept(2, &[1, 1, 1]), ["/1", "/2"]);
    }
}
