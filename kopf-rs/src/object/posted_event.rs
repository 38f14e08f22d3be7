//! Kubernetes Events about objects: their content, within the limits of the API.
//!
//! Unrelated to watch events. This module does not know when they are posted, or by which component.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::object::reference::Reference;

/// The maximum length of a note, in bytes.
const NOTE: usize = 1024;
/// The maximum length of a reason, an action, and the name of an instance, in bytes.
const WORD: usize = 128;
/// The replacement for removed text.
const CUT: &str = "...";
/// The namespace of Events about cluster-scoped objects.
const DEFAULT_NAMESPACE: &str = "default";

/// The severity of an Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum EventKind {
    /// Normal operation.
    Normal,
    /// Something needs attention.
    Warning,
}

/// The object that an Event is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Regarding {
    pub(crate) object: Arc<Reference>,
    /// The version that the Event is about, if known.
    pub(crate) resource_version: Option<Arc<str>>,
}

/// An Event to post. Its fields are shortened to the limits of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PostedEvent {
    pub(crate) regarding: Regarding,
    pub(crate) kind: EventKind,
    pub(crate) action: String,
    pub(crate) reason: String,
    pub(crate) note: String,
}

/// The reporting component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reporter {
    pub(crate) controller: String,
    pub(crate) instance: String,
}

impl EventKind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

impl Regarding {
    /// Returns the namespace of its Events.
    pub(crate) fn namespace(&self) -> &str {
        self.object.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE)
    }

    /// Returns true if the object is itself an Event: no Events are posted about those.
    pub(crate) fn is_event(&self) -> bool {
        self.object.kind == "Event" && matches!(self.object.group(), "" | "events.k8s.io")
    }

    /// Returns a hash of the object's identity.
    pub(crate) fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.object.hash(&mut hasher);
        hasher.finish()
    }
}

impl PostedEvent {
    pub(crate) fn new(
        regarding: Regarding,
        kind: EventKind,
        (action, reason): (&str, &str),
        note: &str,
    ) -> Self {
        // The API requires both.
        let word = |text: &str, otherwise: &str| {
            let text = if text.is_empty() { otherwise } else { text };
            cut_end(text, WORD).to_owned()
        };
        Self {
            regarding,
            kind,
            action: word(action, "Handle"),
            reason: word(reason, "Unspecified"),
            note: cut_middle(note, NOTE),
        }
    }

    /// Returns a hash of the Event's identity: an equal Event continues its series.
    pub(crate) fn key(&self) -> u64 {
        let Self { regarding, kind, action, reason, note } = self;
        let mut hasher = DefaultHasher::new();
        (&regarding.object, kind, action, reason, note).hash(&mut hasher);
        hasher.finish()
    }

    /// Returns the Event in the form of `events.k8s.io/v1`.
    pub(crate) fn body(&self, name: &str, reporter: &Reporter, at: Timestamp) -> Value {
        json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": self.regarding.namespace()},
            "eventTime": micro_time(at),
            "reportingController": reporter.controller,
            "reportingInstance": cut_end(&reporter.instance, WORD),
            "action": self.action,
            "reason": self.reason,
            "regarding": self.regarding.to_value(),
            "note": self.note,
            "type": self.kind.as_str(),
        })
    }
}

impl Regarding {
    fn to_value(&self) -> Value {
        let Reference { api_version, kind, name, namespace, uid } = &*self.object;
        let parts = [
            ("apiVersion", Some(&**api_version)),
            ("kind", Some(&**kind)),
            ("name", Some(&**name)),
            ("namespace", namespace.as_deref()),
            ("uid", Some(&**uid)),
            ("resourceVersion", self.resource_version.as_deref()),
        ];
        let given =
            parts.into_iter().filter_map(|(key, value)| Some((key, value.filter(|it| !it.is_empty())?)));
        given
            .map(|(key, value)| (key.to_owned(), Value::from(value)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }
}

/// Returns the patch that turns an existing Event into a series with this count.
pub(crate) fn series_patch(count: u32, last_observed: Timestamp) -> Value {
    json!({"series": {"count": count, "lastObservedTime": micro_time(last_observed)}})
}

fn micro_time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// Returns the beginning of a text, cut at a character boundary.
fn cut_end(text: &str, longest: usize) -> &str {
    &text[..floor(text, longest)]
}

/// Removes the middle of a text that is too long.
fn cut_middle(text: &str, longest: usize) -> String {
    if text.len() <= longest {
        return text.to_owned();
    }
    let kept = longest - CUT.len();
    let head = &text[..floor(text, kept - kept / 2)];
    let mut tail = text.len() - kept / 2;
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    format!("{head}{CUT}{}", &text[tail..])
}

/// Returns the last character boundary up to a byte.
fn floor(text: &str, mut at: usize) -> usize {
    if at >= text.len() {
        return text.len();
    }
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regarding() -> Regarding {
        Regarding {
            object: Arc::new(Reference {
                api_version: "kopf.dev/v1".into(),
                kind: "KopfExample".into(),
                name: "a".into(),
                namespace: Some("prod".into()),
                uid: "u1".into(),
            }),
            resource_version: Some("7".into()),
        }
    }

    fn event(reason: &str, note: &str) -> PostedEvent {
        PostedEvent::new(regarding(), EventKind::Warning, ("create_fn", reason), note)
    }

    #[test]
    fn an_event_has_all_required_fields() {
        let reporter = Reporter { controller: "tester".into(), instance: "pod-1".into() };
        let at: Timestamp = "2026-01-02T03:04:05.6789Z".parse().unwrap();
        assert_eq!(
            event("NoPlace", "there is none").body("e1", &reporter, at),
            json!({
                "apiVersion": "events.k8s.io/v1", "kind": "Event",
                "metadata": {"name": "e1", "namespace": "prod"},
                "eventTime": "2026-01-02T03:04:05.678900Z",
                "reportingController": "tester", "reportingInstance": "pod-1",
                "action": "create_fn", "reason": "NoPlace", "note": "there is none", "type": "Warning",
                "regarding": {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "name": "a", "namespace": "prod", "uid": "u1", "resourceVersion": "7"},
            })
        );
        assert_eq!(
            series_patch(2, at),
            json!({"series": {"count": 2, "lastObservedTime": "2026-01-02T03:04:05.678900Z"}})
        );
    }

    #[test]
    fn events_of_cluster_scoped_objects_are_in_the_default_namespace() {
        let mut node = (*regarding().object).clone();
        node.namespace = None;
        node.uid = String::new();
        let node = Regarding { object: Arc::new(node), resource_version: None };
        assert_eq!(node.namespace(), "default");
        assert_eq!(node.to_value(), json!({"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "name": "a"}));
    }

    #[test]
    fn long_fields_are_cut_at_characters_and_empty_ones_filled() {
        let long = event(&"r".repeat(200), &"x".repeat(2000));
        assert_eq!(long.reason.len(), 128);
        assert_eq!(long.note, format!("{}...{}", "x".repeat(511), "x".repeat(510)));
        // Limits count bytes, and no character is split.
        let wide = event(&"я".repeat(100), &"🚀".repeat(300));
        assert_eq!(wide.reason, "я".repeat(64));
        assert_eq!(wide.note, format!("{}...{}", "🚀".repeat(127), "🚀".repeat(127)));
        let whole = "y".repeat(1024);
        assert_eq!(event("", &whole).note, whole);
        assert_eq!(event("", &whole).reason, "Unspecified");
    }

    #[test]
    fn events_are_the_same_whatever_the_version_of_the_object() {
        let mut later = event("a", "b");
        later.regarding.resource_version = None;
        assert_eq!(later.key(), event("a", "b").key());
        assert_ne!(later.key(), event("a", "c").key());
        let mut other = event("a", "b");
        other.kind = EventKind::Normal;
        assert_ne!(other.key(), later.key());
    }

    #[test]
    fn events_are_known_in_both_of_their_groups() {
        for (api_version, is_event) in [("v1", true), ("events.k8s.io/v1", true), ("example.com/v1", false)] {
            let object =
                Reference { api_version: api_version.into(), kind: "Event".into(), ..Reference::default() };
            let regarding = Regarding { object: Arc::new(object), resource_version: None };
            assert_eq!(regarding.is_event(), is_event, "{api_version}");
        }
    }
}
