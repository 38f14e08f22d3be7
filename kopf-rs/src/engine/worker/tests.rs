//! How large a worker is, and what it leaves to the next one.

use serde_json::json;

use super::*;
use crate::cluster::fake::Fake;
use crate::cluster::watch::WatchEvent;
use crate::engine::children::ChildApplier;
use crate::engine::mailbox::ReturnedCall;
use crate::engine::shared::{Limits, Setup};
use crate::handler::extensions::Extensions;
use crate::handler::registry::Registry;
use crate::handler::registry::callback::handler;
use crate::handler::testing;
use crate::object::resource::Resource;
use crate::reaction::input::Policy;
use crate::rt::clock::Clock;
use crate::state::Persistence;

/// The size of what `make` returns.
fn size_made<A, B, F>(_: impl FnOnce(A, B) -> F) -> usize {
    size_of::<F>()
}

/// A burst of failures has thousands of workers that wait for their next attempt: what a turn needs is made for the turn.
#[test]
fn a_worker_that_waits_is_small() {
    let size = size_made(work);
    assert!(size <= 1536, "{size} bytes");
}

/// An engine of a server that never answers, which starts no workers.
fn shared() -> Arc<Shared> {
    let setup = Setup {
        children: Arc::new(ChildApplier::new("tester.kopf.rs".to_owned(), Vec::new())),
        cluster: Fake::new([]).cluster(),
        clock: Clock::start(),
        persistence: Persistence::named("op"),
        policy: Policy::default(),
        limits: Limits {
            reconciles: 1,
            workers: None,
            blocking: 1,
            backoff: (Duration::from_secs(1), Duration::from_secs(60)),
            exit: Duration::from_secs(2),
        },
        extensions: Arc::new(Extensions::default()),
        handlers: None,
        calls: None,
        last_errors: None,
        notes: None,
        memo: Memo::default(),
        once: false,
    };
    Arc::new(Shared::new(setup, |_, _| {}))
}

fn kind() -> Arc<ResourceHandlers> {
    let resource = Resource {
        version: "v1".to_owned(),
        plural: "pods".to_owned(),
        kind: "Pod".to_owned(),
        ..Resource::default()
    };
    Arc::new(ResourceHandlers::new(0, Arc::new(resource), Vec::new()))
}

/// The end of a call of a daemon, for the object `raw`.
fn returned(raw: Raw, kind: &Arc<ResourceHandlers>) -> Letter {
    let registry = Registry::new().daemon("pods", handler("d", |_| async { Ok(()) }));
    let returned = ReturnedCall {
        number: 1,
        call: testing::cause(&registry.handlers()[0], json!({"metadata": {"name": "a"}})),
        outcome: None,
        patch: Patch::new(),
        origin: Origin {
            raw,
            kind: kind.clone(),
        },
    };
    Letter::Returned(vec![returned])
}

/// Where workers run on several threads, a letter may come in between the moment when the object rests and the end of its worker.
#[tokio::test(start_paused = true)]
async fn what_comes_in_once_the_object_rests_is_left_to_its_next_worker() {
    let (shared, kind) = (shared(), kind());
    shared.queue.open(0, kind.clone(), None);
    let text = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","uid":"u","resourceVersion":"1"}}"#;
    let raw = Raw::parse(text).unwrap();
    let mut started = Vec::new();
    let event = WatchEvent::Object(EventType::Added, raw.clone());
    let queue = &shared.queue;
    queue.feed(0, event, |_, _, _| false, |start| started.push(start));
    let start = started.pop().unwrap();
    let key = start.key.clone();
    let origin = Origin {
        raw: raw.clone(),
        kind: kind.clone(),
    };
    let mut worker = Worker::new(shared.clone(), start, (origin, true));
    loop {
        let next = worker.next().await;
        if matches!(next, Next::Released) {
            assert!(queue.post(&key, returned(raw.clone(), &kind)).is_some());
        }
        if !worker.go_on(next).await {
            break;
        }
    }
    assert_eq!(queue.take_returned(&key).len(), 1);
}
