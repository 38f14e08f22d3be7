use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::cluster::fake::{Answer, Fake};
use crate::handler::event_sink::{EventSink, PostingLevel};
use crate::object::posted_event::{EventKind, PostedEvent, Regarding, Reporter};
use crate::object::reference::Reference;

const PATH: &str = "/apis/events.k8s.io/v1/namespaces/ns/events";
const DENIAL: &str = r#"events.events.k8s.io is forbidden: User "op" cannot create resource "events" in API group "events.k8s.io" in the namespace "ns""#;

fn event(object: &str, note: &str) -> PostedEvent {
    let regarding = Regarding {
        object: Arc::new(Reference {
            api_version: "v1".into(),
            kind: "Pod".into(),
            name: object.into(),
            namespace: Some("ns".into()),
            uid: object.into(),
        }),
        resource_version: None,
    };
    PostedEvent::new(regarding, EventKind::Normal, ("act", "Reason"), note)
}

fn started(fake: &Fake) -> (EventPosting, Arc<dyn EventSink>) {
    let posting = EventPosting::new(Clock::start(), None);
    let sink = posting.sink().0;
    let setup = PosterSetup {
        cluster: fake.cluster(),
        reporter: Reporter { controller: "tester".into(), instance: "here".into() },
        prefix: "e-".into(),
        backoff: (Duration::from_secs(1), Duration::from_secs(30)),
    };
    let gates = PostingGates { level: PostingLevel::Info, lines: false };
    posting.start(gates, setup);
    (posting, sink)
}

/// Returns the method of each request, and its note or its count.
fn said(fake: &Fake) -> Vec<(String, Value)> {
    let said = fake.seen().into_iter().map(|seen| {
        let body: Value = serde_json::from_str(&seen.body).unwrap();
        let (method, target) = seen.line.split_once(' ').unwrap();
        assert!(target.starts_with(PATH), "{target}");
        let what = match method {
            "POST" => body["note"].clone(),
            _ => body["series"]["count"].clone(),
        };
        (method.to_owned(), what)
    });
    said.collect()
}

fn post(note: &str) -> (String, Value) {
    ("POST".to_owned(), json!(note))
}

fn count(count: u32) -> (String, Value) {
    ("PATCH".to_owned(), json!(count))
}

#[tokio::test(start_paused = true)]
async fn the_same_event_is_posted_once_and_counted() {
    let fake = Fake::new(vec![Answer::new(200, "{}"); 5]);
    let (posting, sink) = started(&fake);
    for _ in 0..100 {
        sink.post(event("a", "one"));
    }
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(said(&fake), [post("one"), count(100)]);
    sink.post(event("a", "one"));
    sink.post(event("b", "one"));
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(said(&fake)[2..], [post("one")]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(said(&fake)[3..], [count(101)]);
    // The shutdown does not wait for the pause.
    sink.post(event("a", "one"));
    posting.finish(Duration::from_secs(2)).await;
    assert_eq!(said(&fake)[4..], [count(102)]);
    let name = |line: &str| {
        let rest = line.split("/events/").nth(1).map(str::to_owned);
        rest.and_then(|it| it.split('?').next().map(str::to_owned))
    };
    let posted: Value = serde_json::from_str(&fake.seen()[0].body).unwrap();
    let counted = name(&fake.lines()[1]);
    assert_eq!(posted["metadata"]["name"].as_str(), counted.as_deref());
}

#[tokio::test(start_paused = true)]
async fn what_fails_for_a_while_is_tried_again_and_an_end_does_not_wait_long() {
    let busy = || Answer::refusal(503, "later");
    let fake = Fake::new([busy(), Answer::none(), Answer::new(201, "{}")]);
    let (posting, sink) = started(&fake);
    sink.post(event("a", "one"));
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(said(&fake), vec![post("one"); 3]);
    // From now on the server does not answer.
    sink.post(event("a", "two"));
    sink.post(event("a", "three"));
    let before = tokio::time::Instant::now();
    posting.finish(Duration::from_secs(2)).await;
    assert_eq!(before.elapsed(), Duration::from_secs(2));
    assert_eq!(posting.queue.left(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_is_forbidden_is_not_asked_for_again_for_a_minute() {
    let denied = || Answer::refusal(403, DENIAL);
    let fake = Fake::new([denied(), denied(), Answer::new(201, "{}")]);
    let (posting, sink) = started(&fake);
    for (second, requests) in [(0, 1), (30, 1), (29, 1), (2, 2), (61, 3)] {
        tokio::time::sleep(Duration::from_secs(second)).await;
        sink.post(event("a", "one"));
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(fake.seen().len(), requests, "{second}");
    }
    posting.finish(Duration::from_secs(2)).await;
}

#[tokio::test(start_paused = true)]
async fn an_event_that_was_deleted_is_posted_anew() {
    let fake = Fake::new([Answer::new(201, "{}"), Answer::refusal(404, "not there"), Answer::new(201, "{}")]);
    let (posting, sink) = started(&fake);
    for _ in 0..3 {
        sink.post(event("a", "one"));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(said(&fake), [post("one"), count(2), post("one")]);
    posting.finish(Duration::from_secs(2)).await;
}

#[tokio::test(start_paused = true)]
async fn the_queue_is_bounded_and_events_about_events_are_left_out() {
    let fake = Fake::new([Answer::stuck()]);
    let (posting, sink) = started(&fake);
    for object in 0..1100 {
        sink.post(event(&object.to_string(), "one"));
    }
    let mut of_event = event("x", "one");
    of_event.regarding.object =
        Arc::new(Reference { api_version: "v1".into(), kind: "Event".into(), ..Reference::default() });
    sink.post(of_event);
    assert_eq!(posting.queue.left(), 1000);
    posting.finish(Duration::from_secs(2)).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_taken_where_events_are_off() {
    let posting = EventPosting::new(Clock::start(), None);
    let sink = posting.sink().0;
    assert!(sink.gates().is_none() && !sink.takes(PostingLevel::Error));
    posting.finish(Duration::from_secs(2)).await;
}
