use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::*;
use crate::cluster::fake::{Answer, Fake};
use crate::cluster::watch::WatchPace;
use crate::object::resource::Resource;
use crate::rt::outage::{Leaving, Outages};

const LISTED: &str = concat!(
    r#"{"type":"ADDED","object":{"metadata":{"name":"a","uid":"u","resourceVersion":"3"}}}"#,
    "\n",
    r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}}}}"#,
    "\n",
);

fn watched() -> Watched {
    let resource = Resource {
        group: "kopf.dev".to_owned(),
        version: "v1".to_owned(),
        plural: "kopfexamples".to_owned(),
        ..Resource::default()
    };
    Watched::new(Arc::new(resource), None, WatchPace::default())
}

/// Returns a sink that panics at the first object.
fn panicking_once(note: impl Fn(WatchEvent)) -> impl Fn(WatchEvent) {
    let has_panicked = AtomicBool::new(false);
    move |event| {
        let is_object = matches!(event, WatchEvent::Object(..));
        assert!(!is_object || has_panicked.swap(true, Ordering::Relaxed), "a defect");
        note(event);
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_panics_is_started_again() {
    let fake = Fake::new([Answer::live(LISTED), Answer::live(LISTED)]);
    let told = Arc::new(Mutex::new(Vec::new()));
    let note = told.clone();
    let sink = panicking_once(move |event| {
        let mut told = note.lock();
        told.push(match event {
            WatchEvent::Listing(_) => "listing",
            WatchEvent::Object(..) => "object",
            WatchEvent::Synced(_) => "synced",
            _ => "other",
        });
    });
    let outage = OutageGuard::new(Outages::default(), |_| ());
    let following = follow(Purpose::Handlers, fake.cluster(), watched(), outage, sink);
    let _ = tokio::time::timeout(Duration::from_secs(30), following).await;
    let told = told.lock().clone();
    assert_eq!(told, ["listing", "listing", "object", "synced"]);
    let seen = fake.seen();
    assert!(seen[1].at >= Duration::from_millis(400), "after a pause");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_lists_without_a_version_is_not_well_again() {
    let page = || Answer::new(200, r#"{"kind":"List","metadata":{},"items":[]}"#);
    let streaming = Answer::refusal(422, "sendInitialEvents is forbidden");
    let fake = Fake::new([streaming, page(), page(), page()]);
    let outage = OutageGuard::new(Outages::default(), |_| ());
    let following = follow(Purpose::Handlers, fake.cluster(), watched(), outage.clone(), |_| ());
    let _ = tokio::time::timeout(Duration::from_secs(60), following).await;
    assert!(fake.seen().len() > 3);
    let leaving = outage.leave();
    assert!(matches!(leaving, Leaving::Ends(_)), "{leaving:?}");
}

/// The restarted watch cannot know the failure of the one that panicked, so it cannot report the end of that.
#[tokio::test(start_paused = true)]
async fn a_watch_that_panics_in_trouble_is_well_again_once_it_has_listed() {
    let fake = Fake::new([Answer::new(503, "starting"), Answer::live(LISTED), Answer::live(LISTED)]);
    let told = Arc::new(Mutex::new(Vec::new()));
    let note = told.clone();
    let sink = panicking_once(move |event| {
        let mut told = note.lock();
        told.push(match event {
            WatchEvent::Trouble(_) => "trouble",
            WatchEvent::Resumed => "resumed",
            WatchEvent::Synced(_) => "synced",
            _ => return,
        });
    });
    let outage = OutageGuard::new(Outages::default(), |_| ());
    let following = follow(Purpose::Handlers, fake.cluster(), watched(), outage.clone(), sink);
    let _ = tokio::time::timeout(Duration::from_secs(60), following).await;
    let told = told.lock().clone();
    assert_eq!(outage.leave(), Leaving::NotInOutage, "{told:?}");
    assert_eq!(told, ["trouble", "resumed", "synced"]);
}
