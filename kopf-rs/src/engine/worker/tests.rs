//! Tests the size of a worker, and the messages that it leaves to the next one.

use serde_json::json;
use tokio::sync::Notify;

use super::*;
use crate::cluster::fake::{Answer, Fake};
use crate::cluster::fence::Fence;
use crate::cluster::watch::WatchEvent;
use crate::engine::Engine;
use crate::engine::children::ChildApplier;
use crate::engine::follower::{EngineWatch, Follower};
use crate::engine::mailbox::ReturnedCall;
use crate::engine::noted_calls::NotedCalls;
use crate::engine::owners::OwnerNews;
use crate::engine::shared::{Limits, Setup};
use crate::engine::targets::Surroundings;
use crate::handler::extensions::Extensions;
use crate::handler::live::Live;
use crate::handler::registry::Registry;
use crate::handler::registry::callback::handler;
use crate::handler::stopped::Stopped;
use crate::handler::testing;
use crate::object::collection::Collection;
use crate::object::key::KeySet;
use crate::object::lease::{LeaseTimes, Term};
use crate::object::resource::Resource;
use crate::reaction::input::Policy;
use crate::rt::clock::Clock;
use crate::state::Persistence;

/// Returns the size of the value that the function returns.
fn size_made<A, B, F>(_: impl FnOnce(A, B) -> F) -> usize {
    size_of::<F>()
}

/// Guards memory: after a burst of failures, thousands of workers wait for their next attempt, so the state of a cycle is allocated per
/// cycle.
#[test]
fn a_worker_that_waits_is_small() {
    let size = size_made(work);
    assert!(size <= 1536, "{size} bytes");
}

/// Returns the setup for a server that never answers.
fn setup() -> Setup {
    Setup {
        triggers: Arc::default(),
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
            handover: Duration::from_secs(2),
        },
        extensions: Arc::new(Extensions::default()),
        handlers: None,
        calls: None,
        last_lines: None,
        notes: Arc::new(NotedCalls::none()),
        memo: Memo::default(),
        once: false,
        meter: None,
    }
}

/// Returns the state of an engine that starts no workers.
fn shared() -> Arc<Shared> {
    Arc::new(Shared::new(setup()))
}

fn never(_: &ResourceHandlers, _: &mut Memory, _: &Raw) -> bool {
    false
}

const POD: &str =
    r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","uid":"u","resourceVersion":"1"}}"#;

fn pod() -> Raw {
    Raw::parse(POD).unwrap()
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

/// A watch runs as a task of its own, so some of its events may come late.
#[tokio::test(start_paused = true)]
async fn an_event_of_a_watch_that_is_over_concerns_nobody() {
    let engine = Engine::new(setup());
    let reconciler = handler("r", |_| async { Ok(()) });
    let reconciler = reconciler.watches("pods", |_| Some("owner".to_owned()));
    let registry = Registry::new().reconcile("kopfexamples", reconciler);
    let of = Arc::new(Collection { resource: kind().resource.clone(), namespace: None });
    let watch = |stream| {
        let follower = Follower::Targets(registry.handlers().to_vec());
        EngineWatch::new(stream, of.clone(), follower)
    };
    let object = || WatchEvent::Object(EventType::Added, pod());
    let synced = || WatchEvent::Synced(KeySet::default());
    let concerned = |stream| {
        let with = Surroundings { clock: Clock::start(), extensions: &Arc::default() };
        engine.0.targets.on_event(stream, &synced(), &with).len()
    };
    let watches = [watch(0), watch(1), watch(2)];
    engine.open(&watches[0], None);
    engine.feed(&watches[0], object());
    assert_eq!(concerned(0), 1);
    engine.open(&watches[1], Some(&watches[0]));
    engine.feed(&watches[0], object());
    assert_eq!(concerned(1), 0, "it was replaced");
    engine.feed(&watches[1], object());
    engine.close(&watches[1], false);
    engine.open(&watches[2], None);
    engine.feed(&watches[1], object());
    assert_eq!(concerned(2), 0, "it was closed");
    engine.feed(&watches[2], object());
    assert_eq!(concerned(2), 1);
}

/// Their messages may be outcomes that have to be written.
#[tokio::test(start_paused = true)]
async fn workers_that_were_requested_just_before_the_end_start() {
    let engine = Engine::new(setup());
    let queue = &engine.0.queue;
    queue.open(0, kind(), None);
    queue.feed(0, WatchEvent::Object(EventType::Added, pod()), never);
    engine.drain().await;
    assert!(queue.take_starts().is_empty());
}

/// Returns the end of a daemon's call for the object `raw`.
fn returned(raw: Raw, kind: &Arc<ResourceHandlers>) -> Message {
    let registry = Registry::new().daemon("pods", handler("d", |_| async { Ok(()) }));
    let returned = ReturnedCall {
        number: 1,
        call: testing::cause(&registry.handlers()[0], json!({"metadata": {"name": "a"}})),
        outcome: None,
        patch: Patch::new(),
        origin: Snapshot { raw, kind: kind.clone() },
    };
    Message::Returned(vec![returned])
}

/// If workers run on several threads, a message may arrive between the moment when the object becomes idle and the end of its worker.
#[tokio::test(start_paused = true)]
async fn what_comes_in_once_the_object_rests_is_left_to_its_next_worker() {
    let (shared, kind) = (shared(), kind());
    shared.queue.open(0, kind.clone(), None);
    let raw = pod();
    let event = WatchEvent::Object(EventType::Added, raw.clone());
    let queue = &shared.queue;
    queue.feed(0, event, never);
    let start = queue.take_starts().pop().unwrap();
    let key = start.key.clone();
    let origin = Snapshot { raw: raw.clone(), kind: kind.clone() };
    let mut worker = Worker::new(shared.clone(), start, (origin, true));
    loop {
        match worker.next().await {
            Next::Turn(turn) => worker.turn(turn).await,
            Next::Stop => panic!("nobody has stopped the operator"),
            Next::Released => break,
        }
    }
    queue.post(&key, returned(raw, &kind));
    assert_eq!(queue.take_starts().len(), 1);
    drop(worker);
    assert_eq!(queue.take_returned(&key).len(), 1);
}

/// Programs of `main!` call handlers on a separate runtime, where the end of an apply may wake the owner of the child.
#[test]
fn a_worker_runs_where_its_engine_does_whoever_wakes_its_object() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().start_paused(true).build().unwrap()
    };
    let home = runtime();
    let kind = kind();
    let engine = home.block_on(async {
        let engine = Engine::new(setup());
        engine.0.queue.open(0, kind.clone(), None);
        let listed = WatchEvent::Object(EventType::Listed, pod());
        let queue = &engine.0.queue;
        queue.feed(0, listed, |_, _, _| true);
        assert_eq!(queue.busy(), 0, "it rests");
        engine
    });
    let elsewhere = runtime();
    let news = OwnerNews::LeftOver("u".to_owned());
    elsewhere.block_on(async { engine.0.owners.tell(news, &kind.resource) });
    drop(elsewhere);
    assert_eq!(engine.0.queue.busy(), 1);
    home.block_on(async {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    });
    assert_eq!(engine.0.queue.busy(), 0, "it was dropped with the other runtime");
}

/// Checks that daemons get their time to end.
#[tokio::test(start_paused = true)]
async fn what_runs_ends_stage_by_stage_where_the_watch_is_closed_before_the_worker_begins() {
    let (shared, kind) = (shared(), kind());
    shared.queue.open(0, kind.clone(), None);
    let event = WatchEvent::Object(EventType::Added, pod());
    let queue = &shared.queue;
    queue.feed(0, event, never);
    let mut start = queue.take_starts().pop().unwrap();
    let daemon = handler("d", |_| async { Ok(()) }).cancellation_backoff(5);
    let registry = Registry::new().daemon("pods", daemon);
    let stopped = Stopped::new();
    let call = shared.running.begin(
        (start.key.clone(), registry.handlers()[0].clone()),
        Logger::default(),
        (stopped.clone(), Live::of_text(pod())),
        None,
    );
    start.memory.background_or_default().begins(call.clone());
    queue.close(0);
    assert!(queue.take_starts().is_empty());
    let working = tokio::spawn(work(shared.clone(), start));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(stopped.is_set(), "it is told");
    assert!(!call.cancelled.is_cancelled(), "it may end by itself");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(call.cancelled.is_cancelled(), "it is cut off");
    working.abort();
}

/// Opens the gate for the term with this number, which begins now.
fn grant(fence: &Fence, number: u64) {
    let times = LeaseTimes {
        duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry: Duration::from_secs(2),
    };
    let stamp = fence.now();
    fence.set(Some(Term { number, stamp, times }));
}

/// A write of this worker would belong to a later term, whose state it does not know.
#[tokio::test]
async fn a_worker_that_could_not_begin_belongs_to_the_term_in_which_it_was_started() {
    let clock = Clock::start();
    let fence = Fence::closed(clock, None);
    let mut setup = setup();
    setup.cluster = setup.cluster.fenced(Some(fence.clone()));
    setup.limits.workers = Some(1);
    let shared = Arc::new(Shared::new(setup));
    let _taken = shared.place().await;
    let queue = &shared.queue;
    queue.open(0, kind(), None);
    let event = WatchEvent::Object(EventType::Added, pod());
    queue.feed(0, event, never);
    let WorkerStart { key, wake, .. } = queue.take_starts().pop().unwrap();
    grant(&fence, 1);
    let about = Arc::new(about(&kind().resource, pod().facts()));
    let mut context = WorkerContext::new(shared.clone(), key, about, wake);
    queue.close(0);
    assert!(!context.begin().await);
    grant(&fence, 2);
    assert_eq!(context.term(), Some(1));
}

/// A process that was frozen runs its due work before it notices that another instance leads.
#[tokio::test(start_paused = true)]
async fn no_call_begins_after_the_term_although_nobody_has_noticed_its_end() {
    let called = Arc::new(Notify::new());
    let [creation, timer] = ["c", "t"].map(|id| {
        let calls = called.clone();
        handler(id, move |_| {
            calls.notify_one();
            async { Ok(()) }
        })
    });
    for registry in
        [Registry::new().on_create("pods", creation), Registry::new().timer("pods", timer.interval(1.0))]
    {
        let mut setup = setup();
        let fence = Fence::closed(setup.clock, None);
        let answers = (0..9).map(|_| Answer::new(200, POD));
        setup.cluster = Fake::new(answers).cluster().fenced(Some(fence.clone()));
        let shared = Arc::new(Shared::new(setup));
        let handlers = registry.handlers().to_vec();
        let id = handlers[0].id.clone();
        let kind = Arc::new(ResourceHandlers::new(0, kind().resource.clone(), handlers));
        shared.queue.open(0, kind, None);
        let event = WatchEvent::Object(EventType::Added, pod());
        shared.queue.feed(0, event, never);
        grant(&fence, 1);
        tokio::time::advance(Duration::from_secs(11)).await;
        let start = shared.queue.take_starts().pop().unwrap();
        let working = tokio::spawn(async move {
            // As the engine does, also for an object at rest.
            let mut starts = vec![start];
            let woken = async {
                loop {
                    for start in starts.drain(..) {
                        work(shared.clone(), start).await;
                    }
                    shared.queue.ready().await;
                    starts = shared.queue.take_starts();
                }
            };
            tokio::join!(shared.queue.wake_due(), woken)
        });
        let patience = Duration::from_secs(5);
        let waited = tokio::time::timeout(patience, called.notified()).await;
        assert!(waited.is_err(), "{id} is called after the term");
        grant(&fence, 1);
        // The pauses between refused reads of the object have grown meanwhile.
        let waited = tokio::time::timeout(LONG, called.notified()).await;
        assert!(waited.is_ok(), "{id} is not called in the renewed term");
        working.abort();
    }
}

/// No other event would report an object that has not changed meanwhile.
#[tokio::test(start_paused = true)]
async fn an_object_that_must_not_be_read_is_handled_after_a_pause_as_the_watch_shows_it() {
    let mut setup = setup();
    let refusals = (0..20).map(|_| Answer::refusal(403, "no"));
    setup.cluster = Fake::new(refusals).cluster();
    let shared = Arc::new(Shared::new(setup));
    let called = Arc::new(Notify::new());
    let calls = called.clone();
    let creation = handler("c", move |_| {
        calls.notify_one();
        async { Ok(()) }
    });
    let registry = Registry::new().on_create("pods", creation);
    let handlers = registry.handlers().to_vec();
    let kind = Arc::new(ResourceHandlers::new(0, kind().resource.clone(), handlers));
    let queue = &shared.queue;
    queue.open(0, kind.clone(), None);
    let event = WatchEvent::Object(EventType::Added, pod());
    queue.feed(0, event, never);
    let mut start = queue.take_starts().pop().unwrap();
    // A handler waits for its next attempt.
    assert!(queue.take(&start.key).is_some());
    start.memory.version = Version::of("1");
    queue.pause();
    queue.close(0);
    queue.resume();
    queue.open(0, kind, None);
    let event = WatchEvent::Object(EventType::Listed, pod());
    queue.feed(0, event, never);
    assert!(queue.take_starts().is_empty(), "it has a worker");
    let working = tokio::spawn(work(shared.clone(), start));
    let waited = tokio::time::timeout(LONG, called.notified()).await;
    assert!(waited.is_ok(), "it stands still");
    working.abort();
}
