//! What the queue promises, on literal events.

use super::*;
use crate::object::resource::Resource;

const UID: &str = "0f8b6c9e-1d2a-4b3c-9d4e-5f60718293a4";

/// The kind in its next version, under handlers of its own.
fn newer() -> Arc<ResourceHandlers> {
    let resource = Resource {
        version: "v2".to_owned(),
        ..(*ResourceHandlers::of_pods().resource).clone()
    };
    Arc::new(ResourceHandlers::new(1, Arc::new(resource), Vec::new()))
}

fn raw(name: &str, uid: &str, version: u32) -> Raw {
    Raw::parse(&format!(
        r#"{{"metadata":{{"namespace":"ns","name":"{name}","uid":"{uid}","resourceVersion":"{version}"}}}}"#
    ))
    .unwrap()
}

fn never(_: &ResourceHandlers, _: &mut Memory, _: &Raw) -> bool {
    false
}

/// A queue with one stream, 0, and the workers it has asked for.
struct Fed {
    queue: Queue,
    started: Vec<WorkerStart>,
}

impl Fed {
    fn new() -> Self {
        let queue = Queue::default();
        queue.open(0, ResourceHandlers::of_pods(), None);
        Self {
            queue,
            started: Vec::new(),
        }
    }
    fn feed(&mut self, event: WatchEvent) {
        self.queue
            .feed(0, event, never, |start| self.started.push(start));
    }
    fn object(&mut self, event: EventType, name: &str, uid: &str, version: u32) {
        self.feed(WatchEvent::Object(event, raw(name, uid, version)));
    }
    /// The one worker asked for takes its letter, and rests having handled `version`.
    fn work(&mut self, version: &str) -> Pending {
        let mut started = self.started.pop().unwrap();
        let Some(Letter::State(state)) = self.queue.take(&started.key) else {
            panic!("no state waits");
        };
        started.memory.version = Version::of(version);
        assert!(self.queue.rest(&started.key, started.memory).is_none());
        state
    }
}

#[tokio::test]
async fn the_newest_state_wins_and_the_first_type_stays() {
    let mut fed = Fed::new();
    fed.object(EventType::Added, "a", UID, 1);
    fed.object(EventType::Modified, "a", UID, 2);
    assert_eq!(fed.started.len(), 1);
    let state = fed.work("2");
    assert_eq!(state.event, EventType::Added);
    assert_eq!(state.raw.facts().resource_version, "2");
}

#[tokio::test]
async fn a_deletion_is_final() {
    let mut fed = Fed::new();
    fed.object(EventType::Added, "a", UID, 1);
    fed.object(EventType::Deleted, "a", UID, 2);
    fed.object(EventType::Modified, "a", UID, 3);
    assert_eq!(fed.work("2").event, EventType::Deleted);
}

#[tokio::test]
async fn known_states_wake_nobody() {
    let mut fed = Fed::new();
    fed.object(EventType::Added, "a", UID, 1);
    fed.work("5");
    fed.object(EventType::Modified, "a", UID, 4);
    fed.object(EventType::Listed, "a", UID, 5);
    assert!(fed.started.is_empty());
    fed.object(EventType::Modified, "a", UID, 6);
    assert_eq!(fed.started.len(), 1);
}

#[tokio::test]
async fn what_a_listing_does_not_name_is_deleted() {
    let mut fed = Fed::new();
    fed.feed(WatchEvent::Listing(Instant::now()));
    for (name, uid) in [("a", UID), ("b", "no-uuid")] {
        fed.object(EventType::Listed, name, uid, 1);
        fed.work("1");
    }
    fed.feed(WatchEvent::Synced);
    assert!(fed.started.is_empty());
    fed.feed(WatchEvent::Listing(Instant::now()));
    fed.object(EventType::Listed, "b", "no-uuid", 1);
    fed.feed(WatchEvent::Synced);
    let state = fed.work("1");
    assert_eq!(state.event, EventType::Deleted);
    let facts = state.raw.facts();
    let names = (facts.namespace.as_deref(), facts.name.as_str());
    assert_eq!((names, facts.uid.as_str()), ((Some("ns"), "a"), UID));
}

#[tokio::test]
async fn a_stream_that_replaces_another_takes_its_objects_over() {
    let mut fed = Fed::new();
    fed.object(EventType::Listed, "a", UID, 1);
    fed.work("1");
    fed.queue.open(1, ResourceHandlers::of_pods(), Some(0));
    fed.object(EventType::Modified, "a", UID, 2);
    assert!(fed.started.is_empty(), "a closed stream is not listened to");
    let mut started = Vec::new();
    fed.queue
        .feed(1, WatchEvent::Listing(Instant::now()), never, |h| {
            started.push(h);
        });
    fed.queue
        .feed(1, WatchEvent::Synced, never, |h| started.push(h));
    assert_eq!(started.len(), 1);
}

#[tokio::test]
async fn settled_means_synced_and_at_rest() {
    let mut fed = Fed::new();
    let settled = |fed: &Fed| fed.queue.lock().is_settled();
    assert!(!settled(&fed));
    fed.object(EventType::Listed, "a", UID, 1);
    fed.feed(WatchEvent::Synced);
    assert!(!settled(&fed));
    fed.work("1");
    assert!(settled(&fed));
    fed.queue.settled().await;
}

#[test]
fn an_object_at_rest_is_small() {
    assert!(
        size_of::<Key>() + size_of::<Slot>() <= 120,
        "{}",
        size_of::<Slot>()
    );
}

#[tokio::test]
async fn a_quiet_state_is_remembered_without_a_worker() {
    let mut fed = Fed::new();
    let always = |_: &ResourceHandlers, _: &mut Memory, _: &Raw| true;
    let listed = WatchEvent::Object(EventType::Listed, raw("a", UID, 2));
    fed.queue
        .feed(0, listed, always, |_| panic!("a worker is started"));
    assert_eq!(fed.queue.busy(), 0);
    fed.object(EventType::Modified, "a", UID, 2);
    assert!(fed.started.is_empty(), "an echo of what is known");
    let deleted = WatchEvent::Object(EventType::Deleted, raw("a", UID, 3));
    fed.queue
        .feed(0, deleted, always, |started| fed.started.push(started));
    assert_eq!(fed.started.len(), 1);
}

#[tokio::test]
async fn what_is_not_watched_any_more_is_forgotten_and_not_deleted() {
    let mut fed = Fed::new();
    fed.object(EventType::Added, "rests", UID, 1);
    fed.work("1");
    fed.object(EventType::Added, "works", "no-uuid", 1);
    let working = fed.started.pop().unwrap();
    fed.queue.take(&working.key).unwrap();
    fed.queue.close(0);
    assert!(fed.started.is_empty(), "nobody is to be called");
    assert!(!fed.queue.is_deleted(&working.key));
    assert_eq!(fed.queue.lock().slots.len(), 1);
    let letter = fed.queue.take(&working.key);
    assert!(matches!(letter, Some(Letter::Unwatched)), "{letter:?}");
    assert!(fed.queue.remove(&working.key).is_none());
    assert_eq!(fed.queue.lock().slots.len(), 0);
    assert_eq!(fed.queue.busy(), 0);
}

#[tokio::test]
async fn a_watch_that_comes_back_before_the_worker_has_ended_starts_no_second_one() {
    let mut fed = Fed::new();
    fed.object(EventType::Added, "a", UID, 1);
    let working = fed.started.pop().unwrap();
    fed.queue.take(&working.key).unwrap();
    fed.queue.close(0);
    fed.queue.open(0, ResourceHandlers::of_pods(), None);
    fed.object(EventType::Listed, "a", UID, 2);
    assert!(fed.started.is_empty(), "it has a worker");
    assert!(matches!(
        fed.queue.take(&working.key),
        Some(Letter::State(_))
    ));
    // The same while the worker lets go of what it is told is not watched.
    fed.queue.close(0);
    fed.queue.take(&working.key).unwrap();
    fed.queue.open(0, ResourceHandlers::of_pods(), None);
    fed.object(EventType::Listed, "a", UID, 3);
    assert!(fed.queue.remove(&working.key).is_some(), "it goes on");
    assert!(fed.started.is_empty());
    assert_eq!(fed.queue.busy(), 1);
}

#[tokio::test]
async fn a_state_that_comes_while_a_concluded_deletion_is_handled_is_handled_next() {
    let mut fed = Fed::new();
    fed.feed(WatchEvent::Listing(Instant::now()));
    fed.object(EventType::Listed, "a", UID, 1);
    fed.work("1");
    fed.feed(WatchEvent::Listing(Instant::now()));
    fed.feed(WatchEvent::Synced);
    let working = fed.started.pop().unwrap();
    let Some(Letter::State(deletion)) = fed.queue.take(&working.key) else {
        panic!("no deletion waits");
    };
    assert!(deletion.is_deletion() && deletion.concluded);
    fed.object(EventType::Modified, "a", UID, 2);
    assert!(fed.queue.remove(&working.key).is_some());
    assert!(fed.queue.take(&working.key).is_some());
}

#[tokio::test]
async fn an_object_whose_deletion_is_being_handled_is_not_deleted_again() {
    let mut fed = Fed::new();
    fed.object(EventType::Added, "a", UID, 1);
    fed.work("1");
    fed.object(EventType::Deleted, "a", UID, 2);
    let working = fed.started.pop().unwrap();
    assert!(fed.queue.take(&working.key).is_some());
    fed.queue.open(1, ResourceHandlers::of_pods(), Some(0));
    for event in [WatchEvent::Listing(Instant::now()), WatchEvent::Synced] {
        fed.queue
            .feed(1, event, never, |start| fed.started.push(start));
    }
    assert!(fed.queue.take(&working.key).is_none(), "deleted again");
    fed.queue.close(1);
    assert!(
        fed.queue.take(&working.key).is_none(),
        "its end is cut short"
    );
    assert!(fed.queue.remove(&working.key).is_none());
    assert!(fed.started.is_empty());
    assert_eq!(fed.queue.busy(), 0);
}

#[tokio::test]
async fn another_version_of_a_kind_is_the_same_object_and_looked_at_anew() {
    let mut fed = Fed::new();
    fed.object(EventType::Listed, "a", UID, 5);
    fed.work("5");
    fed.queue.open(1, newer(), Some(0));
    let listed = WatchEvent::Object(EventType::Listed, raw("a", UID, 5));
    fed.queue
        .feed(1, listed, never, |start| fed.started.push(start));
    let state = fed.work("5");
    assert_eq!(state.kind.resource.version, "v2");
    assert_eq!(fed.queue.lock().slots.len(), 1);
}

#[tokio::test]
async fn an_object_whose_worker_rests_after_another_version_took_over_is_looked_at_anew() {
    let mut fed = Fed::new();
    fed.object(EventType::Listed, "a", UID, 5);
    let mut working = fed.started.pop().unwrap();
    fed.queue.take(&working.key).unwrap();
    fed.queue.open(1, newer(), Some(0));
    working.memory.version = Version::of("5");
    assert!(fed.queue.rest(&working.key, working.memory).is_none());
    for due in [1, 0] {
        let listed = WatchEvent::Object(EventType::Listed, raw("a", UID, 5));
        fed.queue
            .feed(1, listed, never, |start| fed.started.push(start));
        assert_eq!(fed.started.len(), due);
        if due == 1 {
            assert_eq!(fed.work("5").kind.resource.version, "v2");
        }
    }
}

#[tokio::test]
async fn a_worker_that_ends_after_it_has_put_its_object_to_rest_is_counted_once() {
    let mut fed = Fed::new();
    fed.object(EventType::Added, "a", UID, 1);
    let working = fed.started.pop().unwrap();
    fed.queue.take(&working.key).unwrap();
    assert!(fed.queue.rest(&working.key, working.memory).is_none());
    fed.queue.drop_worker(&working.key);
    assert_eq!(fed.queue.busy(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_events_are_many() {
    let mut fed = Fed::new();
    for nth in 1..=100 {
        let waited = tokio::time::timeout(std::time::Duration::ZERO, fed.queue.many_events());
        assert!(waited.await.is_err(), "after {} events", nth - 1);
        fed.object(EventType::Modified, "a", UID, nth);
    }
    fed.queue.many_events().await;
    assert_eq!(fed.queue.events(), 100);
}

#[tokio::test]
async fn what_was_not_listed_since_a_pause_is_remembered_over_the_next_one() {
    let mut fed = Fed::new();
    fed.object(EventType::Added, "a", UID, 1);
    fed.work("1");
    let pause = |fed: &Fed| {
        fed.queue.pause();
        fed.queue.close(0);
        let remembered = fed.queue.lock().paused.len();
        fed.queue.resume();
        fed.queue.open(0, ResourceHandlers::of_pods(), None);
        remembered
    };
    assert_eq!(pause(&fed), 1);
    fed.feed(WatchEvent::Listing(Instant::now()));
    assert_eq!(pause(&fed), 1, "the listing was not complete");
    fed.feed(WatchEvent::Listing(Instant::now()));
    fed.feed(WatchEvent::Synced);
    assert_eq!(pause(&fed), 0, "the object is gone");
}
