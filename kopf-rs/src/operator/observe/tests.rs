use super::*;
use crate::cluster::fake::Fake;
use crate::handler::registry::Registry;
use crate::handler::registry::callback::handler;
use crate::object::raw::Raw;
use crate::operator::run::{CheckedOperator, Operator};

/// Returns an observer with a handler for widgets, on a server that never answers.
fn observer(fake: &Fake) -> Observer {
    let registry = Registry::new().on_create("widgets", handler("fn", |_| async { Ok(()) }));
    let operator = CheckedOperator::new(Operator::new(registry), "test".to_owned(), fake.client());
    let operator = operator.expect("a good operator");
    let settings = Settings::default();
    let cluster = operator.cluster(&settings);
    let found = tokio::sync::watch::Sender::new(None);
    operator.parts(settings, cluster, found, None).1
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

    /// Returns the place and the stream of the only watch.
    fn only(&self) -> (WatchKey, StreamId) {
        assert_eq!(self.watches.len(), 1);
        let (place, watch) = self.watches.first_key_value().expect("a watch");
        (place.clone(), watch.stream)
    }
}

#[tokio::test(start_paused = true)]
async fn news_of_a_former_watch_do_not_concern_its_successor() {
    let mut observer = observer(&Fake::new([]));
    observer.serve(vec![widgets("v1")]);
    let (place, former) = observer.only();
    let missing = || Some(ClusterError::NotFound("no such resource".to_owned().into()));
    observer.on_news(News::Health(place.clone(), former, missing()));
    assert!(observer.watches[&place].is_missing());
    observer.serve(vec![widgets("v1")]);
    let (same, successor) = observer.only();
    assert!(same == place && successor != former);
    observer.on_news(News::Health(place.clone(), former, missing()));
    assert!(!observer.watches[&place].is_missing());
}

#[tokio::test(start_paused = true)]
async fn another_version_of_a_resource_is_watched_at_the_same_place() {
    let mut observer = observer(&Fake::new([]));
    observer.serve(vec![widgets("v1")]);
    let (place, former) = observer.only();
    observer.serve(vec![widgets("v2")]);
    let (same, successor) = observer.only();
    assert_eq!(same, place);
    assert_ne!(successor, former);
    assert_eq!(observer.watches[&place].kind.resource.version, "v2");
    observer.serve(vec![widgets("v2")]);
    assert_eq!(observer.only().1, successor, "nothing has changed");
}

#[tokio::test(start_paused = true)]
async fn stopped_watches_leave_nothing_behind() {
    let mut observer = observer(&Fake::new([]));
    let tasks = tokio::runtime::Handle::current().metrics();
    let before = tasks.num_alive_tasks();
    for _ in 0..100 {
        observer.serve(vec![widgets("v1")]);
        tokio::time::sleep(Duration::from_millis(10)).await;
        observer.serve(Vec::new());
    }
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(observer.watches.is_empty());
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
    let (place, stream) = observer.only();
    let forbidden = ClusterError::Denied { message: "no".to_owned(), rule: String::new() };
    observer.on_news(News::Health(place, stream, Some(forbidden)));
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
    observer.on_definitions(&WatchEvent::Synced);
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
