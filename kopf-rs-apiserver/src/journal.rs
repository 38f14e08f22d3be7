//! Every request that was answered, for assertions.
//!
//! Promise: an entry is there before its answer reaches the client. Must not know what the requests meant to the store
//! beyond their outcome.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use serde_json::Value;
use tokio::sync::watch;

use crate::call::{Call, Verb};
use crate::store::batch;

/// How many entries are kept unless it is said otherwise; the oldest go first.
const LIMIT: usize = 100_000;

/// A request that was answered.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Entry {
    /// The HTTP method.
    pub method: String,
    /// The path, as sent.
    pub path: String,
    /// The query parameters, decoded.
    pub query: Vec<(String, String)>,
    /// What was wanted.
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
    /// Whose request it was.
    pub user: String,
    /// Who says to be asking.
    pub user_agent: Option<String>,
    /// The request's body, where it is JSON.
    pub body: Option<Value>,
    /// The status code of the answer.
    pub code: u16,
    /// The resourceVersion of the object or list answered.
    pub resource_version: Option<String>,
    /// Whether the request itself changed its object.
    pub changed: bool,
    /// All that was changed in consequence, in this order: objects that went with their owner, conditions the server sets, ...
    pub effects: Vec<Effect>,
}

/// One change that a request had as its consequence.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Effect {
    /// What happened to the object, as watches call it: `ADDED`, `MODIFIED` or `DELETED`.
    pub event: &'static str,
    /// The API group; empty for the core group.
    pub group: String,
    /// The plural of the resource.
    pub plural: String,
    /// The object's namespace.
    pub namespace: Option<String>,
    /// The object's name.
    pub name: String,
    /// The resourceVersion it had from then on.
    pub resource_version: String,
}

/// What an answer was, in the journal's terms.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) code: u16,
    pub(crate) revision: Option<u64>,
    pub(crate) changed: bool,
    pub(crate) effects: Vec<batch::Effect>,
}

/// The requests an [`ApiServer`](crate::ApiServer) has answered. Clones share the same entries.
#[derive(Clone, Debug)]
pub struct Journal {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    records: Mutex<Records>,
    /// Requests read-lock it from before they change anything until they are noted.
    noting: RwLock<()>,
    signal: watch::Sender<()>,
}

#[derive(Debug)]
struct Records {
    limit: usize,
    kept: VecDeque<Arc<Record>>,
    /// How many entries went before the kept ones.
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
        while self.kept.len() > self.limit {
            self.kept.pop_front();
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
    /// What comes from the request alone.
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
                    gone: 0,
                }),
                noting: RwLock::new(()),
                signal: watch::Sender::new(()),
            }),
        }
    }

    /// Holds back [`entries`](Self::entries) until the guard goes: what a request has changed can be seen before it is noted.
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
        records.kept.push_back(Arc::new(record));
        records.shorten();
        drop(records);
        self.shared.signal.send_replace(());
    }

    /// Keep at most so many entries from now on, the newest; the default is 100,000. With 0 nothing is noted.
    pub fn limit(&self, entries: usize) {
        let mut records = self.records();
        records.limit = entries;
        records.shorten();
    }

    /// All entries, oldest first; at most the newest 100,000 are kept. Whatever a client has seen of a request, that request is
    /// among them.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        let noting = self.shared.noting.write();
        drop(noting.unwrap_or_else(PoisonError::into_inner));
        let records: Vec<_> = self.records().kept.iter().cloned().collect();
        records.iter().map(|record| record.entry()).collect()
    }

    /// The entries whose verb writes: create, update, patch, delete, deletecollection. Refused ones are among them.
    #[must_use]
    pub fn writes(&self) -> Vec<Entry> {
        let mut entries = self.entries();
        entries.retain(|entry| entry.verb.writes());
        entries
    }

    /// Forget all entries.
    pub fn clear(&self) {
        let mut records = self.records();
        records.gone += records.kept.len();
        records.kept.clear();
    }

    /// The first entry the predicate accepts, among those there are and those to come.
    ///
    /// It waits for as long as it takes: put a `tokio::time::timeout` around it.
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
        // A panic elsewhere leaves the records whole: every change is a single push or pop.
        self.shared
            .records
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Verb ===

impl Verb {
    /// Whether this verb changes objects.
    #[must_use]
    pub const fn writes(self) -> bool {
        matches!(
            self,
            Self::Create | Self::Update | Self::Patch | Self::Delete | Self::DeleteCollection
        )
    }
}
