use parking_lot::Mutex;
use serde_json::json;

use super::*;
use crate::handler::event_sink::PostingGates;

/// A sink that records the posted Events.
#[derive(Debug)]
struct Noting {
    level: PostingLevel,
    is_enabled: bool,
    lines: bool,
    posted: Mutex<Vec<PostedEvent>>,
}

impl EventSink for Noting {
    fn gates(&self) -> Option<PostingGates> {
        self.is_enabled.then_some(PostingGates { level: self.level, lines: self.lines })
    }
    fn post(&self, event: PostedEvent) {
        self.posted.lock().push(event);
    }
}

fn noting(level: PostingLevel, is_enabled: bool) -> Arc<Noting> {
    Arc::new(Noting { level, is_enabled, lines: true, posted: Mutex::default() })
}

fn cause(sink: &Arc<Noting>) -> Cause {
    let object = json!({
        "apiVersion": "kopf.dev/v1", "kind": "KopfExample",
        "metadata": {"name": "one", "namespace": "prod", "uid": "u1", "resourceVersion": "5"},
    });
    let cause = Cause::of(object).with(OperatorSink(sink.clone()));
    cause.handler_id("create_fn").into()
}

/// The action, the object, its uid and its version.
type Shown = (String, String, String, Option<Arc<str>>);

/// Returns the Events that each method posts at this level.
fn posted(level: PostingLevel, is_enabled: bool) -> Vec<(String, EventKind, String)> {
    let sink = noting(level, is_enabled);
    let events = cause(&sink).events().unwrap();
    events.normal("N", "normal");
    events.warning("W", "warning");
    events.exception("E", &PermanentError::new("exception"));
    events.event(EventKind::Normal, "K", "event");
    let posted = sink.posted.lock();
    let shown = |it: &PostedEvent| (it.reason.clone(), it.kind, it.note.clone());
    posted.iter().map(shown).collect()
}

#[test]
fn levels_select_the_posted_events() {
    let all = [
        ("N", EventKind::Normal, "normal"),
        ("W", EventKind::Warning, "warning"),
        ("E", EventKind::Warning, "exception"),
        ("K", EventKind::Normal, "event"),
    ];
    let all = all.map(|(reason, kind, note)| (reason.to_owned(), kind, note.to_owned()));
    assert_eq!(posted(PostingLevel::Debug, true), all);
    assert_eq!(posted(PostingLevel::Info, true), all);
    assert_eq!(posted(PostingLevel::Warning, true), all[1..]);
    assert_eq!(posted(PostingLevel::Error, true), all[2..]);
    assert_eq!(posted(PostingLevel::Debug, false), []);
}

#[test]
fn events_are_about_the_object_or_about_another_one() {
    let sink = noting(PostingLevel::Info, true);
    let events = cause(&sink).events().unwrap();
    events.normal("A", "a");
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}});
    events.about(&pod).unwrap().action("Act").normal("B", "b");
    let posted = sink.posted.lock();
    let shown = |it: &PostedEvent| {
        let object = it.regarding.object.clone();
        let version = it.regarding.resource_version.clone();
        (it.action.clone(), object.to_string(), object.uid.clone(), version)
    };
    let own: Shown = ("create_fn".into(), "prod/one".into(), "u1".into(), Some("5".into()));
    let other: Shown = ("Act".into(), "p".into(), String::new(), None);
    assert_eq!(posted.iter().map(shown).collect::<Vec<_>>(), [own, other]);
    let nameless = json!({"apiVersion": "v1", "kind": "Pod"});
    let refused = events.about(&nameless).unwrap_err().to_string();
    assert!(refused.contains("has no `metadata.name`"), "{refused}");
}

#[test]
fn the_handler_that_runs_here_has_events_and_others_have_none() {
    assert!(Events::current().is_err());
    let sink = noting(PostingLevel::Info, true);
    let cause = Arc::new(cause(&sink));
    let _entered = current::enter(&cause);
    Events::current().unwrap().normal("A", "a");
    assert_eq!(sink.posted.lock().len(), 1);
}
