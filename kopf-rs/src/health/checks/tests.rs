//! Tests checks for given facts.

use std::sync::Arc;

use super::*;
use crate::engine::memory::Version;
use crate::engine::queue::facts::QueuedObject;
use crate::health::board::{Bounds, Trouble};
use crate::object::collection::Collection;
use crate::object::resource::Resource;

const DEADLINE: Duration = Duration::from_secs(70);

fn watch(namespace: &str, heard: Instant) -> WatchFacts {
    WatchFacts {
        collection: Arc::new(Collection {
            resource: Arc::new(Resource {
                plural: "myapps".to_owned(),
                version: "v1".to_owned(),
                ..Resource::default()
            }),
            namespace: Some(namespace.to_owned()),
        }),
        deadline: DEADLINE,
        heard,
        has_bookmarks: true,
        is_silent: false,
        listing: Listing::Complete,
        trouble: None,
    }
}

fn facts(watches: Vec<WatchFacts>) -> Facts {
    Facts {
        operator: OperatorFacts {
            bounds: Bounds {
                probes: Duration::from_secs(5),
                beat: Duration::from_secs(10),
                late: Duration::from_secs(600),
                stuck: Duration::from_secs(3600),
                status: true,
            },
            phase: Phase::Serving,
            reviews: Reviews::SentElsewhere,
            rules: None,
            is_paused: false,
            lease: None,
            discovered: true,
            knows_namespaces: true,
            unserved: Vec::new(),
        },
        watches,
        counts: BTreeMap::new(),
        indices: Vec::new(),
        queue: QueueFacts::default(),
        calls: Vec::new(),
    }
}

fn failing(checks: &[Check]) -> Vec<String> {
    let failing = checks.iter().filter_map(|check| {
        let trouble = check.trouble.as_ref()?;
        Some(format!("{}: {trouble}", check.name))
    });
    failing.collect()
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_stale_after_two_deadlines_unless_its_trouble_is_known() {
    let heard = Instant::now();
    let mut facts = facts(vec![watch("a", heard), watch("b", heard + DEADLINE)]);
    let at = |seconds| heard + Duration::from_secs(seconds);
    assert_eq!(failing(&facts.live(at(140))), Vec::<String>::new());
    let stale = "watches: nothing has come from the watch of myapps.v1 for 141 seconds, and a stream ends after 70 seconds of silence";
    assert_eq!(failing(&facts.live(at(141))), [stale]);
    facts.watches[0].trouble =
        Some(Trouble { reason: "forbidden".to_owned(), error: "forbidden: no".to_owned() });
    assert_eq!(failing(&facts.live(at(141))), Vec::<String>::new());
    assert_eq!(failing(&facts.ready(at(141))), ["kind/myapps.v1: forbidden (1 of 2 namespaces)"]);
    facts.watches.truncate(1);
    facts.watches[0].trouble = None;
    // Without bookmarks, the server would not report that there are no changes.
    facts.watches[0].has_bookmarks = false;
    assert_eq!(failing(&facts.live(at(100_000))), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn the_obstacle_to_a_kinds_readiness_is_named() {
    let now = Instant::now();
    let mut facts = facts(vec![watch("a", now)]);
    assert_eq!(failing(&facts.ready(now)), Vec::<String>::new());
    facts.watches[0].listing = Listing::Incomplete;
    assert_eq!(failing(&facts.ready(now)), ["kind/myapps.v1: listing"]);
    facts.watches[0].is_silent = true;
    assert_eq!(failing(&facts.ready(now)), ["kind/myapps.v1: silent"]);
    facts.watches.clear();
    facts.operator.unserved = vec![("gadgets".to_owned(), "not served")];
    assert_eq!(failing(&facts.ready(now)), ["kind/gadgets: not served"]);
    facts.operator.discovered = false;
    facts.operator.unserved.clear();
    assert_eq!(failing(&facts.ready(now)), ["discovery: the cluster has not listed its resources yet"]);
    facts.operator.phase = Phase::Starting;
    let startup = ["startup: startup handlers are called"];
    assert_eq!(failing(&facts.ready(now)), startup);
    facts.operator.phase = Phase::Stopping;
    assert_eq!(failing(&facts.ready(now)), ["shutdown: the operator stops"]);
    assert_eq!(failing(&facts.live(now)), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn long_waits_are_reported_with_their_reason() {
    let since = Instant::now();
    let mut facts = facts(Vec::new());
    facts.queue.waiting = 3;
    facts.queue.oldest = Some(Waiting {
        object: QueuedObject { resource: "myapps.v1".to_owned(), name: "default/a".to_owned() },
        uid: "u".to_owned(),
        since,
        is_held_up: false,
    });
    facts.queue.stuck = facts.queue.oldest.clone();
    let at = |seconds| since + Duration::from_secs(seconds);
    assert_eq!(failing(&facts.ready(at(600))), Vec::<String>::new());
    let waits = "queue: a change of an object of myapps.v1 has waited for 601 seconds: ";
    assert_eq!(failing(&facts.ready(at(601))), [format!("{waits}3 objects wait")]);
    facts.calls.push(CallInFlight {
        handler: "slow_fn".into(),
        kind: "KopfExample.kopf.dev".to_owned(),
        object: "default/a".to_owned(),
        uid: "u".to_owned(),
        version: Version::of("1"),
        since,
    });
    let running = "its handler 'slow_fn' has been running for 601 seconds";
    assert_eq!(failing(&facts.ready(at(601))), [format!("{waits}{running}")]);
    assert_eq!(failing(&facts.live(at(3600))), Vec::<String>::new());
    assert_eq!(failing(&facts.live(at(3601))).len(), 1);
}

#[test]
fn answers_read_as_those_of_kubernetes() {
    let bad = [Check::new("startup", None), Check::new("kind/pods.v1", Some("forbidden".to_owned()))];
    let (good, none) = (&bad[..1], Query::default());
    let text = |checks: &[Check], asked: &Query| answer("readyz", checks, asked).text;
    assert_eq!(text(good, &none), "ok");
    let verbose = Query::parse("verbose");
    assert_eq!(text(good, &verbose), "[+]startup ok\nreadyz check passed\n");
    assert_eq!(text(&bad, &none), "[+]startup ok\n[-]kind/pods.v1 failed: forbidden\nreadyz check failed\n");
    let without = Query::parse("verbose=1&exclude=kind/pods.v1&x");
    assert_eq!(text(&bad, &without), "[+]startup ok\n[+]kind/pods.v1 excluded: ok\nreadyz check passed\n");
}

#[tokio::test(start_paused = true)]
async fn an_unmaintained_lease_fails_liveness() {
    let began = Instant::now();
    let of = |beat| {
        let mut facts = facts(Vec::new());
        facts.operator.lease = Some(LeaseFacts {
            lease: "team/op".to_owned(),
            identity: "pod_a".to_owned(),
            state: "lapsed",
            holder: None,
            transitions: 0,
            terms: 1,
            renewed: None,
            beat,
            lacks: None,
        });
        facts
    };
    let kept = of(Some(began));
    let later = |seconds| began + Duration::from_secs(seconds);
    // A failed renewal is not this instance's fault.
    assert_eq!(failing(&kept.live(later(9))), [""; 0]);
    assert_eq!(
        failing(&kept.live(later(12))),
        ["lease: the task that renews the Lease team/op has not run for 12 seconds"]
    );
    assert_eq!(failing(&of(None).live(later(3600))), [""; 0]);
}

#[test]
fn an_endpoint_for_webhooks_is_ready_whatever_keeps_the_operator_from_its_work() {
    let mut facts = facts(Vec::new());
    facts.operator.unserved = vec![("pods".to_owned(), "forbidden")];
    assert_eq!(failing(&facts.webhooks()), ["webhooks: the endpoint does not listen yet"]);
    facts.operator.reviews = Reviews::Answered;
    assert!(!failing(&facts.ready(Instant::now())).is_empty());
    assert!(failing(&facts.webhooks()).is_empty());
    (facts.operator.phase, facts.operator.reviews) = (Phase::Stopping, Reviews::SentElsewhere);
    assert_eq!(failing(&facts.webhooks()).len(), 1);
}
