//! Maps objects that handlers refer to, but do not own, to the objects that a change concerns.
//!
//! Functions of users compute that for each state, and the result for the last state is remembered: a change concerns the former and the
//! present objects. The rest of a referred object is not kept. Must not know who watches, nor what follows.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::cluster::watch::WatchEvent;
use crate::engine::invoke::guarded;
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
use crate::object::key::{Key, KeySet};
use crate::object::raw::Raw;
use crate::rt::clock::Clock;

/// The referred objects that watches have reported.
#[derive(Debug, Default)]
pub(super) struct Targets(Mutex<HashMap<String, OfCollection>>);

/// The referred objects of one watch.
#[derive(Debug, Default)]
struct OfCollection {
    handlers: Vec<Arc<Handler>>,
    /// The objects that concern any other object.
    objects: HashMap<Key, Known>,
    /// The handlers whose functions have panicked, which is reported once.
    told: BTreeSet<Arc<str>>,
}

#[derive(Debug)]
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
    fn lock(&self) -> MutexGuard<'_, HashMap<String, OfCollection>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a watch that is about to begin, for these handlers.
    pub(super) fn open(&self, of: &Collection, handlers: Vec<Arc<Handler>>) {
        let opened = OfCollection { handlers, ..OfCollection::default() };
        self.lock().insert(of.to_string(), opened);
    }

    /// Forgets a watch that has ended.
    pub(super) fn close(&self, of: &Collection) {
        self.lock().remove(&of.to_string());
    }

    /// Processes one event of a watch. Returns the objects concerned.
    pub(super) fn on_event(&self, of: &Collection, event: &WatchEvent, with: &Surroundings<'_>) -> Concerned {
        let mut all = self.lock();
        let Some(found) = all.get_mut(&of.to_string()) else {
            return Concerned::new();
        };
        match event {
            WatchEvent::Object(event, raw) => return found.seen(of, *event, raw, with),
            WatchEvent::Synced(listed) => return found.synced(listed),
            _ => {}
        }
        Concerned::new()
    }
}

impl OfCollection {
    fn seen(&mut self, of: &Collection, event: EventType, raw: &Raw, with: &Surroundings<'_>) -> Concerned {
        let facts = raw.facts();
        let key = Key::of(&of.resource, facts);
        let former = self.objects.remove(&key);
        let concerned = self.concerned(of, event, raw, with);
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
        for (handler, names) in &concerned {
            let known = woken.entry(handler.clone()).or_default();
            known.extend(names.iter().cloned());
        }
        if event != EventType::Deleted && !concerned.is_empty() {
            let version = facts.resource_version.clone();
            let known = Known { version, concerned };
            self.objects.insert(key, known);
        }
        if is_news { woken } else { Concerned::new() }
    }

    /// Ends a listing: objects that it lacks are gone. Returns the objects that this concerns.
    fn synced(&mut self, listed: &KeySet) -> Concerned {
        let mut woken = Concerned::new();
        self.objects.retain(|key, known| {
            let is_there = listed.contains(key);
            if !is_there {
                for (handler, names) in std::mem::take(&mut known.concerned) {
                    woken.entry(handler).or_default().extend(names);
                }
            }
            is_there
        });
        woken
    }

    /// Returns the objects concerned according to the functions; `None` if they cannot be computed.
    fn concerned(
        &mut self,
        of: &Collection,
        event: EventType,
        raw: &Raw,
        with: &Surroundings<'_>,
    ) -> Option<Concerned> {
        let body = Arc::new(raw.body().ok()?);
        let namespace = raw.facts().namespace.as_deref();
        let now = with.clock.now();
        let mut concerned = Concerned::new();
        for handler in &self.handlers {
            let context = CauseContext {
                logger: Logger::of(Arc::new(about(&of.resource, raw.facts()))),
                memo: Memo::default(),
                extensions: with.extensions.clone(),
            };
            let subject = Subject::Event(EventSubject {
                object: SubjectObject { resource: of.resource.clone(), body: body.clone() },
                event,
            });
            let attempt = Attempt::first(now);
            let call = HandlerCall::new(handler.clone(), context, attempt, subject);
            let kinds = handler.watches.iter();
            for kind in kinds.filter(|kind| kind.selector.names(&of.resource)) {
                let owners = match guarded(|| (kind.owners)(&call.cause)) {
                    Ok(owners) => owners,
                    Err(panic) => {
                        if self.told.insert(handler.id.clone()) {
                            report_of_operator(&Serving::OwnersPanicked {
                                handler: handler.id.clone(),
                                resource: Box::new((*of.resource).clone()),
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
    use tokio::time::Instant;

    use super::*;
    use crate::handler::registry::Registry;
    use crate::handler::registry::callback::handler;
    use crate::object::resource::Resource;

    fn watching(owners: fn(&crate::handler::cause::Cause) -> Option<String>) -> (Targets, Collection) {
        let reconciler = handler("r", |_| async { Ok(()) }).watches("configmaps", owners);
        let registry = Registry::new().reconcile("kopfexamples", reconciler);
        let of = Collection {
            resource: Arc::new(Resource {
                kind: "ConfigMap".to_owned(),
                plural: "configmaps".to_owned(),
                ..Resource::default()
            }),
            namespace: None,
        };
        let targets = Targets::default();
        targets.open(&of, registry.handlers().to_vec());
        (targets, of)
    }

    fn told(targets: &Targets, of: &Collection, event: &WatchEvent) -> Vec<String> {
        let with = Surroundings { clock: Clock::start(), extensions: &Arc::default() };
        let concerned = targets.on_event(of, event, &with);
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
        let (targets, of) = watching(|it| {
            let label = it.labels().get("of").map(str::to_owned)?;
            assert_ne!(label, "panic");
            (!label.is_empty()).then_some(label)
        });
        let tell = |event: &WatchEvent| told(&targets, &of, event);
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
        targets.close(&of);
        assert!(tell(&object(Added, 8, "a")).is_empty());
    }
}
