//! The facts about the operator, collected from its components: its phase, the served resources, and each of its watches.
//!
//! This module must not depend on the meaning of the facts for health checks.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use tokio::time::Instant;

use crate::cluster::error::ClusterError;
use crate::cluster::watch::WatchEvent;
use crate::engine::Engine;
use crate::happening::serving::Serving;
use crate::object::collection::Collection;
use crate::object::event::EventType;

/// The collected facts. Clones share them.
#[derive(Clone)]
pub(crate) struct Board(Arc<Mutex<Known>>);

pub(crate) struct Known {
    /// The operator's name.
    pub(crate) name: String,
    pub(crate) begun: Instant,
    pub(crate) operator: OperatorFacts,
    pub(crate) engine: Option<Engine>,
    /// Open watches; others are removed when the next one is added.
    watches: Vec<Weak<Mutex<WatchFacts>>>,
    /// The counts of all watches, also ended ones, by resource (`plural.group`).
    counts: BTreeMap<String, Arc<Mutex<WatchCounts>>>,
}

/// The facts about the operator itself, which its parts keep current.
#[derive(Clone, Debug)]
pub(crate) struct OperatorFacts {
    pub(crate) bounds: Bounds,
    pub(crate) phase: Phase,
    pub(crate) reviews: Reviews,
    /// The reason why the policies for validation rules are not enforced; `None` if there are no rules or it is still unknown.
    pub(crate) rules: Option<Result<(), String>>,
    /// True while other operators with a higher priority work in its place.
    pub(crate) is_paused: bool,
    /// The Lease that the operator's instances share, if any.
    pub(crate) lease: Option<LeaseFacts>,
    /// True once discovery has completed.
    pub(crate) discovered: bool,
    /// True once the namespaces are known.
    pub(crate) knows_namespaces: bool,
    /// The handlers' resources that are not served, with the reasons.
    pub(crate) unserved: Vec<(String, &'static str)>,
}

/// The facts about the Lease that the instances of an operator share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaseFacts {
    /// `namespace/name`
    pub(crate) lease: String,
    /// The identity of this instance in the Lease.
    pub(crate) identity: String,
    /// The state of this instance in one word.
    pub(crate) state: &'static str,
    pub(crate) holder: Option<String>,
    /// The number of changes of the holder.
    pub(crate) transitions: u64,
    /// The number of terms that this instance has held.
    pub(crate) terms: u64,
    /// The time when this instance last acquired or renewed the Lease.
    pub(crate) renewed: Option<Instant>,
    /// The time when the task that renews it last ran; `None` once it has ended.
    pub(crate) beat: Option<Instant>,
    /// The reason why this instance cannot become the leader, regardless of others.
    pub(crate) lacks: Option<String>,
}

impl LeaseFacts {
    /// Returns true if this instance is the leader.
    pub(crate) fn is_held(&self) -> bool {
        self.state == HOLDS
    }
}

/// The state of the leader.
pub(crate) const HOLDS: &str = "holds";

/// The limits for health checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// The time limit for all probes together.
    pub(crate) probes: Duration,
    /// The time limit for a runtime to respond.
    pub(crate) beat: Duration,
    /// The delay of an object after which the operator is not ready.
    pub(crate) late: Duration,
    /// The delay of an object after which the operator is not alive, unless the server causes the delay.
    pub(crate) stuck: Duration,
    /// True if clients may read the operator's activity.
    pub(crate) status: bool,
}

/// The phase of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Startup handlers run.
    Starting,
    Serving,
    /// No new work starts.
    Stopping,
}

/// Indicates whether the API server should send reviews to this instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reviews {
    /// The endpoint is available, or the operator needs none.
    Answered,
    /// The endpoint is not available yet, or will soon be gone.
    SentElsewhere,
}

/// The facts about one watch.
#[derive(Clone, Debug)]
pub(crate) struct WatchFacts {
    pub(crate) collection: Arc<Collection>,
    /// The maximum silence of a stream.
    pub(crate) deadline: Duration,
    /// The time of the last message from the server.
    pub(crate) heard: Instant,
    /// True if the server sends bookmarks.
    pub(crate) has_bookmarks: bool,
    /// True if a silence has ended a stream although the server sends bookmarks.
    pub(crate) is_silent: bool,
    pub(crate) listing: Listing,
    pub(crate) trouble: Option<Trouble>,
}

/// The counted events of watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct WatchCounts {
    pub(crate) listed: u64,
    pub(crate) added: u64,
    pub(crate) modified: u64,
    pub(crate) deleted: u64,
    pub(crate) bookmarks: u64,
    /// The number of started listings.
    pub(crate) listings: u64,
    /// The number of failures.
    pub(crate) failures: u64,
    /// The number of renewals after a silence.
    pub(crate) silences: u64,
}

/// The completeness of the listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listing {
    Incomplete,
    Complete,
}

/// The reason why a watch fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// A short text without names.
    pub(crate) reason: String,
    pub(crate) error: String,
}

/// A watch's entry on the board, to which its events are reported. Dropping it removes the entry.
pub(crate) struct WatchOnBoard {
    facts: Arc<Mutex<WatchFacts>>,
    counts: Arc<Mutex<WatchCounts>>,
}

// === impl Board ===

impl Board {
    pub(crate) fn new(name: &str, bounds: Bounds) -> Self {
        Self(Arc::new(Mutex::new(Known {
            name: name.to_owned(),
            begun: Instant::now(),
            operator: OperatorFacts {
                bounds,
                phase: Phase::Starting,
                reviews: Reviews::SentElsewhere,
                rules: None,
                is_paused: false,
                lease: None,
                discovered: false,
                knows_namespaces: false,
                unserved: Vec::new(),
            },
            engine: None,
            watches: Vec::new(),
            counts: BTreeMap::new(),
        })))
    }

    /// Records that the operator has started to serve.
    pub(crate) fn serves(&self, engine: Engine, bounds: Bounds) {
        let mut known = self.known();
        known.operator.phase = Phase::Serving;
        known.engine = Some(engine);
        known.operator.bounds = bounds;
    }

    /// Records that the endpoint for admission webhooks is available or not needed.
    pub(crate) fn answers_reviews(&self) {
        self.known().operator.reviews = Reviews::Answered;
    }

    /// Records that the policies of validation rules are written, or the reason why not.
    pub(crate) fn enforces_rules(&self, trouble: Option<String>) {
        self.known().operator.rules = Some(trouble.map_or(Ok(()), Err));
    }

    /// Records that no new work starts. Reviews are still answered, but should be sent to other instances.
    pub(crate) fn stops(&self) {
        let mut known = self.known();
        known.operator.reviews = Reviews::SentElsewhere;
        known.operator.phase = Phase::Stopping;
        known.engine = None;
    }

    /// Records whether other operators with a higher priority work in its place.
    pub(crate) fn pauses(&self, is_paused: bool) {
        self.known().operator.is_paused = is_paused;
    }

    /// Records the state of the Lease.
    pub(crate) fn leases(&self, lease: LeaseFacts) {
        self.known().operator.lease = Some(lease);
    }

    /// Records the result of discovery.
    pub(crate) fn discovered(&self, unserved: &[Serving], knows_namespaces: bool) {
        let mut known = self.known();
        known.operator.discovered = true;
        known.operator.knows_namespaces = knows_namespaces;
        known.operator.unserved = unserved.iter().flat_map(not_served).collect();
    }

    /// Adds a watch before its start. Its streams end after a silence of `inactivity`.
    pub(crate) fn watch(&self, collection: Arc<Collection>, inactivity: Duration) -> WatchOnBoard {
        let resource = collection.resource.group_resource();
        let facts = Arc::new(Mutex::new(WatchFacts {
            collection,
            deadline: inactivity,
            heard: Instant::now(),
            has_bookmarks: false,
            is_silent: false,
            listing: Listing::Incomplete,
            trouble: None,
        }));
        let mut known = self.known();
        known.watches.retain(|watch| watch.strong_count() > 0);
        known.watches.push(Arc::downgrade(&facts));
        let counts = known.counts.entry(resource).or_default().clone();
        WatchOnBoard { facts, counts }
    }

    pub(crate) fn bounds(&self) -> Bounds {
        self.known().operator.bounds
    }

    pub(crate) fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock()
    }
}

impl Known {
    pub(crate) fn watches(&self) -> Vec<WatchFacts> {
        let watches = self.watches.iter().filter_map(Weak::upgrade);
        watches.map(|facts| facts.lock().clone()).collect()
    }

    /// Returns the counts of all watches by resource.
    pub(crate) fn counts(&self) -> BTreeMap<String, WatchCounts> {
        let counts = self.counts.iter();
        counts.map(|(resource, counts)| (resource.clone(), *counts.lock())).collect()
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
            WatchEvent::Synced(_) | WatchEvent::Resumed => {}
        }
    }
}

impl WatchOnBoard {
    /// Records an event of the watch.
    pub(crate) fn on_event(&self, event: &WatchEvent) {
        self.counts.lock().on_event(event);
        self.facts.lock().on_event(event, Instant::now());
    }
}

impl WatchFacts {
    fn on_event(&mut self, event: &WatchEvent, now: Instant) {
        match event {
            WatchEvent::Silent if self.has_bookmarks => {
                self.is_silent = true;
                return;
            }
            WatchEvent::Bookmark => self.has_bookmarks = true,
            WatchEvent::Synced(_) => self.listing = Listing::Complete,
            WatchEvent::Resumed => self.trouble = None,
            WatchEvent::Trouble(error) => {
                self.trouble = Some(Trouble { reason: reason(error), error: error.to_string() });
            }
            WatchEvent::Silent | WatchEvent::Listing(_) | WatchEvent::Object(..) => {}
        }
        self.is_silent = false;
        self.heard = now;
    }
}

/// Returns a short description of the error without names.
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

/// Returns the resources that are not served according to this event, with the reasons.
fn not_served(serving: &Serving) -> Vec<(String, &'static str)> {
    let named = |names: Vec<String>, why| names.into_iter().map(|name| (name, why)).collect();
    match serving {
        Serving::Unresolved { selectors } => named(selectors.clone(), "not served"),
        Serving::Ambiguous { selector, .. } => named(vec![selector.clone()], "ambiguous"),
        Serving::OtherVersion { resource, .. } => {
            named(vec![resource.to_string()], "another version is served to other handlers")
        }
        Serving::Unwatchable { resources } => {
            named(resources.iter().map(ToString::to_string).collect(), "not watchable")
        }
        Serving::Unpatchable { resources } => {
            named(resources.iter().map(ToString::to_string).collect(), "not patchable")
        }
        Serving::SelectorPanicked { resource, .. } => {
            named(vec![resource.to_string()], "the function that selects it has failed")
        }
        Serving::SelectionPanicked { resource, .. } => {
            named(vec![resource.to_string()], "a function in the settings has failed")
        }
        _ => Vec::new(),
    }
}
