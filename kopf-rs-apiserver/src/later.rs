//! What is due later: events that expire, owners that should have appeared, whatever workloads wait for.
//!
//! Promise: done when its time has come by the server's clock, by whoever holds the store then; nothing here sleeps.
//! Must not know tasks or requests.

use jiff::SignedDuration;

use crate::cascade;
use crate::kind::CollectionId;
use crate::store::Store;
use crate::store::agenda::{Entry, Task};
use crate::write;

/// How long the real server keeps Events.
pub(crate) const EVENT_TTL: SignedDuration = SignedDuration::from_hours(1);
/// How long an owner may stay unknown: a real cluster's garbage collector looks after about that time.
pub(crate) const OWNER_GRACE: SignedDuration = SignedDuration::from_secs(1);

/// Do what is due.
pub(crate) fn run(store: &mut Store) {
    if store.agenda.first().is_none() {
        return;
    }
    let now = store.clock.now();
    while let Some(entry) = store.agenda.take(now) {
        let Entry {
            collection,
            key,
            task,
        } = entry;
        match task {
            Task::Expire(revision) => expire(store, collection, &key, revision),
            Task::CheckOwners => cascade::check_owners(store, collection, &key),
            Task::Look => store.note(collection, &key),
        }
    }
}

fn expire(store: &mut Store, collection: CollectionId, key: &str, revision: u64) {
    let unchanged = store
        .get(collection, key)
        .is_some_and(|found| found.slim.revision == revision);
    let kind = store.kinds.of_collection(collection).cloned();
    if let Some(kind) = kind.filter(|_| unchanged) {
        write::remove(store, &kind, key);
    }
}
