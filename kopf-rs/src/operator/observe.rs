//! Keeps track of resources and namespaces, and wants a watch for each one to serve while the cluster changes.
//!
//! Guarantees that a resource that is missing at first, disappears or comes back is followed, and that objects stay with their workers when
//! their resource is served in another version. Must not know what the engine does with objects.

use std::collections::{BTreeSet, HashMap};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::admission::configuration::Found;
use crate::cluster::Cluster;
use crate::cluster::error::ClusterError;
use crate::cluster::watch::{WatchEvent, WatchPace};
use crate::engine::Engine;
use crate::engine::follower::Follower;
use crate::engine::report::report_of_operator;
use crate::engine::resource_handlers::ResourceHandlers;
use crate::handler::definition::Handler;
use crate::happening::serving::{Purpose, Serving};
use crate::health::board::Board;
use crate::object::event::EventType;
use crate::object::resource::Resource;
use crate::object::selector::Selector;
use crate::operator::follow::membership;
use crate::operator::leasing::Role;
use crate::operator::matching::{ServedResource, match_handlers};
use crate::operator::report::report_resumed;
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
pub(crate) mod peering;
mod schedule;
#[cfg(test)]
mod tests;
mod turns;
mod unserved;
mod watch_set;

use backbone::{Namespaces, custom_resource_definitions, generation, namespaces};
use children::owned_kinds;
use leading::Leading;
use peering::{PeeringSetup, Peerings};
use schedule::{DiscoverySchedule, Event, is_served};
use unserved::Unserved;
use watch_set::{Wanted, WatchMessage, WatchSet};

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
    /// The result of the last discovery.
    resources: Vec<Resource>,
    ids: HashMap<[String; 2], u32>,
    watches: WatchSet,
    peerings: Peerings,
    is_paused: bool,
    leading: Leading,
    namespaces: Namespaces,
    schedule: DiscoverySchedule,
    discovery: Discovery,
    /// The last known generations of the definitions.
    generations: HashMap<String, Option<i64>>,
    unserved: Unserved,
    /// The served resources.
    served: Vec<Resource>,
}

/// Runs discovery concurrently with all other work.
struct Discovery {
    running: Option<BoxFuture<'static, Discovered>>,
    next: Option<Instant>,
    failures: Backoff,
    outage: OutageGuard,
}

type Discovered = Result<Vec<Resource>, ClusterError>;

impl Observer {
    pub(crate) fn new(setup: ObserverSetup) -> Self {
        let (watching, scanning) = (&setup.settings.watching, &setup.settings.scanning);
        let networking = &setup.settings.networking;
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
                clock: setup.clock,
            }),
            is_paused: false,
            leading: Leading::new(setup.role.clone(), &setup.engine),
            watches: WatchSet::new(setup.engine.clone(), setup.cluster.clone(), pace, setup.board.clone()),
            resources: Vec::new(),
            ids: HashMap::new(),
            namespaces: Namespaces::new(&setup.scope, scanning.disabled),
            schedule: DiscoverySchedule::new(scanning.interval, !scanning.disabled),
            discovery: Discovery {
                running: None,
                next: None,
                failures: Backoff::new(networking.first_backoff, networking.longest_backoff),
                outage: membership(&setup.cluster),
            },
            generations: HashMap::new(),
            served: Vec::new(),
            unserved: Unserved::default(),
            setup,
        }
    }

    /// Observes for ever; with `once`, until no work is left. Returns the resources that could not be served. Fails only if discovery is
    /// refused.
    pub(crate) async fn run(&mut self, once: bool) -> Result<Vec<String>, ClusterError> {
        self.discover_at_first().await?;
        self.take_in_discovered();
        loop {
            let engine = self.setup.engine.clone();
            if self.namespaces.are_known() && !self.is_paused {
                engine.are_watched();
            }
            let may_settle = once && self.is_complete() && self.is_at_work();
            tokio::select! {
                biased;
                message = self.watches.next() => self.on_message(message),
                event = self.discovery.event() => self.on_discovery(event),
                () = self.peerings.changed() => self.look_at_peers(),
                role = self.leading.changed() => self.on_role(role),
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

    /// Returns the watches of namespaces and definitions.
    fn backbone(&self) -> impl Iterator<Item = Wanted> {
        let is_by_namespace = self.namespaces.some().is_some();
        let namespaces = is_by_namespace.then(|| (namespaces(), Purpose::Operator));
        let definitions = (custom_resource_definitions(), self.purpose_of_definitions());
        let both = namespaces.into_iter().chain([definitions]);
        let both = both.filter(move |_| !self.setup.settings.scanning.disabled);
        both.map(move |(resource, purpose)| Wanted {
            follower: None,
            purpose,
            // Namespaces and definitions are never sharded, so all of them are watched if the function fails.
            selection: selection(&self.setup.settings.watching, &resource, &[]).unwrap_or_default(),
            resource: Arc::new(resource),
        })
    }

    fn purpose_of_definitions(&self) -> Purpose {
        let handlers = self.setup.handlers.iter();
        let handlers = handlers.chain(&self.setup.admission_handlers);
        if new_kinds_matter(handlers.map(|it| &**it), &self.resources) {
            Purpose::Operator
        } else {
            Purpose::Spare
        }
    }

    fn on_message(&mut self, message: WatchMessage) {
        let Some((collection, is_of_engine, event)) = self.watches.accept(message) else {
            return;
        };
        match collection.resource.kind.as_str() {
            _ if is_of_engine => {
                if matches!(event, WatchEvent::Trouble(ClusterError::NotFound(_))) {
                    self.schedule(&Event::ResourceMissing);
                }
            }
            "Namespace" => {
                if self.namespaces.on_event(event) {
                    self.reconcile();
                }
            }
            "CustomResourceDefinition" => self.on_definitions(&event),
            _ => {
                self.peerings.watched(&collection, event);
                self.look_at_peers();
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
            WatchEvent::Synced(_) => self.schedule(&Event::DefinitionsListed),
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
        self.peerings.publish_pause();
    }

    /// Pauses or resumes according to the peers. Returns the watches of peering objects.
    fn pause_for_peers(&mut self) -> Vec<Wanted> {
        let namespaces = self.namespaces.some();
        let are_known = self.namespaces.are_known();
        let leads = self.leading.leads();
        // A standby instance is no peer: all instances of an operator share one record.
        let watches = self.peerings.reconcile((&self.resources, leads), namespaces, are_known);
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
        watches
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
        let troubled = self.watches.troubles();
        let troubled = troubled.map(|(of, error)| format!("{of} cannot be watched: {error}"));
        let mut unserved: Vec<_> = self.unserved.lines().cloned().chain(troubled).collect();
        unserved.sort();
        unserved
    }

    /// Starts and stops watches until they are the wanted ones. Returns whether some handlers are for resources that are not served or
    /// ambiguous.
    fn reconcile(&mut self) -> bool {
        let mut wanted = self.pause_for_peers();
        wanted.extend(self.backbone());
        let unknown = self.setup.cluster.unknown_versions();
        let mut matched = match_handlers(&self.setup.handlers, &self.resources, &unknown);
        let watching = &self.setup.settings.watching;
        matched.drop_unselected(|served| selection(watching, &served.resource, &[]));
        let label = self.setup.engine.label_of_children();
        let (owned, missing) = owned_kinds(&self.setup.handlers, &self.resources, &label);
        wanted.extend(owned);
        matched.unresolved_too(&missing);
        matched.unresolved_too(&self.never_asked());
        self.publish_found();
        self.report_served(&matched.resources);
        if !self.is_paused {
            wanted.extend(self.of_workers(matched.resources));
        }
        let namespaces = self.namespaces.some();
        self.watches.reconcile(wanted, namespaces, self.is_paused);
        // Only now, because the operator would be ready as long as it has no watch to wait for.
        if let Some(board) = &self.setup.board {
            board.discovered(&matched.unserved, self.namespaces.are_known());
        }
        let names = self.namespaces.missing();
        if !names.is_empty() {
            matched.unserved.push(Serving::NamespacesMissing { names });
        }
        self.unserved.replace(matched.unserved);
        self.peerings.publish_pause();
        matched.is_unresolved
    }

    /// Returns the kinds of admission handlers that are not served. A function may select nothing, so functions do not count.
    fn never_asked(&self) -> BTreeSet<String> {
        let selectors = self.setup.admission_handlers.iter();
        let selectors = selectors.filter_map(|it| it.selector());
        let unserved = selectors.filter(|it| !it.is_function() && it.select(&self.resources).is_empty());
        unserved.map(ToString::to_string).collect()
    }

    /// Publishes the resources and namespaces, if there is a receiver.
    fn publish_found(&self) {
        if self.setup.found.receiver_count() == 0 || !self.namespaces.are_known() {
            return;
        }
        let (resources, namespaces) = (self.resources.clone(), self.namespaces.some().cloned());
        let found = Found { resources, namespaces, namespace_expression: None };
        self.setup.found.send_if_modified(|known| {
            let is_news = known.as_ref() != Some(&found);
            *known = Some(found);
            is_news
        });
    }

    /// Reports the served resources: in one line at the start, so that the log shows a working operator, and in one for resources that are served
    /// later or again. Also reports those that the server no longer serves.
    fn report_served(&mut self, resources: &[ServedResource]) {
        let all: Vec<_> = resources.iter().map(|served| served.resource.clone()).collect();
        let is_in =
            |those: &[Resource], it: &Resource| those.iter().any(|other| other.to_string() == it.to_string());
        let begun: Vec<_> = all.iter().filter(|it| !is_in(&self.served, it)).cloned().collect();
        let is_gone = |it: &&Resource| {
            let is_replaced = all.iter().any(|other| other.identity() == it.identity());
            !is_replaced && !is_in(&self.resources, it)
        };
        let gone: Vec<_> = self.served.iter().filter(is_gone).cloned().collect();
        self.served = all;
        if !begun.is_empty() {
            report_of_operator(&Serving::Begun { resources: begun });
        }
        if !gone.is_empty() {
            report_of_operator(&Serving::Gone { resources: gone });
        }
    }

    /// Returns the watches of objects with handlers.
    fn of_workers(&mut self, resources: Vec<ServedResource>) -> Vec<Wanted> {
        let wanted = |served: ServedResource| {
            let watching = &self.setup.settings.watching;
            let handlers = [&*served.handlers, &*served.withheld].concat();
            let selection = selection(watching, &served.resource, &handlers).ok()?;
            let id = self.id(&served.resource);
            let resource = Arc::new(served.resource);
            let kind = ResourceHandlers::new(id, resource.clone(), served.handlers);
            let kind = kind.withholding(served.withheld);
            let kind = Arc::new(kind.selected(selection.may_be_left()));
            Some(Wanted {
                follower: Some(Follower::Workers(kind)),
                purpose: Purpose::Handlers,
                resource,
                selection,
            })
        };
        resources.into_iter().filter_map(wanted).collect()
    }

    /// Returns a number that is the same for all versions of a resource.
    fn id(&mut self, resource: &Resource) -> u32 {
        let next = u32::try_from(self.ids.len()).unwrap_or(u32::MAX);
        let (group, plural) = resource.identity();
        let name = [group, plural].map(str::to_owned);
        *self.ids.entry(name).or_insert(next)
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

/// Returns whether one of these handlers is, or may become, responsible for a custom kind, so that definitions must be watched.
pub(crate) fn new_kinds_matter<'a>(
    handlers: impl IntoIterator<Item = &'a Handler>,
    resources: &[Resource],
) -> bool {
    let is_built_in = |selector: &Selector| {
        let found = selector.select(resources);
        selector.is_specific() && !found.is_empty() && found.iter().all(|it| !it.is_custom())
    };
    handlers.into_iter().any(|handler| {
        let owns = handler.owns.iter().map(|it| &it.selector);
        let watches = handler.watches.iter().map(|it| &it.selector);
        let selectors = handler.selector().into_iter();
        let mut all = selectors.chain(owns).chain(watches);
        all.any(|selector| !is_built_in(selector))
    })
}
