//! Which kinds and namespaces exist, and a watch for each that is served: kept right while the cluster changes.
//!
//! Promises that a kind that is missing at first, goes away or comes back is followed, and that each trouble stays with the
//! kind it is about. Must not know what the engine does with objects.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use crate::cluster::Cluster;
use crate::cluster::error::ClusterError;
use crate::cluster::watch::{WatchEvent, WatchPace, Watched};
use crate::engine::Engine;
use crate::engine::kind::Kind;
use crate::engine::queue::StreamId;
use crate::handler::decl::Handler;
use crate::object::event::EventType;
use crate::object::resource::Resource;
use crate::operator::scope::Scope;
use crate::operator::serve::serve;
use crate::operator::settings::Settings;
use crate::operator::stream::follow;
use crate::rt::backoff::Backoff;

mod backbone;

use backbone::{Namespaces, custom_resource_definitions, namespaces};

/// What the observer needs.
pub(crate) struct Surroundings {
    pub(crate) engine: Engine,
    pub(crate) cluster: Cluster,
    pub(crate) handlers: Vec<Arc<Handler>>,
    pub(crate) scope: Scope,
    pub(crate) settings: Settings,
}

/// Keeps the watches right. Dropping it ends them all.
pub(crate) struct Observer {
    with: Surroundings,
    pace: WatchPace,
    resources: Vec<Resource>,
    ids: HashMap<[String; 3], u32>,
    streams: BTreeMap<Place, Stream>,
    next_stream: StreamId,
    namespaces: Namespaces,
    definitions: Definitions,
    /// Definitions (`plural.group`) whose resources the server did not name yet: it does so a moment later.
    coming: BTreeSet<String>,
    scan: Scan,
    /// What cannot be served, as things are now.
    warned: BTreeSet<String>,
    tasks: JoinSet<()>,
    tell: UnboundedSender<News>,
    news: UnboundedReceiver<News>,
}

/// A kind and where it is watched: in one namespace, or cluster-wide.
type Place = (u32, Option<String>);

struct Stream {
    id: StreamId,
    kind: Arc<Kind>,
    watched: Watched,
    task: AbortHandle,
    /// What keeps it from working, until it works again.
    trouble: Option<ClusterError>,
}

/// What watches tell the observer.
enum News {
    Definitions(WatchEvent),
    Namespaces(WatchEvent),
    /// The watch of a served kind is in trouble, or out of it.
    Health(Place, Option<ClusterError>),
}

/// How custom resource definitions are followed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Definitions {
    Listing,
    Watched,
    /// Not permitted, or not wanted.
    Unwatched,
}

/// When to discover again.
#[derive(Default)]
struct Scan {
    at: Option<Instant>,
    /// Servers announce a kind a moment before they serve it: so often is it looked for after an announcement.
    tries: u32,
    unresolved: bool,
}

impl Observer {
    pub(crate) fn new(with: Surroundings) -> Self {
        let watching = &with.settings.watching;
        let (tell, news) = unbounded_channel();
        Self {
            pace: WatchPace {
                inactivity: watching.inactivity_timeout,
                server_timeout: watching.server_timeout,
                backoff: (watching.reconnect_backoff, watching.longest_backoff),
                page: watching.chunk_size,
            },
            namespaces: Namespaces::new(&with.scope, with.settings.scanning.disabled),
            with,
            resources: Vec::new(),
            ids: HashMap::new(),
            streams: BTreeMap::new(),
            next_stream: 0,
            definitions: Definitions::Unwatched,
            coming: BTreeSet::new(),
            scan: Scan::default(),
            warned: BTreeSet::new(),
            tasks: JoinSet::new(),
            tell,
            news,
        }
    }

    /// Observe for ever; with `once` until nothing is left to do, to say what could not be served.
    ///
    /// Ends with an error only where the cluster refuses to say at all what it serves.
    pub(crate) async fn run(&mut self, once: bool) -> Result<Vec<String>, ClusterError> {
        self.discover_at_first().await?;
        self.watch_backbone();
        self.reconcile();
        loop {
            let engine = self.with.engine.clone();
            let scan_at = self.scan.at.unwrap_or_else(Instant::now);
            tokio::select! {
                biased;
                Some(news) = self.news.recv() => self.heed(news),
                () = tokio::time::sleep_until(scan_at), if self.scan.at.is_some() => self.rescan().await,
                () = engine.settled(), if once && self.is_complete() => return Ok(self.unserved()),
            }
        }
    }

    async fn discover_at_first(&mut self) -> Result<(), ClusterError> {
        let mut backoff = self.backoff();
        loop {
            match self.with.cluster.discover().await {
                Ok(resources) => {
                    self.resources = resources;
                    return Ok(());
                }
                Err(error) if error.is_transient() => {
                    let pause = backoff.next_pause(self.with.cluster.chance());
                    tracing::warn!(
                        "The cluster does not say what it serves; will retry in {:.1} seconds: {error}",
                        pause.as_secs_f64()
                    );
                    tokio::time::sleep(pause).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn watch_backbone(&mut self) {
        if self.namespaces.are_watched() {
            self.watch_for_self(namespaces(), News::Namespaces);
        }
        if !self.with.settings.scanning.disabled {
            self.definitions = Definitions::Listing;
            self.watch_for_self(custom_resource_definitions(), News::Definitions);
        }
    }

    fn watch_for_self(&mut self, resource: Resource, news: fn(WatchEvent) -> News) {
        let tell = self.tell.clone();
        let watched = Watched {
            resource: Arc::new(resource),
            namespace: None,
            pace: self.pace.clone(),
        };
        let cluster = self.with.cluster.clone();
        self.tasks.spawn(follow(cluster, watched, move |event| {
            // The observer is gone only when this task is about to be.
            let _ = tell.send(news(event));
        }));
    }

    fn heed(&mut self, news: News) {
        match news {
            News::Health(place, trouble) => {
                if let Some(stream) = self.streams.get_mut(&place) {
                    stream.trouble = trouble;
                    if stream.is_missing() {
                        self.scan_soon(6);
                    }
                }
            }
            News::Definitions(event) => self.heed_definitions(&event),
            News::Namespaces(event) => {
                if self.namespaces.heed(event) {
                    self.reconcile();
                }
            }
        }
    }

    fn heed_definitions(&mut self, event: &WatchEvent) {
        match event {
            WatchEvent::Listing => self.coming.clear(),
            WatchEvent::Object(event, raw) => {
                let name = &raw.facts().name;
                if *event == EventType::Deleted {
                    self.coming.remove(name);
                } else if !is_served(name, &self.resources) {
                    self.coming.insert(name.clone());
                }
                if self.definitions == Definitions::Watched {
                    self.scan_soon(6);
                }
            }
            WatchEvent::Synced => {
                self.definitions = Definitions::Watched;
                if self.scan.unresolved {
                    self.scan_soon(if self.is_expecting() { 3 } else { 1 });
                }
            }
            WatchEvent::Trouble(ClusterError::Denied { .. } | ClusterError::NotFound(_)) => {
                self.definitions = Definitions::Unwatched;
                let interval = self.with.settings.scanning.interval;
                tracing::warn!(
                    "Kinds cannot be watched for: new ones will be looked for every {} seconds.",
                    interval.as_secs()
                );
                self.scan.at.get_or_insert(Instant::now() + interval);
            }
            _ => {}
        }
    }

    /// Something may come that handlers wait for.
    fn is_expecting(&self) -> bool {
        (self.scan.unresolved && !self.coming.is_empty()) || self.is_missing_some()
    }

    fn is_missing_some(&self) -> bool {
        self.streams.values().any(Stream::is_missing)
    }

    fn scan_soon(&mut self, tries: u32) {
        self.scan.tries = self.scan.tries.max(tries);
        let soon = Instant::now() + Duration::from_millis(100);
        self.scan.at = Some(self.scan.at.map_or(soon, |at| at.min(soon)));
    }

    async fn rescan(&mut self) {
        match self.with.cluster.discover().await {
            Ok(resources) => {
                self.coming.retain(|name| !is_served(name, &resources));
                self.resources = resources;
                self.reconcile();
            }
            Err(error) => {
                tracing::warn!("The cluster does not say what it serves; will retry: {error}");
                self.scan.unresolved = true;
                self.scan.tries = self.scan.tries.max(1);
            }
        }
        self.scan.tries = self.scan.tries.saturating_sub(1);
        let lacking = self.scan.unresolved || self.is_missing_some();
        self.scan.at = if lacking && self.scan.tries > 0 {
            let doubled = 2_u32.pow(6_u32.saturating_sub(self.scan.tries));
            Some(Instant::now() + Duration::from_millis(100) * doubled)
        } else if self.definitions == Definitions::Unwatched
            && !self.with.settings.scanning.disabled
        {
            Some(Instant::now() + self.with.settings.scanning.interval)
        } else {
            None
        };
    }

    /// Nothing is missing that is known to be coming.
    fn is_complete(&self) -> bool {
        let settled = self.definitions != Definitions::Listing && self.namespaces.are_known();
        let scanned = self.scan.at.is_none() || self.definitions == Definitions::Unwatched;
        settled && (scanned || !self.is_expecting())
    }

    /// What handlers are for and is not served, or cannot be watched: one line each.
    fn unserved(&self) -> Vec<String> {
        let troubled = self.streams.values().filter_map(|stream| {
            let error = stream.trouble.as_ref()?;
            Some(format!("{} cannot be watched: {error}", stream.watched))
        });
        let mut unserved: Vec<_> = self.warned.iter().cloned().chain(troubled).collect();
        unserved.sort();
        unserved
    }

    /// Start and stop watches until they are those that should be.
    fn reconcile(&mut self) {
        let wanted = self.wanted();
        let unwanted: Vec<_> = self
            .streams
            .keys()
            .filter(|place| !wanted.contains_key(*place))
            .cloned()
            .collect();
        for place in unwanted {
            if let Some(stream) = self.streams.remove(&place) {
                tracing::debug!("Stopping the watch-stream for {}.", stream.watched);
                stream.task.abort();
                self.with.engine.close(stream.id);
            }
        }
        let mut starting: Vec<_> = wanted.into_iter().collect();
        starting.sort_by(|(one, _), (other, _)| one.cmp(other));
        for (place, kind) in starting {
            match self.streams.get(&place) {
                Some(stream) if stream.kind.is_same(&kind) && !stream.is_missing() => {}
                Some(stream) => {
                    stream.task.abort();
                    let former = stream.id;
                    self.start(place, kind, Some(former));
                }
                None => self.start(place, kind, None),
            }
        }
    }

    fn wanted(&mut self) -> BTreeMap<Place, Arc<Kind>> {
        let served = serve(&self.with.handlers, &self.resources);
        self.scan.unresolved = served.unresolved;
        for warning in &served.warnings {
            if !self.warned.contains(warning) {
                tracing::warn!("{warning}");
            }
        }
        self.warned = served.warnings.into_iter().collect();
        let mut wanted = BTreeMap::new();
        for (resource, handlers) in served.kinds {
            let id = self.id(&resource);
            let namespaced = resource.namespaced;
            let kind = Arc::new(Kind::new(id, Arc::new(resource), handlers));
            match self.namespaces.some().filter(|_| namespaced) {
                Some(names) => {
                    wanted.extend(names.map(|name| ((id, Some(name.to_owned())), kind.clone())));
                }
                None => {
                    wanted.insert((id, None), kind);
                }
            }
        }
        wanted
    }

    fn id(&mut self, resource: &Resource) -> u32 {
        let next = u32::try_from(self.ids.len()).unwrap_or(u32::MAX);
        let name = [&resource.group, &resource.version, &resource.plural].map(String::clone);
        *self.ids.entry(name).or_insert(next)
    }

    fn start(&mut self, place: Place, kind: Arc<Kind>, replaces: Option<StreamId>) {
        let id = self.next_stream;
        self.next_stream += 1;
        let engine = self.with.engine.clone();
        engine.open(id, kind.clone(), replaces);
        let watched = Watched {
            resource: kind.resource.clone(),
            namespace: place.1.clone(),
            pace: self.pace.clone(),
        };
        let (tell, here) = (self.tell.clone(), place.clone());
        let cluster = self.with.cluster.clone();
        let following = follow(cluster, watched.clone(), move |event| {
            let trouble = match &event {
                WatchEvent::Trouble(error) => Some(Some(error.clone())),
                WatchEvent::Resumed => Some(None),
                _ => None,
            };
            if let Some(trouble) = trouble {
                // The observer is gone only when this task is about to be.
                let _ = tell.send(News::Health(here.clone(), trouble));
            }
            engine.feed(id, event);
        });
        let stream = Stream {
            id,
            kind,
            watched,
            task: self.tasks.spawn(following),
            trouble: None,
        };
        self.streams.insert(place, stream);
    }

    fn backoff(&self) -> Backoff {
        let networking = &self.with.settings.networking;
        Backoff::new(networking.first_backoff, networking.longest_backoff)
    }
}

/// Whether the resources of a definition are among `resources`.
fn is_served(definition: &str, resources: &[Resource]) -> bool {
    resources.iter().any(|resource| {
        let group = definition.strip_prefix(resource.plural.as_str());
        group.and_then(|rest| rest.strip_prefix('.')) == Some(&resource.group)
    })
}

impl Stream {
    /// Its kind was not found when it was last asked for.
    fn is_missing(&self) -> bool {
        matches!(self.trouble, Some(ClusterError::NotFound(_)))
    }
}
