//! Checks indices over random histories: creations, changes, labels, deletions, gaps followed by listings, answers to writes, replaced
//! watches, and functions that end late and in any order.
//!
//! After all events are delivered and all functions have ended, the indices must contain exactly what the existing objects contribute.
//! `KOPF_RS_SEED` replays a history, `KOPF_RS_HISTORIES` sets the number of histories.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::cluster::error::ClusterError;
use crate::cluster::watch::Listings;
use crate::engine::indexing::late_readers::IndexReader;
use crate::engine::object_table::Shown;
use crate::handler::cause::{Cause, CauseContext};
use crate::handler::error::{HandlerError, PermanentError};
use crate::handler::filter::PRESENT;
use crate::handler::index::Index;
use crate::handler::indexer::indexer;
use crate::handler::outcome::Outcome;
use crate::handler::registry::Registry;
use crate::handler::subject::SubjectObject;
use crate::handler::testing::call;
use crate::object::key::KeySet;
use crate::object::resource::Resource;
use crate::reaction::indexing::IndexLook;
use crate::reaction::judge::Judge;
use crate::rt::rng::Rng;

type Content = BTreeMap<String, Vec<String>>;

/// The objects of the server.
#[derive(Clone, Default)]
struct Server {
    objects: BTreeMap<String, Value>,
    version: u64,
    /// Events that the watch has not delivered yet.
    events: VecDeque<(EventType, Value)>,
}

struct History {
    server: Server,
    objects: IndexedObjects,
    by_key: Index<String, String>,
    names: Index<(), String>,
    kinds: [Arc<ResourceHandlers>; 2],
    kind: usize,
    stream: StreamId,
    /// Examinations that have not ended.
    looks: Vec<IndexRun>,
    now: Instant,
    rng: Rng,
}

/// Returns the keys that an object names; fails for the key "bad".
fn by_key(cause: &Cause) -> Result<Vec<(String, String)>, HandlerError> {
    let keys: Vec<String> = cause.read("spec.keys")?;
    if keys.iter().any(|key| key == "bad") {
        return Err(PermanentError::new("no").into());
    }
    let name = cause.name().to_owned();
    Ok(keys.into_iter().map(|key| (key, name.clone())).collect())
}

fn registry() -> [Registry; 2] {
    let labelled = || indexer("by_key", by_key).label("on", PRESENT);
    let names = indexer("names", |cause| ((), cause.name().to_owned()));
    let both = Registry::new().index("pods", labelled()).index("pods", names);
    // The second version of the kind has no index of names.
    [both, Registry::new().index("pods", labelled())]
}

impl History {
    fn new(seed: u64) -> Self {
        let registries = registry();
        let indices = registries[0].indices();
        let typed = |name: &str| -> &dyn Any { indices.get(name).unwrap() };
        let by_key = typed("by_key").downcast_ref::<Index<_, _>>().cloned();
        let names = typed("names").downcast_ref::<Index<_, _>>().cloned();
        let kind = |at: usize| {
            let resource =
                Resource { version: format!("v{at}"), plural: "pods".to_owned(), ..Resource::default() };
            let handlers = registries[at].handlers().to_vec();
            Arc::new(ResourceHandlers::new(0, Arc::new(resource), handlers))
        };
        let kinds = [kind(0), kind(1)];
        let mut objects = IndexedObjects::new(indices.clone(), Memo::default());
        objects.open(0, &kinds[0], None);
        let mut history = Self {
            server: Server::default(),
            objects,
            by_key: by_key.unwrap(),
            names: names.unwrap(),
            kinds,
            kind: 0,
            stream: 0,
            looks: Vec::new(),
            now: Instant::now(),
            rng: Rng::seeded(seed),
        };
        history.list();
        history
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a small number"
    )]
    fn roll(&self, sides: usize) -> usize {
        (self.rng.next_f64() * sides as f64) as usize
    }

    fn tell(&mut self, event: &WatchEvent) {
        self.now += Duration::from_millis(1);
        let run = self.objects.on_event(self.stream, event, self.now);
        self.looks.extend(run);
    }

    /// Delivers a listing, as after a gap.
    fn list(&mut self) {
        self.server.events.clear();
        self.now += Duration::from_millis(1);
        let objects = self.server.objects.clone().into_values();
        let objects = objects.map(|object| WatchEvent::Object(EventType::Listed, raw(&object)));
        let begin = [WatchEvent::Listing(self.now)].into_iter();
        let of = self.kinds[self.kind].resource.clone();
        let mut listings = Listings::default();
        for event in begin.chain(objects).chain([WatchEvent::Synced(KeySet::default())]) {
            self.tell(&listings.complete(&of, event));
        }
    }

    fn deliver(&mut self) -> bool {
        let Some((event, object)) = self.server.events.pop_front() else {
            return false;
        };
        self.tell(&WatchEvent::Object(event, raw(&object)));
        true
    }

    /// Ends one of the examinations in progress. Returns `false` if there is none.
    fn end(&mut self) -> bool {
        if self.looks.is_empty() {
            return false;
        }
        let at = self.roll(self.looks.len());
        let mut run = self.looks.swap_remove(at);
        let effects = effects(&mut run);
        let next = self.objects.ended(run, effects);
        self.looks.extend(next);
        true
    }

    fn step(&mut self) {
        let name = format!("n{}", self.roll(4));
        match self.roll(16) {
            0..=3 => {
                let (keys, on) = (self.keys(), self.roll(3) > 0);
                self.server.put(&name, &keys, on);
            }
            4 => self.server.delete(&name),
            5 => self.list(),
            6 => {
                // The answer to an own write arrives before the event of the watch.
                if self.server.objects.contains_key(&name) {
                    let keys = self.keys();
                    let written = raw(&self.server.put(&name, &keys, true));
                    let key = Key::of(&self.kinds[0].resource, written.facts());
                    self.now += Duration::from_millis(1);
                    let run = self.objects.answered(&key, &written, self.now);
                    self.looks.extend(run);
                }
            }
            7 => self.replace(),
            8 => {
                self.objects.close(self.stream, |_| false);
                assert!(self.by_key.is_empty() && self.names.is_empty());
                self.stream += 1;
                self.objects.open(self.stream, &self.kinds[self.kind], None);
                self.list();
            }
            9..=11 => {
                self.end();
            }
            _ => {
                self.deliver();
            }
        }
    }

    /// Replaces the watch by one of the same version of the kind or of the other one.
    fn replace(&mut self) {
        let former = self.stream;
        self.stream += 1;
        self.kind = self.roll(2);
        let kind = &self.kinds[self.kind];
        self.objects.open(self.stream, kind, Some(former));
        self.list();
    }

    fn keys(&self) -> Vec<String> {
        let keys = (0..self.roll(4)).map(|_| format!("k{}", self.roll(5)));
        keys.collect()
    }

    fn check(&mut self) {
        while self.deliver() || self.end() {}
        let found = self.by_key.iter().map(|(key, names)| (key, names.to_vec()));
        let mut found: Content = found.collect();
        for names in found.values_mut() {
            names.sort();
        }
        let mut expected = Content::new();
        for (name, object) in &self.server.objects {
            if object["metadata"]["labels"]["on"].is_null() {
                continue;
            }
            let keys: Vec<String> = serde_json::from_value(object["spec"]["keys"].clone()).unwrap();
            for key in keys {
                let names = expected.entry(key).or_default();
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
        }
        assert_eq!(found, expected);
        let mut names = self.names.get(&()).to_vec();
        names.sort();
        let all: Vec<_> = self.server.objects.keys().cloned().collect();
        assert_eq!(names, if self.kind == 0 { all } else { Vec::new() });
        assert_eq!(self.objects.unindexed, 0);
        let mut records = self.objects.objects.iter().map(|(_, it)| &it.value);
        assert!(records.all(|it| it.work.is_none() && it.memo.is_none()));
    }
}

impl Server {
    fn put(&mut self, name: &str, keys: &[String], on: bool) -> Value {
        self.version += 1;
        let known = self.objects.get(name);
        let uid = known.map(|it| it["metadata"]["uid"].clone());
        let event = match uid {
            Some(_) => EventType::Modified,
            None => EventType::Added,
        };
        let uid = uid.unwrap_or_else(|| json!(format!("uid-{}", self.version)));
        let labels = if on { json!({"on": ""}) } else { json!({}) };
        let object = json!({
            "metadata": {"name": name, "uid": uid, "resourceVersion": self.version.to_string(), "labels": labels},
            "spec": {"keys": keys},
        });
        self.objects.insert(name.to_owned(), object.clone());
        self.events.push_back((event, object.clone()));
        object
    }

    fn delete(&mut self, name: &str) {
        if let Some(mut object) = self.objects.remove(name) {
            self.version += 1;
            object["metadata"]["resourceVersion"] = json!(self.version.to_string());
            self.events.push_back((EventType::Deleted, object));
        }
    }
}

fn raw(object: &Value) -> Raw {
    Raw::parse(&object.to_string()).unwrap()
}

fn effects(run: &mut IndexRun) -> Vec<Effect> {
    let object =
        SubjectObject { resource: run.kind.resource.clone(), body: Arc::new(run.raw.body().unwrap()) };
    let context = CauseContext::default();
    let look = IndexLook {
        object: &object,
        context: &context,
        judge: Judge {
            now: Timestamp::UNIX_EPOCH,
            backoff: (Duration::from_secs(1), Duration::from_secs(60)),
            random: 0.0,
        },
    };
    let mut told = Vec::new();
    let functions = run.kind.indexers.iter().zip(&mut run.attempts);
    let effects = functions.map(|(functions, attempts)| {
        let called = look.call(&functions.handlers, attempts, &mut told);
        called.map_or(Effect::Clear, |called| {
            let outcome = match call(&called.call).0 {
                Ok(_) => Outcome::Succeeded(None),
                Err(error) => Outcome::Arbitrary { message: error.to_string() },
            };
            look.ended(called, outcome, attempts, &mut told)
        })
    });
    effects.collect()
}

fn history(seed: u64) {
    let mut history = History::new(seed);
    for _ in 0..12 {
        for _ in 0..10 {
            history.step();
        }
        history.check();
    }
}

#[test]
fn indices_are_what_the_objects_make_whatever_was_told_of_them() {
    let number = |name| {
        let given = std::env::var(name).ok();
        given.and_then(|it| it.parse::<u64>().ok())
    };
    let seeds = match number("KOPF_RS_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("KOPF_RS_HISTORIES").unwrap_or(300),
    };
    for seed in seeds {
        let found = std::panic::catch_unwind(|| history(seed));
        assert!(found.is_ok(), "history {seed} goes wrong; replay it with KOPF_RS_SEED={seed}");
    }
}

#[test]
fn an_object_takes_few_bytes() {
    assert!(size_of::<Shown<Record>>() <= 96, "{}", size_of::<Shown<Record>>());
    assert!(size_of::<Indexed>() <= 24, "{}", size_of::<Indexed>());
}

fn object(name: &str, version: u32) -> Raw {
    raw(&json!({"metadata": {"name": name, "uid": name, "resourceVersion": version.to_string()}}))
}

/// Returns indexed objects of one kind, without any events so far.
fn bare() -> (IndexedObjects, Arc<ResourceHandlers>) {
    let registry = &registry()[0];
    let kind = ResourceHandlers::new(0, Arc::default(), registry.handlers().to_vec());
    let objects = IndexedObjects::new(registry.indices(), Memo::default());
    (objects, Arc::new(kind))
}

#[test]
fn all_that_is_listed_is_waited_for_and_nothing_that_comes_later() {
    let (mut objects, kind) = bare();
    let now = Instant::now();
    assert_eq!(objects.readiness(now), Readiness::Wait(None), "not watched");
    objects.open(1, &kind, None);
    objects.are_watched();
    assert_eq!(objects.readiness(now), Readiness::Wait(None), "not listed");
    objects.on_event(1, &WatchEvent::Listing(now), now);
    let listed = WatchEvent::Object(EventType::Listed, object("a", 1));
    let mut run = objects.on_event(1, &listed, now).unwrap();
    let shown = KeySet::from_iter([Key::of(&kind.resource, object("a", 1).facts())]);
    objects.on_event(1, &WatchEvent::Synced(shown), now);
    assert_eq!(objects.readiness(now), Readiness::Wait(None), "not indexed");
    let effects = effects(&mut run);
    assert!(objects.ended(run, effects).is_none());
    let ready = Readiness::Ready(Vec::new());
    assert_eq!(objects.readiness(now), ready);
    let added = WatchEvent::Object(EventType::Added, object("b", 2));
    let run = objects.on_event(1, &added, now);
    assert!(run.is_some());
    assert_eq!(objects.readiness(now), ready, "it came later");
}

#[test]
fn what_cannot_be_listed_is_not_waited_for_for_ever() {
    let denied = ClusterError::Denied { message: "no".to_owned(), rule: String::new() };
    let away = ClusterError::Unreachable("away".to_owned());
    let now = Instant::now();
    for (error, patience) in [(denied, Duration::ZERO), (away, PATIENCE)] {
        let (mut objects, kind) = bare();
        objects.open(1, &kind, None);
        objects.are_watched();
        objects.on_event(1, &WatchEvent::Trouble(error), now);
        if patience > Duration::ZERO {
            let wait = Readiness::Wait(Some(now + patience));
            assert_eq!(objects.readiness(now), wait);
        }
        let Readiness::Ready(missing) = objects.readiness(now + patience) else {
            panic!("it is waited for");
        };
        let missing: Vec<_> = missing.iter().map(|it| &*it.index).collect();
        assert_eq!(missing, ["by_key", "names"]);
        objects.on_event(1, &WatchEvent::Synced(KeySet::default()), now);
        assert_eq!(objects.readiness(now), Readiness::Ready(Vec::new()));
    }
    let (mut objects, _) = bare();
    objects.are_watched();
    let Readiness::Ready(missing) = objects.readiness(now) else {
        panic!("what is not served is waited for");
    };
    assert!(missing.iter().all(|it| it.because.is_none()) && missing.len() == 2);
}

#[test]
fn an_object_that_is_worked_on_keeps_its_memo_though_its_watch_is_closed() {
    let (mut objects, kind) = bare();
    let now = Instant::now();
    let listed = WatchEvent::Object(EventType::Listed, object("a", 1));
    let key = Key::of(&kind.resource, object("a", 1).facts());
    let mut memos = Vec::new();
    for (stream, has_worker) in [(1, true), (2, false), (3, false)] {
        objects.open(stream, &kind, None);
        let mut run = objects.on_event(stream, &listed, now).unwrap();
        let memo = objects.memo(&key, None);
        memos.push(memo.get::<&str>().map(|it| *it));
        memo.insert("its own");
        let effects = effects(&mut run);
        objects.ended(run, effects);
        objects.close(stream, |_| has_worker);
    }
    assert_eq!(memos, [None, Some("its own"), None]);
    assert!(objects.memos_of_removed.is_empty());
}

#[test]
fn an_object_that_goes_while_it_is_indexed_leaves_nothing() {
    let (mut objects, kind) = bare();
    let now = Instant::now();
    objects.open(1, &kind, None);
    let listed = WatchEvent::Object(EventType::Listed, object("a", 1));
    let mut run = objects.on_event(1, &listed, now).unwrap();
    let deleted = WatchEvent::Object(EventType::Deleted, object("a", 2));
    objects.on_event(1, &deleted, now);
    let effects = effects(&mut run);
    assert!(objects.ended(run, effects).is_none());
    let any: &dyn Any = objects.indices.get("names").unwrap();
    assert!(any.downcast_ref::<Index<(), String>>().unwrap().is_empty());
    let key = Key::of(&kind.resource, object("a", 1).facts());
    assert!(objects.answered(&key, &object("a", 3), now).is_none());
    assert_eq!((objects.unindexed, objects.memos_of_removed.len()), (0, 0));
}

#[test]
fn whoever_was_called_before_an_object_is_indexed_is_called_again() {
    let (mut objects, kind) = bare();
    objects.open(1, &kind, None);
    let reader = (IndexReader::Owner("o".to_owned()), kind.resource.clone());
    let key = Key::of(&kind.resource, object("a", 1).facts());
    let state = |version: Option<u32>| IndexedVersion {
        key: key.clone(),
        version: version.map(|it| Version::of(&it.to_string())),
    };
    let tell = |objects: &mut IndexedObjects, event: EventType, version: u32| {
        let event = WatchEvent::Object(event, object("a", version));
        objects.on_event(1, &event, Instant::now())
    };
    let end = |objects: &mut IndexedObjects, run: Option<IndexRun>| {
        let mut run = run.expect("a look");
        let effects = effects(&mut run);
        assert!(objects.ended(run, effects).is_none());
    };
    let called = |objects: &mut IndexedObjects| objects.take_late_readers().len();
    objects.is_read(&state(Some(2)), reader.clone());
    let run = tell(&mut objects, EventType::Added, 1);
    end(&mut objects, run);
    assert_eq!(called(&mut objects), 0, "it is older");
    let run = tell(&mut objects, EventType::Modified, 3);
    assert_eq!(called(&mut objects), 0, "its look has not ended");
    end(&mut objects, run);
    assert_eq!((called(&mut objects), called(&mut objects)), (1, 0));
    objects.is_read(&state(None), reader.clone());
    objects.is_read(&state(Some(4)), reader.clone());
    let run = tell(&mut objects, EventType::Modified, 4);
    end(&mut objects, run);
    assert_eq!(called(&mut objects), 1, "its label was away, and is back");
    objects.is_read(&state(Some(5)), reader.clone());
    objects.is_read(&state(None), reader.clone());
    let run = tell(&mut objects, EventType::Modified, 5);
    end(&mut objects, run);
    assert_eq!(called(&mut objects), 0, "it is gone, but not from the index");
    tell(&mut objects, EventType::Deleted, 6);
    assert_eq!(called(&mut objects), 1);
    objects.is_read(&state(None), reader.clone());
    assert_eq!(called(&mut objects), 0, "nothing is missing");
    objects.is_read(&state(Some(7)), reader);
    objects.on_event(1, &WatchEvent::Listing(Instant::now()), Instant::now());
    objects.on_event(1, &WatchEvent::Synced(KeySet::default()), Instant::now());
    assert_eq!(called(&mut objects), 1, "it has gone in a gap");
}
