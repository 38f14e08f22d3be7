//! Maps objects that handlers refer to, but do not own, to the objects that a change concerns.
//!
//! Functions of users compute that for each state, and the result for the last state is remembered: a change concerns the former and the
//! present objects. The rest of a referred object is not kept. Must not know who watches, nor what follows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::cluster::watch::WatchEvent;
use crate::engine::invoke::guarded;
use crate::engine::object_table::{ObjectTable, StreamId};
use crate::engine::report::{about, report_of_operator};
use crate::handler::cause::{Attempt, CauseContext};
use crate::handler::definition::{Handler, HandlerCall};
use crate::handler::extensions::Extensions;
use crate::handler::logger::Logger;
use crate::handler::memo::Memo;
use crate::handler::subject::{EventSubject, Subject, SubjectObject};
use crate::happening::serving::Serving;
use crate::object::collection::Collection;
use crate::object::event::EventType;
use crate::object::key::Key;
use crate::object::raw::Raw;
use crate::rt::clock::Clock;

/// The objects that concern any other object.
#[derive(Default)]
pub(super) struct Targets(Mutex<ObjectTable<OfWatch, Known>>);

/// The receivers of the events of one watch.
struct OfWatch {
    collection: Arc<Collection>,
    handlers: Vec<Arc<Handler>>,
    /// The handlers whose functions have panicked, which is reported once.
    told: BTreeSet<Arc<str>>,
}

struct Known {
    version: String,
    concerned: Concerned,
}

/// The full names of the objects concerned, by the handlers to call for them.
pub(super) type Concerned = BTreeMap<Arc<str>, BTreeSet<Box<str>>>;

/// The arguments of users' functions besides the object.
pub(super) struct Surroundings<'a> {
    pub(super) clock: Clock,
    pub(super) extensions: &'a Arc<Extensions>,
}

// === impl ===

impl Targets {
    /// Registers a watch that is about to begin, for these handlers. It takes over the objects of the watch that it replaces.
    pub(super) fn open(
        &self,
        watch: StreamId,
        collection: Arc<Collection>,
        handlers: Vec<Arc<Handler>>,
        replaces: Option<StreamId>,
    ) {
        let of = OfWatch { collection, handlers, told: BTreeSet::new() };
        // The functions may return something else for the new API version.
        self.0.lock().open(watch, of, replaces, |known, _, _| known.version.clear());
    }

    /// Forgets a watch that has ended, with its objects.
    pub(super) fn close(&self, watch: StreamId) {
        let mut objects = self.0.lock();
        for key in objects.shown_by(watch) {
            objects.remove(&key);
        }
        objects.close(watch);
    }

    /// Processes one event of a watch. Returns the objects concerned.
    pub(super) fn on_event(&self, watch: StreamId, event: &WatchEvent, with: &Surroundings<'_>) -> Concerned {
        let mut woken = Concerned::new();
        let mut objects = self.0.lock();
        for key in objects.on_event(watch, event, Instant::now()).unwrap_or_default() {
            let known = objects.remove(&key);
            merge(&mut woken, known.map(|it| it.value.concerned).unwrap_or_default());
        }
        if let WatchEvent::Object(event, raw) = event {
            woken.extend(seen(&mut objects, watch, (*event, raw), with).unwrap_or_default());
        }
        woken
    }
}

/// Processes a state of an object; `None` if the watch is not open. Returns the objects concerned.
fn seen(
    objects: &mut ObjectTable<OfWatch, Known>,
    watch: StreamId,
    (event, raw): (EventType, &Raw),
    with: &Surroundings<'_>,
) -> Option<Concerned> {
    let facts = raw.facts();
    let key = Key::of(&objects.watch(watch)?.of.collection.resource, facts);
    let former = objects.remove(&key).map(|it| it.value);
    let concerned = objects.watch_mut(watch)?.concerned(event, raw, with);
    let concerned = concerned.unwrap_or_else(|| {
        // The functions cannot run for an unreadable state, so the former result holds.
        let former = former.as_ref().map(|it| it.concerned.clone());
        former.unwrap_or_default()
    });
    let is_same = former.as_ref().is_some_and(|it| it.version == facts.resource_version);
    // The first listing counts as a change, too: a handler may have been called before, with an older state. An object whose first call
    // is still due is called once.
    let is_news = event != EventType::Listed || !is_same;
    let mut woken = former.map(|it| it.concerned).unwrap_or_default();
    merge(&mut woken, concerned.clone());
    if event != EventType::Deleted && !concerned.is_empty() {
        let version = facts.resource_version.clone();
        objects.show(watch, &key, |_| Some(Known { version, concerned }));
    }
    Some(if is_news { woken } else { Concerned::new() })
}

fn merge(all: &mut Concerned, more: Concerned) {
    for (handler, names) in more {
        all.entry(handler).or_default().extend(names);
    }
}

impl OfWatch {
    /// Returns the objects concerned according to the functions; `None` if they cannot be computed.
    fn concerned(&mut self, event: EventType, raw: &Raw, with: &Surroundings<'_>) -> Option<Concerned> {
        let resource = &self.collection.resource;
        let body = Arc::new(raw.body().ok()?);
        let namespace = raw.facts().namespace.as_deref();
        let now = with.clock.now();
        let mut concerned = Concerned::new();
        for handler in &self.handlers {
            let context = CauseContext {
                logger: Logger::of(Arc::new(about(resource, raw.facts()))),
                memo: Memo::default(),
                extensions: with.extensions.clone(),
            };
            let subject = Subject::Event(EventSubject {
                object: SubjectObject { resource: resource.clone(), body: body.clone() },
                event,
            });
            let attempt = Attempt::first(now);
            let call = HandlerCall::new(handler.clone(), context, attempt, subject);
            let kinds = handler.watches.iter();
            for kind in kinds.filter(|kind| kind.selector.names(resource)) {
                let owners = match guarded(|| (kind.owners)(&call.cause)) {
                    Ok(owners) => owners,
                    Err(panic) => {
                        if self.told.insert(handler.id.clone()) {
                            report_of_operator(&Serving::OwnersPanicked {
                                handler: handler.id.clone(),
                                resource: Box::new((**resource).clone()),
                                panic,
                            });
                        }
                        return None;
                    }
                };
                let names = owners.iter().flat_map(|owner| owner.full_names(namespace));
                let known = concerned.entry(handler.id.clone()).or_default();
                known.extend(names);
            }
        }
        concerned.retain(|_, names| !names.is_empty());
        Some(concerned)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::handler::registry::Registry;
    use crate::handler::registry::callback::handler;
    use crate::object::key::KeySet;
    use crate::object::resource::Resource;

    fn watching(owners: fn(&crate::handler::cause::Cause) -> Option<String>) -> Targets {
        let reconciler = handler("r", |_| async { Ok(()) }).watches("configmaps", owners);
        let registry = Registry::new().reconcile("kopfexamples", reconciler);
        let targets = Targets::default();
        targets.open(1, config_maps(), registry.handlers().to_vec(), None);
        targets
    }

    fn config_maps() -> Arc<Collection> {
        let resource =
            Resource { kind: "ConfigMap".to_owned(), plural: "configmaps".to_owned(), ..Resource::default() };
        Arc::new(Collection { resource: Arc::new(resource), namespace: None })
    }

    fn told(targets: &Targets, watch: StreamId, event: &WatchEvent) -> Vec<String> {
        let with = Surroundings { clock: Clock::start(), extensions: &Arc::default() };
        let concerned = targets.on_event(watch, event, &with);
        let names = concerned.into_values().flatten();
        names.filter(|it| !it.starts_with('/')).map(String::from).collect()
    }

    fn object(event: EventType, version: u32, owner: &str) -> WatchEvent {
        let text = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
            "name": "c", "namespace": "ns", "uid": "c", "resourceVersion": version.to_string(), "labels": {"of": owner},
        }});
        WatchEvent::Object(event, Raw::parse(&text.to_string()).unwrap())
    }

    #[tokio::test]
    async fn a_change_concerns_those_of_before_and_those_of_now() {
        use EventType::{Added, Deleted, Listed, Modified};
        let targets = watching(|it| {
            let label = it.labels().get("of").map(str::to_owned)?;
            assert_ne!(label, "panic");
            (!label.is_empty()).then_some(label)
        });
        let tell = |event: &WatchEvent| told(&targets, 1, event);
        let listing = || WatchEvent::Listing(Instant::now());
        assert!(tell(&listing()).is_empty());
        assert_eq!(tell(&object(Listed, 1, "a")), ["ns/a"], "it may have been called before");
        let synced =
            |listed: &[&str]| WatchEvent::Synced(listed.iter().map(|uid| Key::of_uid(uid)).collect());
        assert!(tell(&synced(&["c"])).is_empty());
        assert_eq!(tell(&object(Modified, 2, "b")), ["ns/a", "ns/b"]);
        assert_eq!(tell(&object(Modified, 3, "panic")), ["ns/b"]);
        assert_eq!(tell(&object(Modified, 4, "")), ["ns/b"]);
        assert!(tell(&object(Modified, 5, "")).is_empty());
        assert_eq!(tell(&object(Deleted, 6, "a")), ["ns/a"]);
        assert_eq!(tell(&object(Added, 7, "a")), ["ns/a"]);
        tell(&listing());
        assert!(tell(&object(Listed, 7, "a")).is_empty(), "the same state");
        tell(&synced(&["c"]));
        tell(&listing());
        assert_eq!(tell(&synced(&[])), ["ns/a"], "gone meanwhile");
        targets.close(1);
        assert!(tell(&object(Added, 8, "a")).is_empty());
    }

    #[tokio::test]
    async fn a_target_that_goes_while_its_watch_is_replaced_concerns_those_of_before() {
        let targets = watching(|it| it.labels().get("of").map(str::to_owned));
        assert_eq!(told(&targets, 1, &object(EventType::Added, 1, "a")), ["ns/a"]);
        targets.open(2, config_maps(), Vec::new(), Some(1));
        assert!(told(&targets, 1, &WatchEvent::Synced(KeySet::default())).is_empty());
        assert_eq!(told(&targets, 2, &WatchEvent::Synced(KeySet::default())), ["ns/a"]);
    }
}
