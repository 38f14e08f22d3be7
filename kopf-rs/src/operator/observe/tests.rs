use super::*;
use crate::cluster::fake::Fake;
use crate::handler::registry::Registry;
use crate::handler::registry::callback::handler;
use crate::operator::run::{CheckedOperator, Operator};

/// An observer with a handler for widgets, on a server that never answers.
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

    /// The only watch: its place and its stream.
    fn only(&self) -> (Place, StreamId) {
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
    let forbidden = ClusterError::Denied {
        message: "no".to_owned(),
        rule: String::new(),
    };
    observer.on_news(News::Health(place, stream, Some(forbidden)));
    let told = "widgets.v1.a.io cluster-wide cannot be watched: forbidden: no";
    assert_eq!(observer.report_of_unserved(), [told]);
}
