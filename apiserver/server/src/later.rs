//! Executes scheduled work: expired Events, owners that never appeared, and transitions of workloads.
//!
//! Work runs when it is due by the server's clock, on the next access to the store; nothing here sleeps.
//! Independent of tasks and requests.

use jiff::SignedDuration;

use crate::cascade;
use crate::kind::CollectionId;
use crate::store::Store;
use crate::store::agenda::{Entry, Task};
use crate::write;

/// The lifetime of Events, as in the real server.
pub(crate) const EVENT_TTL: SignedDuration = SignedDuration::from_hours(1);
/// The time that an owner may be missing; the garbage collector of a real cluster reacts after about this time.
pub(crate) const OWNER_GRACE: SignedDuration = SignedDuration::from_secs(1);

/// Executes all due work.
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
