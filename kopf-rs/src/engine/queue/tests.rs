//! Tests the guarantees of the queue on literal events.

use super::*;
use crate::cluster::watch::Listings;
use crate::engine::running_calls::RunningCalls;
use crate::handler::live::Live;
use crate::handler::logger::Logger;
use crate::handler::registry::Registry;
use crate::handler::registry::callback::handler;
use crate::handler::stopped::Stopped;
use crate::object::key::KeySet;
use crate::object::resource::Resource;

const UID: &str = "0f8b6c9e-1d2a-4b3c-9d4e-5f60718293a4";

/// Returns the kind in its next API version, with other handlers.
fn newer() -> Arc<ResourceHandlers> {
    let resource = Resource { version: "v2".to_owned(), ..(*ResourceHandlers::of_pods().resource).clone() };
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

/// A queue with one stream, 0, and the workers that it has asked for.
struct Fed {
    queue: Queue,
    listings: Listings,
    started: Vec<WorkerStart>,
}

impl Fed {
    fn new() -> Self {
        let queue = Queue::default();
        queue.open(0, ResourceHandlers::of_pods(), None);
        Self { queue, listings: Listings::default(), started: Vec::new() }
    }
    /// Returns the workers that the queue has asked for and that no test has taken.
    fn started(&mut self) -> &mut Vec<WorkerStart> {
        self.started.append(&mut self.queue.take_starts());
        &mut self.started
    }
    fn feed(&mut self, event: WatchEvent) {
        let kind = ResourceHandlers::of_pods();
        let event = self.listings.complete(&kind.resource, event);
        self.queue.feed(0, event, never);
    }
    fn object(&mut self, event: EventType, name: &str, uid: &str, version: u32) {
        self.feed(WatchEvent::Object(event, raw(name, uid, version)));
    }
    /// Lets the one requested worker take its message, handle `version` and become idle.
    fn work(&mut self, version: &str) -> Pending {
        let mut started = self.started().pop().unwrap();
        let Some(Message::State(state)) = self.queue.take(&started.key) else {
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
    assert_eq!(fed.started().len(), 1);
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
    assert!(fed.started().is_empty());
    fed.object(EventType::Modified, "a", UID, 6);
    assert_eq!(fed.started().len(), 1);
}

#[tokio::test]
async fn what_a_listing_does_not_name_is_deleted() {
    let mut fed = Fed::new();
    fed.feed(WatchEvent::Listing(Instant::now()));
    for (name, uid) in [("a", UID), ("b", "no-uuid")] {
        fed.object(EventType::Listed, name, uid, 1);
        fed.work("1");
    }
    fed.feed(WatchEvent::Synced(KeySet::default()));
    assert!(fed.started().is_empty());
    fed.feed(WatchEvent::Listing(Instant::now()));
    fed.object(EventType::Listed, "b", "no-uuid", 1);
    fed.feed(WatchEvent::Synced(KeySet::default()));
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
    assert!(fed.started().is_empty(), "a closed stream is not listened to");
    let listing = WatchEvent::Listing(Instant::now());
    fed.queue.feed(1, listing, never);
    fed.queue.feed(1, WatchEvent::Synced(KeySet::default()), never);
    assert_eq!(fed.started().len(), 1);
}

#[tokio::test]
async fn settled_means_synced_and_at_rest() {
    let mut fed = Fed::new();
    let settled = |fed: &Fed| fed.queue.state.lock().is_settled();
    assert!(!settled(&fed));
    fed.feed(WatchEvent::Listing(Instant::now()));
    fed.object(EventType::Listed, "a", UID, 1);
    fed.feed(WatchEvent::Synced(KeySet::default()));
    assert!(!settled(&fed));
    fed.work("1");
    assert!(settled(&fed));
    fed.queue.settled().await;
}

/// Otherwise, the operator could end between the two, and lose the message of the worker.
#[test]
fn a_worker_to_start_is_never_out_of_sight() {
    let mut fed = Fed::new();
    fed.object(EventType::Added, "a", UID, 1);
    let mut started = 0;
    fed.queue.start_workers(|_| {
        started += 1;
        assert!(fed.queue.state.is_locked(), "others can look between");
    });
    assert_eq!(started, 1);
}

#[test]
fn an_object_at_rest_is_small() {
    assert!(size_of::<Key>() + size_of::<Shown<Slot>>() <= 96, "{}", size_of::<Shown<Slot>>());
}

#[tokio::test]
async fn a_quiet_state_is_remembered_without_a_worker() {
    let mut fed = Fed::new();
    let always = |_: &ResourceHandlers, _: &mut Memory, _: &Raw| true;
    let listed = WatchEvent::Object(EventType::Listed, raw("a", UID, 2));
    fed.queue.feed(0, listed, always);
    assert!(fed.started().is_empty());
    assert_eq!(fed.queue.busy(), 0);
    fed.object(EventType::Modified, "a", UID, 2);
    assert!(fed.started().is_empty(), "an echo of what is known");
    let deleted = WatchEvent::Object(EventType::Deleted, raw("a", UID, 3));
    fed.queue.feed(0, deleted, always);
    assert_eq!(fed.started().len(), 1);
}

#[tokio::test]
async fn what_is_not_watched_any_more_is_forgotten_and_not_deleted() {
    let mut fed = Fed::new();
    fed.object(EventType::Added, "rests", UID, 1);
    fed.work("1");
    fed.object(EventType::Added, "works", "no-uuid", 1);
    let working = fed.started().pop().unwrap();
    fed.queue.take(&working.key).unwrap();
    fed.queue.close(0);
    assert!(fed.started().is_empty(), "nobody is to be called");
    assert!(!fed.queue.is_deleted(&working.key));
    assert_eq!(fed.queue.state.lock().objects.len(), 1);
    let message = fed.queue.take(&working.key);
    assert!(matches!(message, Some(Message::Unwatched)), "{message:?}");
    assert!(fed.queue.remove(&working.key).is_none());
    assert_eq!(fed.queue.state.lock().objects.len(), 0);
    assert_eq!(fed.queue.busy(), 0);
}

#[tokio::test]
async fn a_watch_that_comes_back_before_the_worker_has_ended_starts_no_second_one() {
    let mut fed = Fed::new();
    fed.object(EventType::Added, "a", UID, 1);
    let working = fed.started().pop().unwrap();
    fed.queue.take(&working.key).unwrap();
    fed.queue.close(0);
    fed.queue.open(0, ResourceHandlers::of_pods(), None);
    fed.object(EventType::Listed, "a", UID, 2);
    assert!(fed.started().is_empty(), "it has a worker");
    assert!(matches!(fed.queue.take(&working.key), Some(Message::State(_))));
    // The same while the worker forgets an object whose watch has ended.
    fed.queue.close(0);
    fed.queue.take(&working.key).unwrap();
    fed.queue.open(0, ResourceHandlers::of_pods(), None);
    fed.object(EventType::Listed, "a", UID, 3);
    assert!(fed.queue.remove(&working.key).is_some(), "it goes on");
    assert!(fed.started().is_empty());
    assert_eq!(fed.queue.busy(), 1);
}

#[tokio::test]
async fn a_state_that_comes_while_a_concluded_deletion_is_handled_is_handled_next() {
    let mut fed = Fed::new();
    fed.feed(WatchEvent::Listing(Instant::now()));
    fed.object(EventType::Listed, "a", UID, 1);
    fed.work("1");
    fed.feed(WatchEvent::Listing(Instant::now()));
    fed.feed(WatchEvent::Synced(KeySet::default()));
    let working = fed.started().pop().unwrap();
    let Some(Message::State(deletion)) = fed.queue.take(&working.key) else {
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
    let working = fed.started().pop().unwrap();
    assert!(fed.queue.take(&working.key).is_some());
    fed.queue.open(1, ResourceHandlers::of_pods(), Some(0));
    for event in [WatchEvent::Listing(Instant::now()), WatchEvent::Synced(KeySet::default())] {
        fed.queue.feed(1, event, never);
    }
    assert!(fed.queue.take(&working.key).is_none(), "deleted again");
    fed.queue.close(1);
    assert!(fed.queue.take(&working.key).is_none(), "its end is cut short");
    assert!(fed.queue.remove(&working.key).is_none());
    assert!(fed.started().is_empty());
    assert_eq!(fed.queue.busy(), 0);
}

#[tokio::test]
async fn another_version_of_a_kind_is_the_same_object_and_looked_at_anew() {
    let mut fed = Fed::new();
    fed.object(EventType::Listed, "a", UID, 5);
    fed.work("5");
    fed.queue.open(1, newer(), Some(0));
    let listed = WatchEvent::Object(EventType::Listed, raw("a", UID, 5));
    fed.queue.feed(1, listed, never);
    let state = fed.work("5");
    assert_eq!(state.kind.resource.version, "v2");
    assert_eq!(fed.queue.state.lock().objects.len(), 1);
}

#[tokio::test]
async fn an_object_whose_worker_rests_after_another_version_took_over_is_looked_at_anew() {
    let mut fed = Fed::new();
    fed.object(EventType::Listed, "a", UID, 5);
    let mut working = fed.started().pop().unwrap();
    fed.queue.take(&working.key).unwrap();
    fed.queue.open(1, newer(), Some(0));
    working.memory.version = Version::of("5");
    assert!(fed.queue.rest(&working.key, working.memory).is_none());
    for due in [1, 0] {
        let listed = WatchEvent::Object(EventType::Listed, raw("a", UID, 5));
        fed.queue.feed(1, listed, never);
        assert_eq!(fed.started().len(), due);
        if due == 1 {
            assert_eq!(fed.work("5").kind.resource.version, "v2");
        }
    }
}

#[tokio::test]
async fn a_worker_that_ends_after_it_has_put_its_object_to_rest_is_counted_once() {
    let mut fed = Fed::new();
    fed.object(EventType::Added, "a", UID, 1);
    let working = fed.started().pop().unwrap();
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
        let remembered = fed.queue.state.lock().paused.len();
        fed.queue.resume();
        fed.queue.open(0, ResourceHandlers::of_pods(), None);
        remembered
    };
    assert_eq!(pause(&fed), 1);
    fed.feed(WatchEvent::Listing(Instant::now()));
    assert_eq!(pause(&fed), 1, "the listing was not complete");
    fed.feed(WatchEvent::Listing(Instant::now()));
    fed.feed(WatchEvent::Synced(KeySet::default()));
    assert_eq!(pause(&fed), 0, "the object is gone");
}

/// Checks that the object is dropped, since no watch would report its deletion.
#[tokio::test]
async fn nothing_is_kept_of_an_object_whose_watch_is_closed_while_another_instance_works() {
    let mut fed = Fed::new();
    fed.object(EventType::Added, "a", UID, 1);
    let start = fed.started().pop().unwrap();
    fed.queue.stand_by();
    assert!(fed.started().is_empty());
    fed.queue.close(0);
    assert!(fed.started().is_empty());
    let message = fed.queue.take(&start.key);
    assert!(matches!(message, Some(Message::Unwatched)), "{message:?}");
    assert!(fed.queue.forget(&start.key, start.memory).is_none());
    assert!(!fed.queue.knows(UID));
    fed.queue.take_over();
    assert!(fed.started().is_empty());
}

/// Checks that the object is dropped if the watch no longer shows it, because the next leader would read it again for ever.
#[tokio::test]
async fn an_absence_that_was_told_before_another_instance_works_is_not_forgotten() {
    for comes_back in [false, true] {
        let mut fed = Fed::new();
        fed.queue.open(0, resumed(true), None);
        fed.object(EventType::Added, "a", UID, 1);
        fed.object(EventType::Deleted, "a", UID, 2);
        let start = fed.started().pop().unwrap();
        fed.queue.take(&start.key).unwrap();
        fed.queue.stand_by();
        assert!(fed.started().is_empty());
        fed.queue.mark_out_of_sight(&start.key);
        if comes_back {
            fed.object(EventType::Added, "a", UID, 3);
        }
        assert!(fed.queue.forget(&start.key, start.memory).is_none());
        assert_eq!(fed.queue.knows(UID), comes_back);
    }
}

/// Returns Pods with a handler that is called at a start.
fn resumed(is_selected: bool) -> Arc<ResourceHandlers> {
    let registry = Registry::new().on_resume("pods", handler("r", |_| async { Ok(()) }));
    let resource = ResourceHandlers::of_pods().resource.clone();
    let kind = ResourceHandlers::new(0, resource, registry.handlers().to_vec());
    Arc::new(kind.selected(is_selected))
}

/// A change and the request for its worker are one step, so no wake-up is lost, and the second one finds the worker.
#[tokio::test]
async fn whatever_concerns_an_object_at_rest_asks_for_one_worker() {
    let pods = || ResourceHandlers::of_pods().resource.clone();
    let modified = |fed: &Fed| {
        let event = WatchEvent::Object(EventType::Modified, raw("a", UID, 2));
        fed.queue.feed(0, event, never);
    };
    let unlisted = |fed: &Fed| {
        for event in [WatchEvent::Listing(Instant::now()), WatchEvent::Synced(KeySet::default())] {
            fed.queue.feed(0, event, never);
        }
    };
    let of_target = |fed: &Fed| {
        let names = BTreeSet::from(["ns/a".into()]);
        fed.queue.target_changed("r", &names, &pods());
    };
    let taken_over = |fed: &Fed| {
        fed.queue.stand_by();
        fed.queue.take_over();
    };
    let changes: [&dyn Fn(&Fed); 5] =
        [&modified, &unlisted, &|fed| fed.queue.child_changed(UID, &pods()), &of_target, &taken_over];
    for (number, change) in changes.into_iter().enumerate() {
        let mut fed = Fed::new();
        fed.queue.open(0, resumed(true), None);
        fed.object(EventType::Added, "a", UID, 1);
        fed.work("1");
        change(&fed);
        change(&fed);
        assert_eq!(fed.started().len(), 1, "{number}");
        assert!(fed.queue.take(&Key::of_uid(UID)).is_some(), "{number}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_due_asks_for_its_worker() {
    let mut fed = Fed::new();
    fed.object(EventType::Added, "a", UID, 1);
    let mut start = fed.started().pop().unwrap();
    fed.queue.take(&start.key).unwrap();
    let due = Instant::now() + std::time::Duration::from_secs(1);
    start.memory.background_or_default().due = Some(due);
    assert!(fed.queue.rest(&start.key, start.memory).is_none());
    let waking = tokio::time::timeout_at(due, fed.queue.wake_due());
    assert!(waking.await.is_err() && fed.started().len() == 1);
}

/// A new term counts as a start, and no watch reports the deletion again.
#[tokio::test]
async fn what_is_gone_when_a_term_begins_is_not_looked_for() {
    enum Told {
        Before,
        Taken,
        Meanwhile,
    }
    for (told, is_selected) in
        [(Told::Before, true), (Told::Taken, true), (Told::Meanwhile, true), (Told::Meanwhile, false)]
    {
        let mut fed = Fed::new();
        fed.queue.open(0, resumed(is_selected), None);
        fed.object(EventType::Added, "a", UID, 1);
        let start = fed.started().pop().unwrap();
        fed.queue.take(&start.key).unwrap();
        if !matches!(told, Told::Meanwhile) {
            fed.object(EventType::Deleted, "a", UID, 2);
        }
        if matches!(told, Told::Taken) {
            fed.queue.take(&start.key).unwrap();
        }
        fed.queue.stand_by();
        assert!(fed.started().is_empty());
        if matches!(told, Told::Meanwhile) {
            fed.object(EventType::Deleted, "a", UID, 2);
        }
        fed.queue.take_over();
        assert!(fed.started().is_empty());
        if matches!(told, Told::Taken) {
            // The fate of the object was not determined.
            fed.queue.mark_out_of_sight(&start.key);
        }
        assert_eq!(fed.queue.peek(&start.key, Mailbox::has_state), Some(false));
        let message = fed.queue.take(&start.key);
        assert!(matches!(message, Some(Message::Unwatched)), "{message:?}");
        assert!(fed.queue.forget(&start.key, start.memory).is_none());
        assert!(!fed.queue.knows(UID));
    }
}

/// Covers a worker that learns too late that its object is absent.
#[tokio::test]
async fn what_is_shown_again_before_a_term_begins_is_taken_over() {
    let mut fed = Fed::new();
    fed.queue.open(0, resumed(true), None);
    fed.object(EventType::Added, "a", UID, 1);
    fed.object(EventType::Deleted, "a", UID, 2);
    let start = fed.started().pop().unwrap();
    fed.queue.take(&start.key).unwrap();
    fed.queue.stand_by();
    assert!(fed.started().is_empty());
    fed.object(EventType::Added, "a", UID, 3);
    fed.queue.take_over();
    assert!(fed.started().is_empty(), "it has a worker");
    fed.queue.mark_out_of_sight(&start.key);
    let message = fed.queue.take(&start.key);
    assert!(matches!(message, Some(Message::Unwatched)), "{message:?}");
    assert!(fed.queue.forget(&start.key, start.memory).is_some());
    let message = fed.queue.take(&start.key);
    assert!(matches!(message, Some(Message::TakenOver(_))), "{message:?}");
}

/// The handlers of Pods are not called at a start, so only the note wakes the object.
#[tokio::test]
async fn a_change_that_came_while_another_instance_led_wakes_the_object_at_the_takeover() {
    for is_changed in [false, true] {
        let mut fed = Fed::new();
        fed.object(EventType::Added, "a", UID, 1);
        fed.work("1");
        fed.queue.stand_by();
        if is_changed {
            fed.object(EventType::Modified, "a", UID, 2);
        }
        assert!(fed.started().is_empty());
        fed.queue.take_over();
        assert_eq!(fed.started().len(), usize::from(is_changed));
    }
}

#[tokio::test]
async fn nothing_is_noted_for_the_next_term_of_what_is_not_watched_any_more() {
    let mut fed = Fed::new();
    fed.queue.stand_by();
    assert!(fed.started().is_empty());
    fed.object(EventType::Added, "a", UID, 1);
    let noted = |fed: &Fed| fed.queue.state.lock().standby.as_ref().map(BTreeSet::len);
    assert_eq!(noted(&fed), Some(1));
    fed.queue.close(0);
    assert_eq!(noted(&fed), Some(0));
}

/// Checks that a worker starts over after a pause, since others may have changed the object. An object that is idle while its daemons run
/// stays busy until they have ended.
#[tokio::test]
async fn a_worker_that_is_busy_through_a_whole_pause_begins_anew() {
    let daemons = Registry::new().daemon("pods", handler("d", |_| async { Ok(()) }));
    for (is_paused, rests) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut fed = Fed::new();
        fed.object(EventType::Added, "a", UID, 1);
        let mut start = fed.started().pop().unwrap();
        fed.queue.take(&start.key).unwrap();
        if rests {
            let call = RunningCalls::default().begin(
                (start.key.clone(), daemons.handlers()[0].clone()),
                Logger::default(),
                (Stopped::new(), Live::of_text(raw("a", UID, 1))),
                None,
            );
            start.memory.background_or_default().begins(call);
            assert!(fed.queue.rest(&start.key, start.memory).is_none());
        }
        if is_paused {
            fed.queue.pause();
        }
        fed.queue.close(0);
        assert_eq!(fed.started().drain(..).count(), usize::from(rests));
        fed.queue.resume();
        fed.queue.open(0, ResourceHandlers::of_pods(), None);
        for begins_anew in [is_paused, false] {
            fed.object(EventType::Listed, "a", UID, 1);
            let message = fed.queue.take(&start.key);
            let is_start = matches!(message, Some(Message::TakenOver(_)));
            assert_eq!(is_start, begins_anew, "rests: {rests}: {message:?}");
        }
        assert!(fed.started().is_empty());
    }
}
