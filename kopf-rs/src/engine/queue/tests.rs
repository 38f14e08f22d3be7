//! What the queue promises, on literal events.

use super::*;
use crate::object::resource::Resource;

const UID: &str = "0f8b6c9e-1d2a-4b3c-9d4e-5f60718293a4";

fn kind() -> Arc<Kind> {
    let resource = Resource {
        version: "v1".to_owned(),
        plural: "pods".to_owned(),
        kind: "Pod".to_owned(),
        ..Resource::default()
    };
    Arc::new(Kind::new(0, Arc::new(resource), Vec::new()))
}

fn raw(name: &str, uid: &str, version: u32) -> Raw {
    Raw::parse(&format!(
        r#"{{"metadata":{{"namespace":"ns","name":"{name}","uid":"{uid}","resourceVersion":"{version}"}}}}"#
    ))
    .unwrap()
}

fn never(_: &Kind, _: &mut Memory, _: &Raw) -> bool {
    false
}

/// A queue with one stream, 0, and the workers it has asked for.
struct Fed {
    queue: Queue,
    hired: Vec<Hired>,
}

impl Fed {
    fn new() -> Self {
        let queue = Queue::default();
        queue.open(0, kind(), None);
        Self {
            queue,
            hired: Vec::new(),
        }
    }
    fn feed(&mut self, event: WatchEvent) {
        self.queue
            .feed(0, event, never, |hired| self.hired.push(hired));
    }
    fn object(&mut self, event: EventType, name: &str, uid: &str, version: u32) {
        self.feed(WatchEvent::Object(event, raw(name, uid, version)));
    }
    /// The one worker asked for takes its mail, and rests having handled `version`.
    fn work(&mut self, version: &str) -> Mail {
        let mut hired = self.hired.pop().unwrap();
        let mail = self.queue.take(&hired.key).unwrap();
        hired.memory.version = Version::of(version);
        assert!(self.queue.rest(&hired.key, hired.memory).is_none());
        mail
    }
}

#[tokio::test]
async fn the_newest_state_wins_and_the_first_type_stays() {
    let mut fed = Fed::new();
    fed.object(EventType::Added, "a", UID, 1);
    fed.object(EventType::Modified, "a", UID, 2);
    assert_eq!(fed.hired.len(), 1);
    let mail = fed.work("2");
    assert_eq!(mail.event, EventType::Added);
    assert_eq!(mail.raw.facts().resource_version, "2");
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
    assert!(fed.hired.is_empty());
    fed.object(EventType::Modified, "a", UID, 6);
    assert_eq!(fed.hired.len(), 1);
}

#[tokio::test]
async fn what_a_listing_does_not_name_is_deleted() {
    let mut fed = Fed::new();
    fed.feed(WatchEvent::Listing);
    for (name, uid) in [("a", UID), ("b", "no-uuid")] {
        fed.object(EventType::Listed, name, uid, 1);
        fed.work("1");
    }
    fed.feed(WatchEvent::Synced);
    assert!(fed.hired.is_empty());
    fed.feed(WatchEvent::Listing);
    fed.object(EventType::Listed, "b", "no-uuid", 1);
    fed.feed(WatchEvent::Synced);
    let mail = fed.work("1");
    assert_eq!(mail.event, EventType::Deleted);
    let facts = mail.raw.facts();
    let names = (facts.namespace.as_deref(), facts.name.as_str());
    assert_eq!((names, facts.uid.as_str()), ((Some("ns"), "a"), UID));
}

#[tokio::test]
async fn a_stream_that_replaces_another_takes_its_objects_over() {
    let mut fed = Fed::new();
    fed.object(EventType::Listed, "a", UID, 1);
    fed.work("1");
    fed.queue.open(1, kind(), Some(0));
    fed.object(EventType::Modified, "a", UID, 2);
    assert!(fed.hired.is_empty(), "a closed stream is not listened to");
    let mut hired = Vec::new();
    fed.queue
        .feed(1, WatchEvent::Listing, never, |h| hired.push(h));
    fed.queue
        .feed(1, WatchEvent::Synced, never, |h| hired.push(h));
    assert_eq!(hired.len(), 1);
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
        size_of::<Key>() + size_of::<Slot>() <= 200,
        "{}",
        size_of::<Slot>()
    );
}

#[tokio::test]
async fn a_quiet_state_is_remembered_without_a_worker() {
    let mut fed = Fed::new();
    let always = |_: &Kind, _: &mut Memory, _: &Raw| true;
    let listed = WatchEvent::Object(EventType::Listed, raw("a", UID, 2));
    fed.queue
        .feed(0, listed, always, |_| panic!("a worker is started"));
    assert_eq!(fed.queue.busy(), 0);
    fed.object(EventType::Modified, "a", UID, 2);
    assert!(fed.hired.is_empty(), "an echo of what is known");
    let deleted = WatchEvent::Object(EventType::Deleted, raw("a", UID, 3));
    fed.queue
        .feed(0, deleted, always, |hired| fed.hired.push(hired));
    assert_eq!(fed.hired.len(), 1);
}
