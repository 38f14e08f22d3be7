//! Watches of children: one for each kind that handlers own or have owned, of what carries the operator's label; of metadata alone where no handler
//! reads more.
//!
//! Must not know what follows from a change of a child.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio_util::task::AbortOnDropHandle;

use crate::cluster::Cluster;
use crate::cluster::watch::{ObjectForm, Selection, WatchEvent, WatchPace, Watched};
use crate::engine::Engine;
use crate::engine::report::report_outage_over;
use crate::handler::definition::Handler;
use crate::happening::serving::{Serving, Watching};
use crate::object::collection::Collection;
use crate::object::resource::Resource;
use crate::object::selector::Selector;
use crate::operator::follow::follow;
use crate::operator::report::report_serving;
use crate::rt::outage::Membership;

/// The watches of children that there are.
#[derive(Default)]
pub(super) struct ChildWatches(BTreeMap<Place, ChildWatch>);

/// A resource, whatever its version, and the namespace, or all.
type Place = (String, String, Option<String>);

struct ChildWatch {
    resource: Arc<Resource>,
    collection: Arc<Collection>,
    is_read: bool,
    _task: AbortOnDropHandle<()>,
}

/// The kinds that handlers own, as they are served now.
#[derive(Default)]
pub(super) struct OwnedKinds {
    kinds: Vec<(Resource, bool)>,
    /// Those that are not served.
    pub(super) missing: BTreeSet<String>,
}

/// What a watch needs.
pub(super) struct WatchWith<'a> {
    pub(super) engine: &'a Engine,
    pub(super) cluster: &'a Cluster,
    pub(super) pace: &'a WatchPace,
    /// Where the operator is for some only.
    pub(super) namespaces: Option<&'a BTreeSet<String>>,
}

// === impl ===

impl OwnedKinds {
    pub(super) fn of(handlers: &[Arc<Handler>], resources: &[Resource]) -> Self {
        let mut owned = Self::default();
        let preferred = |selector: &Selector| {
            let found = selector.select(resources);
            let preferred = found.iter().find(|it| it.preferred).or(found.first());
            preferred.copied()
        };
        for kind in handlers.iter().flat_map(|handler| handler.owns()) {
            match preferred(&kind.selector) {
                Some(resource) => owned.add(resource, kind.is_read),
                None => drop(owned.missing.insert(kind.selector.to_string())),
            }
        }
        // Of a kind that is not served, nothing can be left over.
        for kind in handlers.iter().flat_map(|handler| handler.formerly_owns()) {
            if let Some(resource) = preferred(kind) {
                owned.add(resource, false);
            }
        }
        owned
    }

    fn add(&mut self, resource: &Resource, is_read: bool) {
        let mut known = self.kinds.iter_mut();
        match known.find(|(it, _)| it.identity() == resource.identity()) {
            Some((_, is_read_already)) => *is_read_already |= is_read,
            None => self.kinds.push((resource.clone(), is_read)),
        }
    }
}

impl ChildWatches {
    /// Start and stop watches until they are those that should be.
    pub(super) fn reconcile(&mut self, owned: OwnedKinds, with: &WatchWith<'_>) {
        let mut wanted = BTreeMap::new();
        for (resource, is_read) in owned.kinds {
            let resource = Arc::new(resource);
            let (group, plural) = resource.identity();
            let place = |namespace| (group.to_owned(), plural.to_owned(), namespace);
            match with.namespaces.filter(|_| resource.namespaced) {
                Some(names) => {
                    let places = names.iter().map(|name| place(Some(name.clone())));
                    wanted.extend(places.map(|it| (it, (resource.clone(), is_read))));
                }
                None => drop(wanted.insert(place(None), (resource.clone(), is_read))),
            }
        }
        self.0.retain(|place, watch| {
            let stays = wanted.get(place).is_some_and(|(resource, is_read)| {
                *resource == watch.resource && *is_read == watch.is_read
            });
            if !stays {
                report_serving(Serving::Watch(watch.collection.clone(), Watching::Stopped));
                with.engine.close_children(&watch.collection);
            }
            stays
        });
        for (place, (resource, is_read)) in wanted {
            let namespace = place.2.clone();
            let watch = || ChildWatch::start(resource, namespace, is_read, with);
            self.0.entry(place).or_insert_with(watch);
        }
    }
}

impl ChildWatch {
    fn start(
        resource: Arc<Resource>,
        namespace: Option<String>,
        is_read: bool,
        with: &WatchWith<'_>,
    ) -> Self {
        let selection = Selection {
            labels: with.engine.label_of_children(),
            ..Selection::default()
        };
        let watched = Watched::new(resource.clone(), namespace, with.pace.clone());
        let form = if is_read {
            ObjectForm::Whole
        } else {
            ObjectForm::Metadata
        };
        let watched = watched.selecting(selection).told_as(form);
        let collection = watched.collection.clone();
        let engine = with.engine.clone();
        engine.open_children(&collection, is_read);
        let outage = Membership::new(with.cluster.outages().clone(), report_outage_over);
        let of = collection.clone();
        let following = follow(
            with.cluster.clone(),
            watched,
            outage,
            move |event: WatchEvent| {
                engine.on_child(&of, &event);
            },
        );
        Self {
            resource,
            collection,
            is_read,
            _task: AbortOnDropHandle::new(tokio::spawn(following)),
        }
    }
}
