//! Keeps the wanted watches open: opens, replaces and closes watches until the open ones are the wanted ones.
//!
//! Guarantees one watch for each follower, resource and scope, that a replaced watch of workers hands its objects over, that the watch of a
//! deleted namespace stays open until the server may have reported the deletions in it, and that nothing is reported of a watch that is no
//! longer open. Must not know what followers do with events.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep_until};
use tokio_util::task::AbortOnDropHandle;

use crate::cluster::Cluster;
use crate::cluster::error::ClusterError;
use crate::cluster::watch::{Selection, WatchEvent, WatchPace, Watched};
use crate::engine::Engine;
use crate::engine::follower::{EngineWatch, Follower};
use crate::engine::object_table::StreamId;
use crate::happening::serving::Purpose;
use crate::health::board::{Board, WatchOnBoard};
use crate::object::collection::Collection;
use crate::object::resource::Resource;
use crate::operator::follow::{follow, membership};
use crate::operator::observe::backbone::places;
use crate::operator::report::report_stopped;
use crate::rt::outage::OutageGuard;
use crate::rt::task;

/// The time for which the watch of a deleted namespace stays open. The server may report the deletion of its objects later than that of the
/// namespace, and they have to count as deleted, not just as no longer watched.
const GRACE: Duration = Duration::from_secs(5);

/// The open watches. Dropping it ends them all.
pub(super) struct WatchSet {
    engine: Engine,
    cluster: Cluster,
    pace: WatchPace,
    /// Receives the watches for status pages, if they are enabled.
    board: Option<Board>,
    open: BTreeMap<WatchKey, OpenWatch>,
    /// The watches of deleted namespaces, with the time at which they end.
    ending: VecDeque<(Instant, WatchKey, OpenWatch)>,
    /// The watches that were ended for a pause.
    suspended: BTreeMap<WatchKey, EngineWatch>,
    next_stream: StreamId,
    sender: UnboundedSender<WatchMessage>,
    messages: UnboundedReceiver<WatchMessage>,
}

/// A watch to keep open in each namespace of the operator, or for the whole cluster.
#[derive(Clone)]
pub(super) struct Wanted {
    /// `None` stands for the observer.
    pub(super) follower: Option<Follower>,
    pub(super) purpose: Purpose,
    pub(super) resource: Arc<Resource>,
    pub(super) selection: Selection,
}

/// A number for the follower, the namespace (`None` stands for the whole cluster), and the group and plural of the resource in any version.
/// Watches start in this order: those of workers come last, because handlers depend on the others.
pub(super) type WatchKey = (u8, Option<String>, String, String);

struct OpenWatch {
    stream: StreamId,
    collection: Arc<Collection>,
    /// The same watch for the engine, if that follows it.
    of_engine: Option<EngineWatch>,
    outage: OutageGuard,
    /// The present failure of a watch of workers.
    trouble: Option<ClusterError>,
    _task: AbortOnDropHandle<()>,
}

/// An event for the observer. The stream distinguishes the watch from earlier ones of the same key.
pub(super) type WatchMessage = (WatchKey, StreamId, WatchEvent);

// === impl WatchSet ===

impl WatchSet {
    pub(super) fn new(engine: Engine, cluster: Cluster, pace: WatchPace, board: Option<Board>) -> Self {
        let (sender, messages) = unbounded_channel();
        Self {
            engine,
            cluster,
            pace,
            board,
            open: BTreeMap::new(),
            ending: VecDeque::new(),
            suspended: BTreeMap::new(),
            next_stream: 0,
            sender,
            messages,
        }
    }

    /// Opens, replaces and closes watches until the open ones are the wanted ones in these namespaces (`None`: in all). Watches of workers
    /// that a pause makes unwanted keep their objects until the end of the pause.
    pub(super) fn reconcile(
        &mut self,
        wanted: Vec<Wanted>,
        namespaces: Option<&BTreeSet<String>>,
        is_paused: bool,
    ) {
        let mut merged: BTreeMap<WatchKey, Wanted> = BTreeMap::new();
        for watch in wanted {
            for namespace in places(&watch.resource, namespaces) {
                let known = merged.entry(watch.key(namespace));
                let known = known.and_modify(|it| it.merge(&watch));
                known.or_insert_with(|| watch.clone());
            }
        }
        let mut open = std::mem::take(&mut self.open);
        if is_paused {
            // The objects of deleted namespaces are not handled during the pause either.
            let ending = self.ending.drain(..);
            open.extend(ending.map(|(_, key, watch)| (key, watch)));
        }
        let (open, unwanted): (_, BTreeMap<_, _>) =
            open.into_iter().partition(|(key, _)| merged.contains_key(key));
        self.open = open;
        for (key, watch) in unwanted {
            self.end(key, watch, namespaces, is_paused);
        }
        for (key, wanted) in merged {
            match self.open.remove(&key) {
                Some(watch) if watch.serves(&wanted) => drop(self.open.insert(key, watch)),
                former => self.start(key, wanted, former),
            }
        }
        if !is_paused {
            for watch in std::mem::take(&mut self.suspended).into_values() {
                self.engine.close(&watch, false);
            }
        }
    }

    /// Waits for an event for the observer; meanwhile ends the watches of deleted namespaces. Cancel-safe.
    pub(super) async fn next(&mut self) -> WatchMessage {
        loop {
            let end = self.ending.front().map(|(end, ..)| *end);
            let is_over = async {
                match end {
                    Some(end) => sleep_until(end).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Some(message) = self.messages.recv() => return message,
                () = is_over => if let Some((_, _, watch)) = self.ending.pop_front() {
                    self.close(&watch, false);
                },
            }
        }
    }

    /// Processes a message. Returns its event with the collection, and whether the engine follows the watch; `None` if the watch is no longer
    /// open.
    pub(super) fn accept(
        &mut self,
        (key, stream, event): WatchMessage,
    ) -> Option<(Arc<Collection>, bool, WatchEvent)> {
        let watch = self.open.get_mut(&key).filter(|it| it.stream == stream)?;
        if watch.is_of_workers() {
            watch.trouble = match &event {
                WatchEvent::Trouble(error) => Some(error.clone()),
                _ => None,
            };
        }
        Some((watch.collection.clone(), watch.of_engine.is_some(), event))
    }

    /// Returns the failing watches of workers.
    pub(super) fn troubles(&self) -> impl Iterator<Item = (&Collection, &ClusterError)> {
        let watches = self.open.values();
        watches.filter_map(|watch| Some((&*watch.collection, watch.trouble.as_ref()?)))
    }

    /// Ends a watch that is not wanted any more: at once, or a little later if its namespace is deleted.
    fn end(
        &mut self,
        key: WatchKey,
        watch: OpenWatch,
        namespaces: Option<&BTreeSet<String>>,
        is_paused: bool,
    ) {
        let is_gone = |name: &String| !namespaces.is_some_and(|it| it.contains(name));
        if !watch.is_of_workers() {
            self.close(&watch, false);
        } else if is_paused {
            self.close(&watch, true);
            self.suspended.extend(watch.of_engine.map(|watch| (key, watch)));
        } else if key.1.as_ref().is_some_and(is_gone) {
            self.ending.push_back((Instant::now() + GRACE, key, watch));
        } else {
            self.close(&watch, false);
        }
    }

    fn close(&self, watch: &OpenWatch, is_paused: bool) {
        report_stopped(&watch.collection);
        if let Some(watch) = &watch.of_engine {
            self.engine.close(watch, is_paused);
        }
    }

    /// Takes the watch of a namespace that exists again before the watch was ended.
    fn take_ending(&mut self, key: &WatchKey) -> Option<OpenWatch> {
        let found = self.ending.iter().position(|(_, it, _)| it == key)?;
        self.ending.remove(found).map(|(_, _, watch)| watch)
    }

    /// Starts a watch, which replaces the former one with this key.
    fn start(&mut self, key: WatchKey, wanted: Wanted, former: Option<OpenWatch>) {
        let (replaces, outage) = match former.or_else(|| self.take_ending(&key)) {
            Some(former) => (former.of_engine, former.outage),
            None => (self.suspended.remove(&key), membership(&self.cluster)),
        };
        let stream = self.next_stream;
        self.next_stream += 1;
        let watched = Watched::new(wanted.resource, key.1.clone(), self.pace.clone());
        let mut watched = watched.selecting(wanted.selection);
        let collection = watched.collection.clone();
        let (mut of_engine, mut health) = (None, None);
        if let Some(follower) = wanted.follower {
            watched.form = follower.form(&collection.resource);
            let watch = EngineWatch::new(stream, collection.clone(), follower);
            watched.flow = self.engine.open(&watch, replaces.as_ref());
            let board = self.board.as_ref();
            health = board.map(|it| it.watch(collection.clone(), self.pace.inactivity));
            of_engine = Some(watch);
        }
        let sink = self.sink((key.clone(), stream), of_engine.clone(), health);
        let cluster = self.cluster.clone();
        let following = follow(wanted.purpose, cluster, watched, outage.clone(), sink);
        let watch = OpenWatch {
            stream,
            collection,
            of_engine,
            outage,
            trouble: None,
            _task: AbortOnDropHandle::new(task::spawn(following)),
        };
        self.open.insert(key, watch);
    }

    /// Returns the receiver of the events of a watch: the engine, or else the observer. The observer also learns about failing watches of
    /// workers.
    fn sink(
        &self,
        (key, stream): (WatchKey, StreamId),
        of_engine: Option<EngineWatch>,
        health: Option<WatchOnBoard>,
    ) -> impl Fn(WatchEvent) + Send + use<> {
        let (engine, sender) = (self.engine.clone(), self.sender.clone());
        // Fails only if the observer is gone, and then this task is about to end.
        let send = move |event| drop(sender.send((key.clone(), stream, event)));
        move |event| {
            if let Some(health) = &health {
                health.on_event(&event);
            }
            let Some(watch) = &of_engine else {
                return send(event);
            };
            match &event {
                _ if !watch.is_of_workers() => {}
                WatchEvent::Trouble(error) => send(WatchEvent::Trouble(error.clone())),
                WatchEvent::Resumed => send(WatchEvent::Resumed),
                _ => {}
            }
            engine.feed(watch, event);
        }
    }
}

// === impl Wanted ===

impl Wanted {
    fn key(&self, namespace: Option<String>) -> WatchKey {
        let (group, plural) = self.resource.identity();
        let follower = match &self.follower {
            None => 0,
            Some(Follower::Children { .. }) => 1,
            Some(Follower::Targets(_)) => 2,
            Some(Follower::Workers(_)) => 3,
        };
        (follower, namespace, group.to_owned(), plural.to_owned())
    }

    fn merge(&mut self, other: &Self) {
        if let (Some(follower), Some(other)) = (&mut self.follower, &other.follower) {
            follower.merge(other);
        }
    }
}

impl OpenWatch {
    fn is_of_workers(&self) -> bool {
        self.of_engine.as_ref().is_some_and(EngineWatch::is_of_workers)
    }

    /// Returns whether the watch may stay as it is. The watch of a resource that was not found is replaced instead, because a new one asks
    /// at once.
    fn serves(&self, wanted: &Wanted) -> bool {
        let is_missing = matches!(self.trouble, Some(ClusterError::NotFound(_)));
        let followers = self.of_engine.as_ref().zip(wanted.follower.as_ref());
        let is_same = followers.is_none_or(|(watch, wanted)| watch.follower.is_same(wanted));
        is_same && !is_missing && self.collection.resource.is_same_kind(&wanted.resource)
    }
}

#[cfg(test)]
mod tests;
