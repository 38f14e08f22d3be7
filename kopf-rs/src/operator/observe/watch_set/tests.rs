//! Tests which watches are open, and what their ends mean for the objects.

use super::*;
use crate::cluster::fake::Fake;
use crate::cluster::watch::ObjectForm;
use crate::engine::resource_handlers::ResourceHandlers;
use crate::handler::definition::Handler;
use crate::handler::indexer::indexer;
use crate::handler::registry::Registry;
use crate::handler::registry::callback::handler;
use crate::object::event::EventType;
use crate::object::key::Key;
use crate::object::raw::Raw;
use crate::operator::observe::tests::parts;

impl WatchSet {
    /// Returns the key, the stream and the version of the only watch of workers.
    pub(in crate::operator::observe) fn only(&self) -> (WatchKey, StreamId, String) {
        let mut watches = self.open.iter().filter(|(_, it)| it.is_of_workers());
        let (key, watch) = watches.next().expect("a watch");
        assert!(watches.next().is_none());
        let version = watch.collection.resource.version.clone();
        (key.clone(), watch.stream, version)
    }
}

/// A set of watches on a server that never answers, with an index of the names of widgets.
struct Tested {
    set: WatchSet,
    engine: Engine,
    handlers: Vec<Arc<Handler>>,
    is_paused: bool,
}

impl Tested {
    fn new() -> Self {
        let names = indexer("names", |cause| ((), cause.name().to_owned()));
        let reconciler = handler("r", |_| async { Ok(()) });
        let reconciler = reconciler.watches("widgets", |_| Some("owner".to_owned()));
        let registry = Registry::new().index("widgets", names);
        let registry = registry.reconcile("others", reconciler);
        let handlers = registry.handlers().to_vec();
        let fake = Fake::new([]);
        let (engine, _) = parts(&fake, registry);
        let cluster = fake.cluster();
        Self {
            set: WatchSet::new(engine.clone(), cluster, WatchPace::default(), None),
            engine,
            handlers,
            is_paused: false,
        }
    }

    /// Wants watches of workers for widgets in this version, and no other watches.
    fn want(&mut self, version: &str, namespaces: &[&str]) {
        let namespaces = namespaces.iter().map(|&it| it.to_owned()).collect();
        let wanted = vec![self.workers(version)];
        self.set.reconcile(wanted, Some(&namespaces), self.is_paused);
    }

    fn want_nothing(&mut self) {
        self.set.reconcile(Vec::new(), Some(&BTreeSet::new()), self.is_paused);
    }

    fn workers(&self, version: &str) -> Wanted {
        let resource = widgets(version);
        let index = self.handlers[..1].to_vec();
        let kind = ResourceHandlers::new(0, resource.clone(), index);
        wanted(Some(Follower::Workers(Arc::new(kind))), resource)
    }

    /// Returns the only watch.
    fn watch(&self) -> EngineWatch {
        let watch = &self.set.open[&self.set.only().0];
        watch.of_engine.clone().expect("a watch of the engine")
    }

    /// Lets the only watch list these objects.
    fn list(&self, names: &[&str]) {
        let watch = self.watch();
        let listing = WatchEvent::Listing(Instant::now());
        self.engine.feed(&watch, listing);
        for name in names {
            self.engine.feed(&watch, object(EventType::Listed, name));
        }
        let listed = names.iter().map(|name| Key::of_uid(name)).collect();
        self.engine.feed(&watch, WatchEvent::Synced(listed));
    }

    /// Returns whether some objects are indexed.
    fn is_indexed(&self) -> bool {
        self.engine.index_facts()[0].keys > 0
    }

    async fn wait(&mut self, time: Duration) {
        let message = tokio::time::timeout(time, self.set.next()).await;
        assert!(message.is_err(), "the observer gets no message");
    }
}

fn widgets(version: &str) -> Arc<Resource> {
    Arc::new(Resource { version: version.to_owned(), ..Resource::built_in("a.io", "Widget", true) })
}

fn wanted(follower: Option<Follower>, resource: Arc<Resource>) -> Wanted {
    Wanted { follower, purpose: Purpose::Handlers, resource, selection: Selection::default() }
}

fn object(event: EventType, name: &str) -> WatchEvent {
    let text = format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"ns","uid":"{name}","resourceVersion":"1"}}}}"#
    );
    WatchEvent::Object(event, Raw::parse(&text).expect("an object"))
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_replaces_another_takes_its_objects_over() {
    let mut tested = Tested::new();
    tested.want("v1", &["ns"]);
    let former = tested.watch();
    tested.list(&["a"]);
    tested.want("v1", &["ns"]);
    assert_eq!(tested.watch().stream, former.stream, "nothing has changed");
    tested.want("v2", &["ns"]);
    assert!(tested.watch().stream != former.stream && tested.is_indexed());
    let deleted = object(EventType::Deleted, "a");
    tested.engine.feed(&former, deleted);
    assert!(tested.is_indexed(), "the former watch is over");
    tested.list(&[]);
    assert!(!tested.is_indexed(), "the listing lacks the object");
}

#[tokio::test(start_paused = true)]
async fn the_watch_of_a_deleted_namespace_stays_open_for_a_while() {
    let mut tested = Tested::new();
    tested.want("v1", &["ns"]);
    let former = tested.watch();
    tested.list(&["a", "b"]);
    tested.want("v1", &[]);
    tested.wait(GRACE / 2).await;
    assert!(tested.is_indexed());
    for name in ["a", "b"] {
        let deleted = object(EventType::Deleted, name);
        tested.engine.feed(&former, deleted);
    }
    assert!(!tested.is_indexed(), "it still reports deletions");
    tested.engine.feed(&former, object(EventType::Added, "c"));
    assert!(tested.is_indexed());
    tested.wait(GRACE).await;
    assert!(!tested.is_indexed(), "it has ended");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_exists_again_keeps_its_objects() {
    let mut tested = Tested::new();
    tested.want("v1", &["ns"]);
    tested.list(&["a"]);
    tested.want("v1", &[]);
    tested.wait(GRACE / 2).await;
    tested.want("v1", &["ns"]);
    tested.wait(GRACE * 2).await;
    assert!(tested.is_indexed());
    tested.list(&[]);
    assert!(!tested.is_indexed(), "the listing lacks the object");
    tested.list(&["b"]);
    tested.want_nothing();
    tested.wait(GRACE * 2).await;
    assert!(!tested.is_indexed());
}

#[tokio::test(start_paused = true)]
async fn objects_are_kept_for_a_pause_and_not_longer() {
    for is_wanted in [true, false] {
        let mut tested = Tested::new();
        tested.want("v1", &["ns"]);
        tested.list(&["a"]);
        tested.is_paused = true;
        tested.want_nothing();
        assert!(tested.set.open.is_empty() && tested.is_indexed());
        tested.is_paused = false;
        if is_wanted {
            tested.want("v1", &["ns"]);
            assert!(tested.is_indexed());
            tested.list(&[]);
        } else {
            tested.want_nothing();
        }
        assert!(!tested.is_indexed(), "{is_wanted}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_follower_has_one_watch_of_a_kind_and_workers_come_last() {
    let mut tested = Tested::new();
    let children = |is_read| Some(Follower::Children { is_read });
    let targets = || Some(Follower::Targets(tested.handlers[1..].to_vec()));
    let followers = [children(false), targets(), children(true), targets(), None, children(false)];
    let all = followers.map(|it| wanted(it, widgets("v1")));
    let all = [tested.workers("v1")].into_iter().chain(all).collect();
    tested.set.reconcile(all, None, false);
    let mut watches: Vec<&OpenWatch> = tested.set.open.values().collect();
    watches.sort_by_key(|it| it.stream);
    let followers: Vec<_> = watches.iter().map(|it| it.of_engine.as_ref()).collect();
    let [None, Some(children), Some(targets), Some(workers)] = followers[..] else {
        panic!("{} watches", followers.len());
    };
    let form = children.follower.form(&children.collection.resource);
    assert_eq!(form, ObjectForm::Whole, "a handler reads them");
    assert!(matches!(&targets.follower, Follower::Targets(handlers) if handlers.len() == 2));
    assert!(workers.is_of_workers());
}

/// The observer discovers again when a kind with handlers is missing, and reports failing watches of workers.
#[tokio::test(start_paused = true)]
async fn the_observer_learns_only_of_troubles_of_workers() {
    let tested = Tested::new();
    let children = wanted(Some(Follower::Children { is_read: false }), widgets("v1"));
    for (watch, is_told) in [(tested.workers("v1"), true), (children, false)] {
        let mut set =
            WatchSet::new(tested.engine.clone(), tested.set.cluster.clone(), WatchPace::default(), None);
        set.reconcile(vec![watch], None, false);
        let (key, open) = set.open.first_key_value().expect("a watch");
        let sink = set.sink((key.clone(), open.stream), open.of_engine.clone(), None);
        sink(WatchEvent::Trouble(ClusterError::NotFound("no such resource".to_owned().into())));
        let message = tokio::time::timeout(GRACE, set.next()).await.ok();
        assert_eq!(message.is_some(), is_told);
        message.map(|it| set.accept(it).expect("an open watch"));
        assert_eq!(set.troubles().count(), usize::from(is_told));
    }
}

#[tokio::test(start_paused = true)]
async fn events_that_come_after_the_end_begin_no_work() {
    let mut tested = Tested::new();
    tested.want("v1", &["ns"]);
    tested.engine.drain().await;
    tested.list(&["a"]);
    assert!(!tested.is_indexed());
}
