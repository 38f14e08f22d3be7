//! What is known of the operator, told by those who know it: its phase, what it serves, and each of its watches.
//!
//! Must not know what the facts mean for anybody.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::cluster::error::ClusterError;
use crate::cluster::watch::WatchEvent;
use crate::engine::Engine;
use crate::happening::serving::Serving;
use crate::object::collection::Collection;
use crate::object::event::EventType;

/// What is known. Clones share it.
#[derive(Clone)]
pub(crate) struct Board(Arc<Mutex<Known>>);

pub(crate) struct Known {
    /// The operator's name.
    pub(crate) name: String,
    pub(crate) begun: Instant,
    pub(crate) bounds: Bounds,
    pub(crate) phase: Phase,
    /// Other operators are at work in its place.
    pub(crate) is_paused: bool,
    /// The Lease that its instances share, where they do.
    pub(crate) lease: Option<LeaseFacts>,
    pub(crate) engine: Option<Engine>,
    /// The cluster has said what it serves.
    pub(crate) discovered: bool,
    /// It is known which namespaces there are.
    pub(crate) knows_namespaces: bool,
    /// What handlers are for and is not served, and why.
    pub(crate) unserved: Vec<(String, &'static str)>,
    /// By their numbers, which are never used again.
    watches: BTreeMap<u64, Arc<Mutex<WatchFacts>>>,
    next_watch: u64,
    /// What watches that have ended have told, by resource.
    past: BTreeMap<String, WatchCounts>,
}

/// What is known of the Lease that the instances of an operator share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaseFacts {
    /// `namespace/name`
    pub(crate) lease: String,
    /// How this instance is called in it.
    pub(crate) identity: String,
    /// How this instance stands, in a word.
    pub(crate) state: &'static str,
    pub(crate) holder: Option<String>,
    /// How often it has changed hands.
    pub(crate) transitions: u64,
    /// How many terms this instance has had.
    pub(crate) terms: u64,
    /// When it was last taken or renewed by this instance.
    pub(crate) renewed: Option<Instant>,
    /// When the task that keeps it was last alive; `None` once it has ended.
    pub(crate) beat: Option<Instant>,
    /// Why this instance will not be at work, whatever others do.
    pub(crate) lacks: Option<String>,
}

impl LeaseFacts {
    /// Whether this instance is at work.
    pub(crate) fn is_held(&self) -> bool {
        self.state == HOLDS
    }
}

/// The state of the instance at work.
pub(crate) const HOLDS: &str = "holds";

/// How long things may take, and what may be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// All probes together.
    pub(crate) probes: Duration,
    /// A runtime, until it answers.
    pub(crate) beat: Duration,
    /// An object that waits, until the operator is not ready.
    pub(crate) late: Duration,
    /// And until it does not live, unless the server keeps it waiting.
    pub(crate) stuck: Duration,
    /// Whether anybody may know what the operator does.
    pub(crate) status: bool,
}

/// What the operator is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Startup handlers are called.
    Starting,
    Serving,
    /// Nothing begins any more.
    Stopping,
}

/// What is known of one watch.
#[derive(Clone, Debug)]
pub(crate) struct WatchFacts {
    pub(crate) collection: Arc<Collection>,
    /// A silence that long ends a stream.
    pub(crate) deadline: Duration,
    /// When the server was last heard.
    pub(crate) heard: Instant,
    /// The server tells now and then that nothing has changed.
    pub(crate) has_bookmarks: bool,
    /// A silence has ended a stream, though the server would have told that nothing has changed.
    pub(crate) is_silent: bool,
    pub(crate) listing: Listing,
    pub(crate) trouble: Option<Trouble>,
    pub(crate) counts: WatchCounts,
}

/// What watches have told so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WatchCounts {
    pub(crate) listed: u64,
    pub(crate) added: u64,
    pub(crate) modified: u64,
    pub(crate) deleted: u64,
    pub(crate) bookmarks: u64,
    /// Listings that have begun.
    pub(crate) listings: u64,
    /// Times that a watch could not go on.
    pub(crate) failures: u64,
    /// Times that a watch was renewed because nothing has come.
    pub(crate) silences: u64,
}

/// Whether all objects were listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listing {
    Incomplete,
    Complete,
}

/// What keeps a watch from going on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// In a few words that hold no names.
    pub(crate) reason: String,
    pub(crate) error: String,
}

/// The place of a watch on the board; it is taken off when this is dropped.
pub(crate) struct WatchOnBoard {
    board: Board,
    number: u64,
    facts: Arc<Mutex<WatchFacts>>,
}

/// Tells the board of a watch.
#[derive(Clone)]
pub(crate) struct WatchTeller(Arc<Mutex<WatchFacts>>);

// === impl Board ===

impl Board {
    pub(crate) fn new(name: &str, bounds: Bounds) -> Self {
        Self(Arc::new(Mutex::new(Known {
            name: name.to_owned(),
            begun: Instant::now(),
            bounds,
            phase: Phase::Starting,
            is_paused: false,
            lease: None,
            engine: None,
            discovered: false,
            knows_namespaces: false,
            unserved: Vec::new(),
            watches: BTreeMap::new(),
            past: BTreeMap::new(),
            next_watch: 0,
        })))
    }

    /// The operator begins to serve.
    pub(crate) fn serves(&self, engine: Engine, bounds: Bounds) {
        let mut known = self.known();
        known.phase = Phase::Serving;
        known.engine = Some(engine);
        known.bounds = bounds;
    }

    /// Nothing begins any more.
    pub(crate) fn stops(&self) {
        let mut known = self.known();
        known.phase = Phase::Stopping;
        known.engine = None;
    }

    /// Other operators are at work in its place, or are not any more.
    pub(crate) fn pauses(&self, is_paused: bool) {
        self.known().is_paused = is_paused;
    }

    /// The Lease is like this.
    pub(crate) fn leases(&self, lease: LeaseFacts) {
        self.known().lease = Some(lease);
    }

    /// The cluster has said what it serves.
    pub(crate) fn discovered(&self, unserved: &[Serving], knows_namespaces: bool) {
        let mut known = self.known();
        known.discovered = true;
        known.knows_namespaces = knows_namespaces;
        known.unserved = unserved.iter().flat_map(not_served).collect();
    }

    /// A watch is about to start. Its streams end after a silence of `inactivity`.
    pub(crate) fn watch(&self, collection: Arc<Collection>, inactivity: Duration) -> WatchOnBoard {
        let facts = Arc::new(Mutex::new(WatchFacts {
            collection,
            deadline: inactivity,
            heard: Instant::now(),
            has_bookmarks: false,
            is_silent: false,
            listing: Listing::Incomplete,
            trouble: None,
            counts: WatchCounts::default(),
        }));
        let mut known = self.known();
        let number = known.next_watch;
        known.next_watch += 1;
        known.watches.insert(number, facts.clone());
        drop(known);
        WatchOnBoard {
            board: self.clone(),
            number,
            facts,
        }
    }

    pub(crate) fn bounds(&self) -> Bounds {
        self.known().bounds
    }

    pub(crate) fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    pub(crate) fn watches(&self) -> Vec<WatchFacts> {
        let watches = self.watches.values();
        watches.map(|facts| locked(facts).clone()).collect()
    }

    /// What all watches have told so far, by resource (`plural.group`).
    pub(crate) fn counts(&self) -> BTreeMap<String, WatchCounts> {
        let mut counts = self.past.clone();
        for watch in self.watches.values() {
            let facts = locked(watch);
            let name = facts.collection.resource.group_resource();
            counts.entry(name).or_default().add(facts.counts);
        }
        counts
    }
}

impl WatchCounts {
    fn on_event(&mut self, event: &WatchEvent) {
        match event {
            WatchEvent::Object(EventType::Listed, _) => self.listed += 1,
            WatchEvent::Object(EventType::Added, _) => self.added += 1,
            WatchEvent::Object(EventType::Modified, _) => self.modified += 1,
            WatchEvent::Object(EventType::Deleted, _) => self.deleted += 1,
            WatchEvent::Bookmark => self.bookmarks += 1,
            WatchEvent::Listing(_) => self.listings += 1,
            WatchEvent::Trouble(_) => self.failures += 1,
            WatchEvent::Silent => self.silences += 1,
            WatchEvent::Synced | WatchEvent::Resumed => {}
        }
    }

    fn add(&mut self, more: Self) {
        self.listed += more.listed;
        self.added += more.added;
        self.modified += more.modified;
        self.deleted += more.deleted;
        self.bookmarks += more.bookmarks;
        self.listings += more.listings;
        self.failures += more.failures;
        self.silences += more.silences;
    }
}

impl WatchOnBoard {
    pub(crate) fn teller(&self) -> WatchTeller {
        WatchTeller(self.facts.clone())
    }
}

impl Drop for WatchOnBoard {
    fn drop(&mut self) {
        let mut known = self.board.known();
        known.watches.remove(&self.number);
        let facts = locked(&self.facts);
        let name = facts.collection.resource.group_resource();
        known.past.entry(name).or_default().add(facts.counts);
    }
}

impl WatchTeller {
    /// The watch tells of something.
    pub(crate) fn on_event(&self, event: &WatchEvent) {
        locked(&self.0).on_event(event, Instant::now());
    }
}

impl WatchFacts {
    fn on_event(&mut self, event: &WatchEvent, now: Instant) {
        self.counts.on_event(event);
        match event {
            WatchEvent::Silent if self.has_bookmarks => {
                self.is_silent = true;
                return;
            }
            WatchEvent::Bookmark => self.has_bookmarks = true,
            WatchEvent::Synced => self.listing = Listing::Complete,
            WatchEvent::Resumed => self.trouble = None,
            WatchEvent::Trouble(error) => {
                self.trouble = Some(Trouble {
                    reason: reason(error),
                    error: error.to_string(),
                });
            }
            WatchEvent::Silent | WatchEvent::Listing(_) | WatchEvent::Object(..) => {}
        }
        self.is_silent = false;
        self.heard = now;
    }
}

fn locked(facts: &Mutex<WatchFacts>) -> MutexGuard<'_, WatchFacts> {
    facts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is wrong, in a few words that hold no names.
pub(crate) fn reason(error: &ClusterError) -> String {
    match error {
        ClusterError::Denied { .. } => "forbidden".to_owned(),
        ClusterError::NotFound(_) => "not served".to_owned(),
        ClusterError::Unauthorized(_) => "the credentials are refused".to_owned(),
        ClusterError::Unreachable(_) => "the server does not answer".to_owned(),
        ClusterError::Busy { code, .. } => format!("the server answers {code}"),
        _ => "the server refuses it".to_owned(),
    }
}

/// What this happening says is not served, and why.
fn not_served(serving: &Serving) -> Vec<(String, &'static str)> {
    let named = |names: Vec<String>, why| names.into_iter().map(|name| (name, why)).collect();
    match serving {
        Serving::Unresolved { selectors } => named(selectors.clone(), "not served"),
        Serving::Ambiguous { selector, .. } => named(vec![selector.clone()], "ambiguous"),
        Serving::OtherVersion { resource, .. } => named(
            vec![resource.to_string()],
            "another version is served to other handlers",
        ),
        Serving::Unwatchable { resources } => named(
            resources.iter().map(ToString::to_string).collect(),
            "not watchable",
        ),
        Serving::Unpatchable { resources } => named(
            resources.iter().map(ToString::to_string).collect(),
            "not patchable",
        ),
        Serving::SelectorPanicked { resource, .. } => named(
            vec![resource.to_string()],
            "the function that selects it has failed",
        ),
        Serving::SelectionPanicked { resource, .. } => named(
            vec![resource.to_string()],
            "a function in the settings has failed",
        ),
        _ => Vec::new(),
    }
}
