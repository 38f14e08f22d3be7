use super::*;
use crate::cluster::fake::Fake;
use crate::handler::registry::Registry;
use crate::handler::registry::callback::handler;
use crate::object::key::KeySet;
use crate::object::raw::Raw;
use crate::operator::run::{CheckedOperator, Operator};

/// Returns an observer with a handler for widgets, on a server that never answers.
fn observer(fake: &Fake) -> Observer {
    let registry = Registry::new().on_create("widgets", handler("fn", |_| async { Ok(()) }));
    parts(fake, registry).1
}

pub(super) fn parts(fake: &Fake, registry: Registry) -> (Engine, Observer) {
    let operator = CheckedOperator::new(Operator::new(registry), "test".to_owned(), fake.client());
    let operator = operator.expect("a good operator");
    let settings = Settings::default();
    let cluster = operator.cluster(&settings);
    let found = tokio::sync::watch::Sender::new(None);
    operator.parts(settings, cluster, found, None)
}

fn widgets(version: &str) -> Resource {
    Resource {
        group: "a.io".to_owned(),
        version: version.to_owned(),
        plural: "widgets".to_owned(),
        kind: "Widget".to_owned(),
        preferred: true,
        verbs: ["list", "watch", "patch"].map(str::to_owned).to_vec(),
        ..Resource::default()
    }
}

impl Observer {
    fn serve(&mut self, resources: Vec<Resource>) {
        self.resources = resources;
        self.reconcile();
    }

    fn has_trouble(&self) -> bool {
        self.watches.troubles().next().is_some()
    }
}

#[tokio::test(start_paused = true)]
async fn news_of_a_former_watch_do_not_concern_its_successor() {
    let mut observer = observer(&Fake::new([]));
    observer.serve(vec![widgets("v1")]);
    let (key, former, _) = observer.watches.only();
    let missing = || {
        let missing = ClusterError::NotFound("no such resource".to_owned().into());
        (key.clone(), former, WatchEvent::Trouble(missing))
    };
    observer.on_message(missing());
    assert!(observer.has_trouble());
    observer.serve(vec![widgets("v1")]);
    let (same, successor, _) = observer.watches.only();
    assert!(same == key && successor != former);
    observer.on_message(missing());
    assert!(!observer.has_trouble());
}

#[tokio::test(start_paused = true)]
async fn another_version_of_a_resource_is_watched_at_the_same_place() {
    let mut observer = observer(&Fake::new([]));
    observer.serve(vec![widgets("v1")]);
    let (key, former, _) = observer.watches.only();
    observer.serve(vec![widgets("v2")]);
    let (same, successor, version) = observer.watches.only();
    assert_eq!(same, key);
    assert_ne!(successor, former);
    assert_eq!(version, "v2");
    observer.serve(vec![widgets("v2")]);
    assert_eq!(observer.watches.only().1, successor, "nothing has changed");
}

#[tokio::test(start_paused = true)]
async fn stopped_watches_leave_nothing_behind() {
    let mut observer = observer(&Fake::new([]));
    observer.serve(Vec::new());
    let tasks = tokio::runtime::Handle::current().metrics();
    let before = tasks.num_alive_tasks();
    for _ in 0..100 {
        observer.serve(vec![widgets("v1")]);
        tokio::time::sleep(Duration::from_millis(10)).await;
        observer.serve(Vec::new());
    }
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(tasks.num_alive_tasks(), before);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_served_is_told_as_long_as_it_is_so() {
    let mut observer = observer(&Fake::new([]));
    observer.serve(Vec::new());
    let unresolved = "Unresolved resources cannot be served (try creating their CRDs): widgets";
    assert_eq!(observer.report_of_unserved(), [unresolved]);
    observer.serve(vec![widgets("v1")]);
    assert!(observer.report_of_unserved().is_empty());
    let (key, stream, _) = observer.watches.only();
    let forbidden = ClusterError::Denied { message: "no".to_owned(), rule: String::new() };
    let event = WatchEvent::Trouble(forbidden);
    observer.on_message((key, stream, event));
    let told = "widgets.v1.a.io cluster-wide cannot be watched: forbidden: no";
    assert_eq!(observer.report_of_unserved(), [told]);
}

#[tokio::test(start_paused = true)]
async fn only_another_generation_of_a_definition_is_a_new_schema() {
    let mut observer = observer(&Fake::new([]));
    observer.serve(vec![widgets("v1")]);
    let definition = |name: &str, generation: &str| {
        let text = format!(r#"{{"metadata":{{"name":"{name}","annotations":{{}}{generation}}}}}"#);
        Raw::parse(&text).expect("an object")
    };
    let [first, second] = ["widgets.a.io", "others.a.io"];
    let (one, two) = (r#","generation":1"#, r#","generation":2"#);
    observer.on_definitions(&WatchEvent::Object(EventType::Listed, definition(first, one)));
    observer.on_definitions(&WatchEvent::Synced(KeySet::default()));
    for (event, name, generation, is_news) in [
        // A heartbeat.
        (EventType::Modified, first, one, false),
        (EventType::Modified, first, two, true),
        (EventType::Modified, first, two, false),
        // The definition may be served from now on.
        (EventType::Modified, second, one, true),
        (EventType::Modified, second, one, true),
        // A server that does not count generations.
        (EventType::Modified, first, "", true),
        (EventType::Modified, first, "", true),
        (EventType::Added, first, two, true),
        (EventType::Deleted, first, two, true),
    ] {
        let times = |observer: &Observer| {
            let resources = [("widgets", "a.io"), ("others", "a.io")].map(|(plural, group)| Resource {
                plural: plural.to_owned(),
                group: group.to_owned(),
                ..Resource::default()
            });
            resources.map(|it| observer.setup.cluster.definitions(&it))
        };
        let before = times(&observer);
        observer.discovery.next = None;
        observer.schedule.on(&Event::Discovering, Instant::now());
        observer.on_definitions(&WatchEvent::Object(event, definition(name, generation)));
        let is_told = times(&observer) != before;
        let is_asked = observer.discovery.next.is_some();
        assert_eq!((is_told, is_asked), (is_news, is_news), "{name} {generation}");
    }
}
