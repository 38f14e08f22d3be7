//! Keeps track of resources and namespaces, and keeps a watch for each one to serve while the cluster changes.
//!
//! Guarantees that a resource that is missing at first, disappears or comes back is followed, that objects stay with their workers when
//! their resource is served in another version, and that each failure is attributed to its own watch. Must not know what the engine does
//! with objects.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::cluster::Cluster;
use crate::cluster::error::ClusterError;
use crate::cluster::watch::{Selection, WatchEvent, WatchPace, Watched};
use crate::engine::Engine;
use crate::engine::queue::StreamId;
use crate::engine::report::report_of_operator;
use crate::engine::resource_handlers::ResourceHandlers;
use crate::handler::definition::Handler;
use crate::happening::serving::{Purpose, Serving};
use crate::health::board::{Board, WatchOnBoard};
use crate::object::collection::Collection;
use crate::object::event::EventType;
use crate::object::resource::Resource;
use crate::operator::admission::managed::Found;
use crate::operator::follow::{follow, membership, spawn};
use crate::operator::leasing::Role;
use crate::operator::matching::{ServedResource, match_handlers};
use crate::operator::report::{report_resumed, report_stopped};
use crate::operator::scope::Scope;
use crate::operator::selection::selection;
use crate::operator::settings::Settings;
use crate::reaction::peering::OwnPeer;
use crate::rt::backoff::Backoff;
use crate::rt::clock::Clock;
use crate::rt::outage::OutageGuard;

mod backbone;
mod children;
mod leading;
mod new_kinds;
pub(crate) mod peering;
mod schedule;
#[cfg(test)]
mod tests;
mod turns;
mod unserved;

use children::{ChildWatches, OwnedKinds, WatchWith};

use backbone::{Namespaces, custom_resource_definitions, generation, namespaces, places};
use leading::Leading;
use peering::{PeeringSetup, Peerings};
use schedule::{DiscoverySchedule, Event, is_served};
use unserved::Unserved;

/// The parts that the observer needs.
pub(crate) struct ObserverSetup {
    pub(crate) engine: Engine,
    pub(crate) cluster: Cluster,
    pub(crate) handlers: Vec<Arc<Handler>>,
    pub(crate) scope: Scope,
    pub(crate) settings: Settings,
    pub(crate) clock: Clock,
    /// The operator's own record for other operators; `None` for a standalone operator.
    pub(crate) peer: Option<OwnPeer>,
    /// The role of this instance, if instances share a Lease.
    pub(crate) role: Option<watch::Receiver<Role>>,
    /// Receives the served resources for status pages, if they are enabled.
    pub(crate) board: Option<Board>,
    /// The admission handlers, for which the observer reports kinds that are not served.
    pub(crate) admission_handlers: Vec<Arc<Handler>>,
    /// Publishes the resources and namespaces of the cluster.
    pub(crate) found: watch::Sender<Option<Found>>,
}

/// Keeps the watches up to date. Dropping it ends them all.
pub(crate) struct Observer {
    setup: ObserverSetup,
    pace: WatchPace,
    /// The result of the last discovery.
    resources: Vec<Resource>,
    ids: HashMap<[String; 2], u32>,
    watches: BTreeMap<WatchKey, Watch>,
    children: ChildWatches,
    peerings: Peerings,
    is_paused: bool,
    leading: Leading,
    /// The streams of watches that were ended for a pause.
    suspended: BTreeMap<WatchKey, StreamId>,
    /// The watches of deleted namespaces, with the time at which they end.
    ending: VecDeque<(Instant, WatchKey, Watch)>,
    /// The watches of namespaces and definitions.
    own_watches: Vec<AbortOnDropHandle<()>>,
    next_stream: StreamId,
    namespaces: Namespaces,
    schedule: DiscoverySchedule,
    discovery: Discovery,
    /// The last known generations of the definitions.
    generations: HashMap<String, Option<i64>>,
    unserved: Unserved,
    /// The names of the served resources.
    served: BTreeSet<String>,
    tell: UnboundedSender<News>,
    news: UnboundedReceiver<News>,
}

/// The time for which the watch of a deleted namespace stays open. The server may report the deletion of its objects later than that of the
/// namespace, and they have to count as deleted, not just as no longer watched.
const GRACE: Duration = Duration::from_secs(5);

/// A resource in any version, and its scope: one namespace, or the whole cluster.
type WatchKey = (u32, Option<String>);

/// A watch to keep: its handlers, and the selection of its objects.
type WantedWatch = (Arc<ResourceHandlers>, Selection);

struct Watch {
    stream: StreamId,
    kind: Arc<ResourceHandlers>,
    collection: Arc<Collection>,
    outage: OutageGuard,
    /// The present failure of the watch.
    trouble: Option<ClusterError>,
    _on_board: Option<WatchOnBoard>,
    _task: AbortOnDropHandle<()>,
}

/// Runs discovery concurrently with all other work.
struct Discovery {
    running: Option<BoxFuture<'static, Discovered>>,
    next: Option<Instant>,
    failures: Backoff,
    outage: OutageGuard,
}

type Discovered = Result<Vec<Resource>, ClusterError>;

/// A report of a watch to the observer.
enum News {
    Definitions(WatchEvent),
    Namespaces(WatchEvent),
    /// The watch at a place has failed or recovered; the stream distinguishes it from earlier watches at that place.
    Health(WatchKey, StreamId, Option<ClusterError>),
}

impl Observer {
    pub(crate) fn new(setup: ObserverSetup) -> Self {
        let (watching, scanning) = (&setup.settings.watching, &setup.settings.scanning);
        let networking = &setup.settings.networking;
        let (tell, news) = unbounded_channel();
        let pace = WatchPace {
            inactivity: watching.inactivity_timeout,
            server_timeout: watching.server_timeout,
            backoff: (watching.reconnect_backoff, watching.longest_backoff),
            page: watching.chunk_size,
            client_timeout: watching.client_timeout,
            streaming: watching.initial_streaming,
        };
        Self {
            peerings: Peerings::new(PeeringSetup {
                own: setup.peer.clone(),
                settings: setup.settings.peering.clone(),
                cluster: setup.cluster.clone(),
                pace: pace.clone(),
                clock: setup.clock,
            }),
            is_paused: false,
            leading: Leading::new(setup.role.clone(), &setup.engine),
            suspended: BTreeMap::new(),
            pace,
            resources: Vec::new(),
            ids: HashMap::new(),
            watches: BTreeMap::new(),
            children: ChildWatches::default(),
            ending: VecDeque::new(),
            own_watches: Vec::new(),
            next_stream: 0,
            namespaces: Namespaces::new(&setup.scope, scanning.disabled),
            schedule: DiscoverySchedule::new(scanning.interval, !scanning.disabled),
            discovery: Discovery {
                running: None,
                next: None,
                failures: Backoff::new(networking.first_backoff, networking.longest_backoff),
                outage: membership(&setup.cluster),
            },
            generations: HashMap::new(),
            served: BTreeSet::new(),
            unserved: Unserved::default(),
            setup,
            tell,
            news,
        }
    }

    /// Observes for ever; with `once`, until no work is left. Returns the resources that could not be served. Fails only if discovery is
    /// refused.
    pub(crate) async fn run(&mut self, once: bool) -> Result<Vec<String>, ClusterError> {
        self.discover_at_first().await?;
        self.watch_backbone();
        self.take_in_discovered();
        loop {
            let engine = self.setup.engine.clone();
            if self.namespaces.are_known() && !self.is_paused {
                engine.are_watched();
            }
            let may_settle = once && self.is_complete() && self.is_at_work();
            tokio::select! {
                biased;
                Some(news) = self.news.recv() => self.on_news(news),
                event = self.discovery.event() => self.on_discovery(event),
                () = self.peerings.changed() => self.look_at_peers(),
                role = self.leading.changed() => self.on_role(role),
                Some(()) = end_of_grace(&self.ending) => self.end_first(),
                () = engine.settled(), if may_settle => return Ok(self.report_of_unserved()),
            }
        }
    }

    async fn discover_at_first(&mut self) -> Result<(), ClusterError> {
        loop {
            match self.setup.cluster.discover().await {
                Ok(resources) => {
                    self.discovery.has_succeeded();
                    self.resources = resources;
                    return Ok(());
                }
                Err(error) if error.is_transient() => {
                    let pause = self.discovery.note_failure(&error, &self.setup.cluster);
                    tokio::time::sleep(pause).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn watch_backbone(&mut self) {
        if self.namespaces.are_watched() {
            self.watch_for_self(namespaces(), Purpose::Operator, News::Namespaces);
        }
        if !self.setup.settings.scanning.disabled {
            let purpose = self.purpose_of_definitions();
            self.watch_for_self(custom_resource_definitions(), purpose, News::Definitions);
        }
    }

    fn purpose_of_definitions(&self) -> Purpose {
        let handlers = self.setup.handlers.iter();
        let handlers = handlers.chain(&self.setup.admission_handlers);
        if new_kinds::may_matter(handlers.map(|it| &**it), &self.resources) {
            Purpose::Operator
        } else {
            Purpose::Spare
        }
    }

    fn watch_for_self(&mut self, resource: Resource, purpose: Purpose, news: fn(WatchEvent) -> News) {
        let tell = self.tell.clone();
        // Namespaces and definitions are never sharded, so all of them are watched if the function fails.
        let selection = selection(&self.setup.settings.watching, &resource, &[]);
        let selection = selection.unwrap_or_default();
        let watched = Watched::new(Arc::new(resource), None, self.pace.clone());
        let watched = watched.selecting(selection);
        let task = spawn(purpose, &self.setup.cluster, watched, move |event| {
            // Fails only if the observer is gone, and then this task is about to end.
            let _ = tell.send(news(event));
        });
        self.own_watches.push(task);
    }

    fn on_news(&mut self, news: News) {
        match news {
            News::Health(place, stream, trouble) => self.on_health(&place, stream, trouble),
            News::Definitions(event) => self.on_definitions(&event),
            News::Namespaces(event) => {
                if self.namespaces.on_event(event) {
                    self.reconcile();
                }
            }
        }
    }

    fn on_health(&mut self, place: &WatchKey, stream: StreamId, trouble: Option<ClusterError>) {
        let watch = self.watches.get_mut(place);
        if let Some(watch) = watch.filter(|watch| watch.stream == stream) {
            watch.trouble = trouble;
            if watch.is_missing() {
                self.schedule(&Event::ResourceMissing);
            }
        }
    }

    fn on_definitions(&mut self, event: &WatchEvent) {
        match event {
            WatchEvent::Listing(_) => self.schedule(&Event::DefinitionsListing),
            WatchEvent::Object(EventType::Deleted, raw) => {
                let name = raw.facts().name.clone();
                self.generations.remove(&name);
                self.setup.cluster.forget_pruned(&name, true);
                self.schedule(&Event::DefinitionDeleted { name: &name });
            }
            WatchEvent::Object(event, raw) => {
                let name = &raw.facts().name;
                let is_served = is_served(name, &self.resources);
                let generation = generation(raw);
                let known = self.generations.insert(name.clone(), generation);
                let is_same = generation.is_some() && known == Some(generation);
                // Instances that share a definition write their heartbeats into its metadata, which changes no schema.
                if is_same && is_served && *event == EventType::Modified {
                    return;
                }
                let has_changed = *event != EventType::Listed;
                self.setup.cluster.forget_pruned(name, has_changed);
                self.schedule(&Event::DefinitionExists { name, is_served });
            }
            WatchEvent::Synced => self.schedule(&Event::DefinitionsListed),
            WatchEvent::Trouble(ClusterError::Denied { .. } | ClusterError::NotFound(_)) => {
                let interval = self.setup.settings.scanning.interval;
                let is_needed = self.purpose_of_definitions() != Purpose::Spare;
                report_of_operator(&Serving::DefinitionsUnwatchable { interval, is_needed });
                self.schedule(&Event::DefinitionsUnwatchable);
            }
            WatchEvent::Trouble(_) | WatchEvent::Resumed | WatchEvent::Silent | WatchEvent::Bookmark => {}
        }
    }

    fn schedule(&mut self, event: &Event<'_>) {
        self.discovery.next = self.schedule.on(event, Instant::now());
    }

    /// Starts a discovery that is due, or processes the result of one that has ended.
    fn on_discovery(&mut self, ended: Option<Discovered>) {
        match ended {
            None => {
                self.schedule(&Event::Discovering);
                let cluster = self.setup.cluster.clone();
                let discovering = async move { cluster.discover().await };
                self.discovery.running = Some(discovering.boxed());
            }
            Some(Ok(resources)) => {
                self.discovery.has_succeeded();
                self.resources = resources;
                self.take_in_discovered();
            }
            Some(Err(error)) => {
                let pause = self.discovery.note_failure(&error, &self.setup.cluster);
                let is_transient = error.is_transient();
                self.schedule(&Event::Failed { pause, is_transient });
            }
        }
    }

    /// Serves the discovered resources.
    fn take_in_discovered(&mut self) {
        let is_unresolved = self.reconcile();
        let discovered = Event::Discovered { resources: &self.resources, is_unresolved };
        self.discovery.next = self.schedule.on(&discovered, Instant::now());
    }

    /// Pauses or resumes after a change of the peers.
    fn look_at_peers(&mut self) {
        if self.leading.leads() && self.peerings.is_paused() != self.is_paused {
            self.reconcile();
        }
        self.peerings.tell_pause();
    }

    fn pause_for_peers(&mut self) {
        let namespaces = self.namespaces.some();
        let are_known = self.namespaces.are_known();
        let leads = self.leading.leads();
        // A standby instance is no peer: all instances of an operator share one record.
        self.peerings.reconcile((&self.resources, leads), namespaces, are_known);
        let is_paused = leads && self.peerings.is_paused();
        match (self.is_paused, is_paused) {
            (false, true) => self.setup.engine.pause(),
            (true, false) => self.setup.engine.resume(),
            _ => {}
        }
        self.is_paused = is_paused;
        if let Some(board) = &self.setup.board {
            board.pauses(is_paused);
        }
    }

    /// Ends all watches. Returns the peerings, which the caller leaves after the last write.
    pub(crate) fn into_peerings(self) -> Peerings {
        self.peerings
    }

    /// Returns whether all announced resources have been discovered.
    fn is_complete(&self) -> bool {
        let is_idle = self.discovery.running.is_none();
        is_idle && self.schedule.is_settled() && self.namespaces.are_known()
    }

    /// Returns one line for each resource that has handlers but is not served or cannot be watched.
    fn report_of_unserved(&self) -> Vec<String> {
        let troubled = self.watches.values().filter_map(|watch| {
            let error = watch.trouble.as_ref()?;
            Some(format!("{} cannot be watched: {error}", watch.collection))
        });
        let mut unserved: Vec<_> = self.unserved.lines().cloned().chain(troubled).collect();
        unserved.sort();
        unserved
    }

    /// Starts and stops watches until they are the wanted ones. Returns whether some handlers are for resources that are not served or
    /// ambiguous.
    fn reconcile(&mut self) -> bool {
        self.pause_for_peers();
        let unknown = self.setup.cluster.unknown_versions();
        let mut matched = match_handlers(&self.setup.handlers, &self.resources, &unknown);
        let watching = &self.setup.settings.watching;
        matched.drop_unselected(|served| selection(watching, &served.resource, &[]));
        let owned = OwnedKinds::of(&self.setup.handlers, &self.resources);
        matched.unresolved_too(&owned.missing);
        matched.unresolved_too(&self.never_asked());
        self.children.reconcile(
            owned,
            &WatchWith {
                engine: &self.setup.engine,
                cluster: &self.setup.cluster,
                pace: &self.pace,
                namespaces: self.namespaces.some(),
                board: self.setup.board.as_ref(),
            },
        );
        self.tell_found();
        self.tell_served(&matched.resources);
        if let Some(board) = &self.setup.board {
            board.discovered(&matched.unserved, self.namespaces.are_known());
        }
        self.unserved.replace(matched.unserved);
        let wanted = if self.is_paused {
            // The objects of deleted namespaces are not handled during the pause either.
            for (_, place, watch) in self.ending.drain(..) {
                self.watches.insert(place, watch);
            }
            BTreeMap::new()
        } else {
            self.wanted(matched.resources)
        };
        let places = self.watches.keys();
        let unwanted = places.filter(|it| !wanted.contains_key(*it));
        for place in unwanted.cloned().collect::<Vec<_>>() {
            self.end(place);
        }
        for (place, (kind, selection)) in wanted {
            match self.watches.remove(&place) {
                Some(watch) if watch.kind.is_same(&kind) && !watch.is_missing() => {
                    self.watches.insert(place, watch);
                }
                former => {
                    let former = former.or_else(|| self.take_ending(&place));
                    self.start(place, (kind, selection), former);
                }
            }
        }
        if !self.is_paused {
            for stream in std::mem::take(&mut self.suspended).into_values() {
                self.setup.engine.close(stream);
            }
        }
        self.peerings.tell_pause();
        matched.is_unresolved
    }

    /// Ends a watch: at once, or a little later if its namespace is deleted.
    fn end(&mut self, place: WatchKey) {
        let Some(watch) = self.watches.remove(&place) else {
            return;
        };
        if self.is_paused {
            report_stopped(&watch.collection);
            self.setup.engine.suspend(watch.stream);
            self.suspended.insert(place, watch.stream);
            return;
        }
        let is_gone = |name: &str| !self.namespaces.some().is_some_and(|it| it.contains(name));
        if place.1.as_deref().is_some_and(is_gone) {
            let end = Instant::now() + GRACE;
            self.ending.push_back((end, place, watch));
        } else {
            self.stop(&watch);
        }
    }

    fn end_first(&mut self) {
        if let Some((_, _, watch)) = self.ending.pop_front() {
            self.stop(&watch);
        }
    }

    /// Takes the watch at a place whose namespace exists again before the watch was ended.
    fn take_ending(&mut self, place: &WatchKey) -> Option<Watch> {
        let found = self.ending.iter().position(|(_, it, _)| it == place)?;
        self.ending.remove(found).map(|(_, _, watch)| watch)
    }

    fn stop(&self, watch: &Watch) {
        report_stopped(&watch.collection);
        self.setup.engine.close(watch.stream);
    }

    /// Returns the kinds of admission handlers that are not served. A function may select nothing, so functions do not count.
    fn never_asked(&self) -> BTreeSet<String> {
        let selectors = self.setup.admission_handlers.iter();
        let selectors = selectors.filter_map(|it| it.selector());
        let unserved = selectors.filter(|it| !it.is_function() && it.select(&self.resources).is_empty());
        unserved.map(ToString::to_string).collect()
    }

    /// Publishes the resources and namespaces, if there is a receiver.
    fn tell_found(&self) {
        if self.setup.found.receiver_count() == 0 || !self.namespaces.are_known() {
            return;
        }
        let found = Found { resources: self.resources.clone(), namespaces: self.namespaces.some().cloned() };
        self.setup.found.send_if_modified(|known| {
            let is_news = known.as_ref() != Some(&found);
            *known = Some(found);
            is_news
        });
    }

    /// Reports the served resources: in one line at the start, so that the log shows a working operator, and in one for resources that are served
    /// later or again.
    fn tell_served(&mut self, resources: &[ServedResource]) {
        let all = resources.iter().map(|served| &served.resource);
        let begun = all.clone().filter(|it| !self.served.contains(&it.to_string()));
        let begun: Vec<_> = begun.cloned().collect();
        self.served = all.map(ToString::to_string).collect();
        if !begun.is_empty() {
            report_of_operator(&Serving::Begun { resources: begun });
        }
    }

    fn wanted(&mut self, resources: Vec<ServedResource>) -> BTreeMap<WatchKey, WantedWatch> {
        let mut wanted = BTreeMap::new();
        for served in resources {
            let id = self.id(&served.resource);
            let watching = &self.setup.settings.watching;
            let handlers = [&*served.handlers, &*served.withheld].concat();
            let Ok(selection) = selection(watching, &served.resource, &handlers) else {
                continue;
            };
            let places = places(&served.resource, self.namespaces.some());
            let kind = ResourceHandlers::new(id, Arc::new(served.resource), served.handlers);
            let kind = kind.withholding(served.withheld);
            let kind = Arc::new(kind.selected(selection.may_be_left()));
            let watch = (kind, selection);
            let places = places.into_iter();
            wanted.extend(places.map(|namespace| ((id, namespace), watch.clone())));
        }
        wanted
    }

    /// Returns a number that is the same for all versions of a resource.
    fn id(&mut self, resource: &Resource) -> u32 {
        let next = u32::try_from(self.ids.len()).unwrap_or(u32::MAX);
        let (group, plural) = resource.identity();
        let name = [group, plural].map(str::to_owned);
        *self.ids.entry(name).or_insert(next)
    }

    /// Starts a watch, which takes over the objects of the former one at that place.
    fn start(&mut self, place: WatchKey, wanted: WantedWatch, former: Option<Watch>) {
        let (kind, selection) = wanted;
        let stream = self.next_stream;
        self.next_stream += 1;
        let (engine, cluster) = (self.setup.engine.clone(), self.setup.cluster.clone());
        let suspended = self.suspended.remove(&place);
        let replaces = former.as_ref().map(|former| former.stream).or(suspended);
        let flow = engine.open(stream, kind.clone(), replaces);
        let outage = former.map_or_else(|| membership(&cluster), |former| former.outage);
        let watched = Watched::new(kind.resource.clone(), place.1.clone(), self.pace.clone());
        let watched = watched.selecting(selection).into_flow(flow);
        let collection = watched.collection.clone();
        let on_board =
            self.setup.board.as_ref().map(|board| board.watch(collection.clone(), self.pace.inactivity));
        let health = on_board.as_ref().map(WatchOnBoard::teller);
        let (tell, here) = (self.tell.clone(), place.clone());
        let resource = kind.resource.clone();
        let following = follow(cluster, watched, outage.clone(), move |event| {
            if let Some(health) = &health {
                health.on_event(&event);
            }
            let trouble = match &event {
                WatchEvent::Trouble(error) => Some(Some(error.clone())),
                WatchEvent::Resumed => Some(None),
                _ => None,
            };
            if let Some(trouble) = trouble {
                // Fails only if the observer is gone, and then this task is about to end.
                let _ = tell.send(News::Health(here.clone(), stream, trouble));
            }
            let is_listed = matches!(event, WatchEvent::Synced);
            engine.feed(stream, event);
            if is_listed {
                engine.listed(&resource, here.1.as_deref());
            }
        });
        let watch = Watch {
            stream,
            kind,
            collection,
            outage,
            trouble: None,
            _on_board: on_board,
            _task: AbortOnDropHandle::new(tokio::spawn(following)),
        };
        self.watches.insert(place, watch);
    }
}

/// Waits for the end of the first of these watches; `None` if there is none. Cancel-safe.
async fn end_of_grace(ending: &VecDeque<(Instant, WatchKey, Watch)>) -> Option<()> {
    let (end, _, _) = ending.front()?;
    tokio::time::sleep_until(*end).await;
    Some(())
}

impl Watch {
    /// Returns whether the resource was not found at the last request.
    fn is_missing(&self) -> bool {
        matches!(self.trouble, Some(ClusterError::NotFound(_)))
    }
}

impl Discovery {
    /// Returns `None` when a discovery is due, or the outcome of one that has ended. Cancel-safe.
    async fn event(&mut self) -> Option<Discovered> {
        if let Some(running) = &mut self.running {
            let outcome = running.await;
            self.running = None;
            return Some(outcome);
        }
        match self.next {
            Some(at) => tokio::time::sleep_until(at).await,
            None => pending().await,
        }
        None
    }

    /// Reports a failed discovery. Returns the pause before the next attempt.
    fn note_failure(&mut self, error: &ClusterError, cluster: &Cluster) -> Duration {
        let asked_for = error.retry_after().unwrap_or_default();
        let pause = self.failures.next_pause_after(asked_for, cluster.rng());
        // A discovery concerns no single resource.
        let name = error.outage(&Resource::default());
        report_of_operator(&Serving::DiscoveryFailed {
            error: error.to_string(),
            pause,
            is_news: self.outage.join(&name).is_some(),
        });
        pause
    }

    fn has_succeeded(&mut self) {
        self.failures.reset();
        report_resumed(self.outage.leave(), |is_news| Serving::DiscoveryResumed { is_news });
    }
}
