//! Keeps the watches of children and of referred objects.
//!
//! There is one for each kind that handlers own or have owned, of objects with the operator's label; only of metadata unless a handler reads
//! more. There is another one for each kind that handlers refer to, of whole objects, but of Secrets only the metadata. Must not know what
//! follows from a change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio_util::task::AbortOnDropHandle;

use crate::cluster::Cluster;
use crate::cluster::watch::{ObjectForm, Selection, WatchEvent, WatchPace, Watched};
use crate::engine::Engine;
use crate::handler::definition::Handler;
use crate::health::board::{Board, WatchOnBoard};
use crate::object::collection::Collection;
use crate::object::resource::Resource;
use crate::object::selector::Selector;
use crate::operator::follow::follow_in_task;
use crate::operator::observe::backbone::places;
use crate::operator::report::report_stopped;

/// The present watches.
#[derive(Default)]
pub(super) struct ChildWatches(BTreeMap<Place, ChildWatch>);

/// The group and plural of a resource, the namespace or `None` for all, and whether handlers refer to the kind.
type Place = (String, String, Option<String>, bool);

struct ChildWatch {
    resource: Arc<Resource>,
    collection: Arc<Collection>,
    purpose: Purpose,
    _on_board: Option<WatchOnBoard>,
    _task: AbortOnDropHandle<()>,
}

/// The purpose of a watch.
#[derive(Clone, Debug)]
enum Purpose {
    /// Children. `is_read` says that handlers read more of them than they have applied.
    Children { is_read: bool },
    /// Objects that these handlers refer to.
    Targets(Vec<Arc<Handler>>),
}

/// The kinds that handlers own, as served at present.
#[derive(Default)]
pub(super) struct OwnedKinds {
    kinds: Vec<(Resource, bool)>,
    /// The kinds that handlers refer to.
    targets: Vec<(Resource, Vec<Arc<Handler>>)>,
    /// The kinds that are not served.
    pub(super) missing: BTreeSet<String>,
}

/// The parts that a watch needs.
pub(super) struct WatchWith<'a> {
    pub(super) engine: &'a Engine,
    pub(super) cluster: &'a Cluster,
    pub(super) pace: &'a WatchPace,
    /// The namespaces that the operator serves; `None` for all.
    pub(super) namespaces: Option<&'a BTreeSet<String>>,
    /// Receives the watches for status pages, if they are enabled.
    pub(super) board: Option<&'a Board>,
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
        for kind in handlers.iter().flat_map(|handler| &handler.owns) {
            match preferred(&kind.selector) {
                Some(resource) => owned.add(resource, kind.is_read),
                None => drop(owned.missing.insert(kind.selector.to_string())),
            }
        }
        // A kind that is not served has no left-over children.
        for kind in handlers.iter().flat_map(|handler| &handler.formerly_owns) {
            if let Some(resource) = preferred(kind) {
                owned.add(resource, false);
            }
        }
        for handler in handlers {
            for kind in &handler.watches {
                match preferred(&kind.selector) {
                    Some(resource) => owned.add_target(resource, handler),
                    None => drop(owned.missing.insert(kind.selector.to_string())),
                }
            }
        }
        owned
    }

    fn add_target(&mut self, resource: &Resource, handler: &Arc<Handler>) {
        let mut known = self.targets.iter_mut();
        match known.find(|(it, _)| it.identity() == resource.identity()) {
            Some((_, handlers)) => handlers.push(handler.clone()),
            None => self.targets.push((resource.clone(), vec![handler.clone()])),
        }
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
    /// Starts and stops watches until they are the wanted ones.
    pub(super) fn reconcile(&mut self, owned: OwnedKinds, with: &WatchWith<'_>) {
        let children = owned.kinds.into_iter();
        let children = children.map(|(it, is_read)| (it, Purpose::Children { is_read }));
        let targets = owned.targets.into_iter();
        let targets = targets.map(|(it, handlers)| (it, Purpose::Targets(handlers)));
        let mut wanted = BTreeMap::new();
        for (resource, purpose) in children.chain(targets) {
            let resource = Arc::new(resource);
            let (group, plural) = resource.identity();
            let is_target = matches!(purpose, Purpose::Targets(_));
            let place = |namespace| (group.to_owned(), plural.to_owned(), namespace, is_target);
            for namespace in places(&resource, with.namespaces) {
                wanted.insert(place(namespace), (resource.clone(), purpose.clone()));
            }
        }
        self.0.retain(|place, watch| {
            let stays = wanted.get(place).is_some_and(|(resource, purpose)| {
                *resource == watch.resource && purpose.is_same(&watch.purpose)
            });
            if !stays {
                report_stopped(&watch.collection);
                match watch.purpose {
                    Purpose::Children { .. } => with.engine.close_children(&watch.collection),
                    Purpose::Targets(_) => with.engine.close_targets(&watch.collection),
                }
            }
            stays
        });
        for (place, (resource, purpose)) in wanted {
            let namespace = place.2.clone();
            let watch = || ChildWatch::start(resource, namespace, purpose, with);
            self.0.entry(place).or_insert_with(watch);
        }
    }
}

impl Purpose {
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Children { is_read: one }, Self::Children { is_read: other }) => one == other,
            // The handlers never change while the operator runs.
            (Self::Targets(_), Self::Targets(_)) => true,
            _ => false,
        }
    }
}

impl ChildWatch {
    fn start(
        resource: Arc<Resource>,
        namespace: Option<String>,
        purpose: Purpose,
        with: &WatchWith<'_>,
    ) -> Self {
        let watched = Watched::new(resource.clone(), namespace, with.pace.clone());
        let watched = match &purpose {
            Purpose::Children { is_read } => {
                let form = if *is_read { ObjectForm::Whole } else { ObjectForm::Metadata };
                let labels = with.engine.label_of_children();
                let selection = Selection { labels, ..Selection::default() };
                watched.selecting(selection).told_as(form)
            }
            Purpose::Targets(_) if is_secret(&resource) => watched.told_as(ObjectForm::Metadata),
            Purpose::Targets(_) => watched,
        };
        let collection = watched.collection.clone();
        let engine = with.engine.clone();
        let on_event = match &purpose {
            Purpose::Children { is_read } => {
                engine.open_children(&collection, *is_read);
                Engine::on_child
            }
            Purpose::Targets(handlers) => {
                engine.open_targets(&collection, handlers.clone());
                Engine::on_target
            }
        };
        let board = with.board;
        let on_board = board.map(|it| it.watch(collection.clone(), with.pace.inactivity));
        let health = on_board.as_ref().map(WatchOnBoard::teller);
        let of = collection.clone();
        let task = follow_in_task(with.cluster, watched, move |event: WatchEvent| {
            if let Some(health) = &health {
                health.on_event(&event);
            }
            on_event(&engine, &of, &event);
        });
        Self { resource, collection, purpose, _on_board: on_board, _task: task }
    }
}

/// Returns whether the resource is Secrets. Functions need no secret values to find the objects concerned, so only metadata is watched.
fn is_secret(resource: &Resource) -> bool {
    resource.group.is_empty() && resource.kind == "Secret"
}
