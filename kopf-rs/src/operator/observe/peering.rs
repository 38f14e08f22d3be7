//! Follows the operator's peering objects, writes its record to them at intervals, and decides from the records of other operators if this
//! one is paused.
//!
//! Guarantees that the operator handles nothing before it has written its record and read those of the others, and that an unreachable
//! object changes no known fact: a peer for which this operator pauses counts as dead only after the server has accepted the removal of
//! its record in the version that was read last. Must not know what a pause does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::task::AbortOnDropHandle;

use crate::cluster::Cluster;
use crate::cluster::error::ClusterError;
use crate::cluster::watch::{Selection, WatchEvent};
use crate::engine::memory::Version;
use crate::engine::report::report_of_operator;
use crate::happening::operating::Peering as Happened;
use crate::happening::serving::Purpose;
use crate::object::collection::Collection;
use crate::object::event::EventType;
use crate::object::raw::Raw;
use crate::object::resource::Resource;
use crate::operator::observe::backbone::places;
use crate::operator::observe::watch_set::Wanted;
use crate::operator::settings::Peering;
use crate::reaction::peering::{OwnPeer, Peers, Verdict, is_peering, without};
use crate::rt::backoff::Backoff;
use crate::rt::clock::Clock;
use crate::rt::task;

/// The minimum interval at which a record that others have removed is written again.
const BETWEEN_REPAIRS: Duration = Duration::from_secs(5);

/// The time limit for removing the operator's record at its end.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(5);

/// The operator's part in peerings.
pub(crate) struct Peerings {
    setup: PeeringSetup,
    sender: UnboundedSender<PeeringNews>,
    news: UnboundedReceiver<PeeringNews>,
    places: BTreeMap<PeeringPlace, PeeringWatch>,
    next_stream: u32,
    /// The namespaces of the operator are known.
    are_places_known: bool,
    /// The operator has been active before, so a new place does not pause it.
    has_begun: bool,
    reported: Reported,
    rivals: BTreeSet<String>,
    /// The line to report after the pause has taken effect.
    news_of_pause: Option<Happened>,
}

/// The parts that peerings need.
pub(crate) struct PeeringSetup {
    /// `None` for a standalone operator.
    pub(crate) own: Option<OwnPeer>,
    pub(crate) settings: Peering,
    pub(crate) cluster: Cluster,
    pub(crate) clock: Clock,
}

/// The group of the kind, and the namespace or `None` for the whole cluster.
type PeeringPlace = (String, Option<String>);

/// One peering object.
struct PeeringWatch {
    stream: u32,
    collection: Arc<Collection>,
    found: Found,
    /// The time when the current listing was requested.
    listing: Option<Instant>,
    /// The time when the answer to a write contained the newest known state.
    answered: Option<Instant>,
    /// The `resourceVersion` of the newest known state.
    version: String,
    /// The object has contained the operator's record, or was created after it was sent: if the record is missing, it has to be sent again.
    is_expected: bool,
    peers: Peers,
    orders: UnboundedSender<PeerCommand>,
    /// The dead peers of the last requested removal, and the version it was based on.
    cleaned: (Vec<String>, String),
    /// The watch does not receive events.
    watch_down: bool,
    cleaning: Cleaning,
    _keeper: AbortOnDropHandle<()>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Unknown,
    Absent,
    Present,
}

/// Permission to remove records of dead peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cleaning {
    Allowed,
    /// A peer counts as dead by its silence alone.
    Refused,
}

/// The last report about a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reported {
    Nothing,
    Paused,
    Awaited,
}

/// A report of the task that writes at a place.
pub(crate) struct PeeringNews {
    place: PeeringPlace,
    stream: u32,
    what: PeerEvent,
}

enum PeerEvent {
    /// A record was sent; the server has answered at this time.
    Sent(Result<Raw, ClusterError>, Instant),
    /// The server forbids the removal of records of dead peers.
    CleaningRefused,
}

/// A command for the task that writes.
enum PeerCommand {
    /// Send the record soon.
    KeepAlive,
    /// Remove the records of dead peers from the object in this version.
    Clean(Vec<String>, String),
}

// === impl Peerings ===

impl Peerings {
    pub(super) fn new(setup: PeeringSetup) -> Self {
        let (sender, news) = unbounded_channel();
        Self {
            setup,
            sender,
            news,
            places: BTreeMap::new(),
            next_stream: 0,
            are_places_known: false,
            has_begun: false,
            reported: Reported::Nothing,
            rivals: BTreeSet::new(),
            news_of_pause: None,
        }
    }

    /// Takes part in all peerings of the operator if this instance leads: those in `namespaces` only, which are complete if `are_known`. Returns
    /// the watches to keep.
    pub(super) fn reconcile(
        &mut self,
        (resources, leads): (&[Resource], bool),
        namespaces: Option<&BTreeSet<String>>,
        are_known: bool,
    ) -> Vec<Wanted> {
        let Some(own) = self.setup.own.clone() else {
            return Vec::new();
        };
        self.are_places_known = are_known;
        // A new term counts as a start: other operators may have begun meanwhile, so their records are read before anything is handled.
        self.has_begun &= leads;
        let resources = resources.iter();
        let resources = resources.filter(|it| leads && is_peering(it, namespaces.is_none()));
        let resources: Vec<_> = resources.cloned().map(Arc::new).collect();
        let mut wanted = BTreeMap::new();
        for resource in &resources {
            for namespace in places(resource, namespaces) {
                let place = (resource.group.clone(), namespace);
                wanted.entry(place).or_insert_with(|| resource.clone());
            }
        }
        self.places.retain(|place, watch| {
            let resource = wanted.get(place);
            resource.is_some_and(|it| it.is_same_kind(&watch.collection.resource))
        });
        for (place, resource) in wanted {
            if !self.places.contains_key(&place) {
                let watch = self.start(&own, place.clone(), resource);
                self.places.insert(place, watch);
            }
        }
        let watch = |resource| Wanted {
            follower: None,
            purpose: Purpose::Handlers,
            resource,
            selection: Selection::named(&self.setup.settings.name),
        };
        resources.into_iter().map(watch).collect()
    }

    fn start(&mut self, own: &OwnPeer, place: PeeringPlace, resource: Arc<Resource>) -> PeeringWatch {
        let stream = self.next_stream;
        self.next_stream += 1;
        let collection = Arc::new(Collection { resource, namespace: place.1.clone() });
        let sender = self.sender.clone();
        let send = move |what| {
            // Fails only if the receiver is gone, and then this task is about to end.
            let place = place.clone();
            drop(sender.send(PeeringNews { place, stream, what }));
        };
        let (orders, ordered) = unbounded_channel();
        let keeper = Keeper {
            own: own.clone(),
            settings: self.setup.settings.clone(),
            cluster: self.setup.cluster.clone(),
            clock: self.setup.clock,
            collection: collection.clone(),
            is_refused: false,
        };
        PeeringWatch {
            stream,
            collection,
            found: Found::Unknown,
            listing: None,
            answered: None,
            version: String::new(),
            is_expected: false,
            peers: Peers::default(),
            orders,
            cleaned: (Vec::new(), String::new()),
            watch_down: false,
            cleaning: Cleaning::Allowed,
            _keeper: AbortOnDropHandle::new(task::spawn(keeper.keep(ordered, send))),
        }
    }

    /// Waits until an event arrives or a peer's record expires. Cancel-safe.
    pub(super) async fn changed(&mut self) {
        let until = self.clean();
        let started = self.setup.clock.started();
        let elapses = async move {
            match until {
                Some(until) => sleep_until(started + until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Some(news) = self.news.recv() => self.take_in(news),
            // The next call has the record of the dead peer removed.
            () = elapses => {}
        }
    }

    /// Requests the removal of expired records, of which some may have expired while the caller was busy. Returns when the next one expires, seen
    /// from the same moment, so that none expires in between.
    fn clean(&mut self) -> Option<Duration> {
        let own = self.setup.own.as_ref()?;
        let now = Instant::now().duration_since(self.setup.clock.started());
        let present = self.places.values_mut();
        let present = present.filter(|watch| watch.found == Found::Present);
        let expiries = present.filter_map(|watch| {
            let verdict = watch.peers.judge(own, now);
            watch.remove_dead(verdict.dead);
            verdict.until
        });
        expiries.min()
    }

    /// Processes an event of the watch of a peering object.
    pub(super) fn watched(&mut self, of: &Collection, event: WatchEvent) {
        let place = (of.resource.group.clone(), of.namespace.clone());
        let (own, clock) = (&self.setup.own, self.setup.clock);
        let (Some(watch), Some(own)) = (self.places.get_mut(&place), own) else {
            return;
        };
        match event {
            WatchEvent::Object(EventType::Deleted, _) => watch.found = Found::Absent,
            WatchEvent::Object(event, raw) => {
                let listing = watch.listing.filter(|_| event == EventType::Listed);
                watch.look_at(&raw, listing, own, clock);
            }
            WatchEvent::Synced(listed) => {
                watch.watch_down = false;
                if listed.is_empty() {
                    watch.found = Found::Absent;
                }
            }
            WatchEvent::Resumed => watch.watch_down = false,
            WatchEvent::Trouble(_) => watch.watch_down = true,
            WatchEvent::Listing(asked) => watch.listing = Some(asked),
            WatchEvent::Bookmark | WatchEvent::Silent => {}
        }
    }

    fn take_in(&mut self, news: PeeringNews) {
        let PeeringNews { place, stream, what } = news;
        let (own, clock) = (&self.setup.own, self.setup.clock);
        let watch = self.places.get_mut(&place);
        let (Some(watch), Some(own)) = (watch.filter(|it| it.stream == stream), own) else {
            return;
        };
        match what {
            PeerEvent::Sent(Ok(raw), at) => {
                if watch.look_at(&raw, None, own, clock) {
                    watch.answered = Some(at);
                }
            }
            PeerEvent::Sent(Err(ClusterError::NotFound(_)), _) => watch.found = Found::Absent,
            // The operator works as if there were no peering, and reports that.
            PeerEvent::Sent(Err(error), _) if !error.is_transient() && watch.found == Found::Unknown => {
                watch.found = Found::Absent;
            }
            PeerEvent::Sent(Err(_), _) => {}
            PeerEvent::CleaningRefused => watch.cleaning = Cleaning::Refused,
        }
    }

    fn verdicts(&self) -> impl Iterator<Item = Verdict> {
        let own = self.setup.own.as_ref();
        let since = Instant::now().duration_since(self.setup.clock.started());
        self.places.values().filter_map(move |watch| {
            let is_present = watch.found == Found::Present;
            let mut verdict = watch.peers.judge(own?, since);
            if watch.cleaning == Cleaning::Refused && !watch.watch_down {
                verdict.silent = 0;
            }
            Some(verdict).filter(|_| is_present)
        })
    }

    /// Returns whether the operator has to be paused. [`Peerings::tell_pause`] reports it.
    pub(super) fn is_paused(&mut self) -> bool {
        if self.setup.own.is_none() {
            return false;
        }
        let verdicts: Vec<Verdict> = self.verdicts().collect();
        let in_favour_of: Vec<String> =
            verdicts.iter().flat_map(|it| it.in_favour_of.iter().cloned()).collect();
        let found = |found| self.places.values().any(|it| it.found == found);
        let is_mandatory = self.setup.settings.mandatory;
        let lacks_object = self.places.is_empty() || found(Found::Absent);
        let is_unsure = found(Found::Unknown) && !self.has_begun;
        let lacks_proof =
            self.reported == Reported::Paused && verdicts.iter().any(|verdict| verdict.silent > 0);
        self.report_rivals(&verdicts);
        let is_paused = if !in_favour_of.is_empty() {
            self.report_once(Reported::Paused, Happened::Paused { in_favour_of });
            true
        } else if is_unsure || lacks_proof {
            true
        } else if is_mandatory && lacks_object {
            let name = self.setup.settings.name.clone();
            self.report_once(Reported::Awaited, Happened::Awaited { name });
            true
        } else {
            self.report_once(Reported::Nothing, Happened::Resumed);
            false
        };
        self.has_begun |= !is_paused && self.are_places_known;
        is_paused
    }

    fn report_once(&mut self, reported: Reported, happened: Happened) {
        if self.reported != reported {
            self.reported = reported;
            self.news_of_pause = Some(happened);
        }
    }

    /// Reports a pause or its end, after it has taken effect.
    pub(super) fn publish_pause(&mut self) {
        if let Some(news) = self.news_of_pause.take() {
            report_of_operator(&news);
        }
    }

    fn report_rivals(&mut self, verdicts: &[Verdict]) {
        let shown = verdicts.iter().flat_map(|it| it.rivals.iter().cloned());
        let peers: Vec<String> = shown.collect();
        // The time of the last heartbeat is not reported.
        let name = |shown: &String| shown.split(": ").next().unwrap_or_default().to_owned();
        let rivals: BTreeSet<String> = peers.iter().map(name).collect();
        if rivals != self.rivals && !rivals.is_empty() {
            report_of_operator(&Happened::Rivals { peers });
        }
        self.rivals = rivals;
    }

    /// Leaves the peerings: removes the operator's record, so that other operators know that it is gone.
    pub(crate) async fn leave(self) {
        let Some(own) = &self.setup.own else {
            return;
        };
        let name = &self.setup.settings.name;
        let present = self.places.into_values();
        let present = present.filter(|watch| watch.found == Found::Present);
        let collections: Vec<Arc<Collection>> = present.map(|it| it.collection.clone()).collect();
        let farewell = own.farewell(self.setup.clock.now());
        let until = Instant::now() + CLEANUP_TIMEOUT;
        for collection in collections {
            let cluster = &self.setup.cluster;
            let leaving = cluster.patch_records(&collection, name, &farewell);
            let left = until.saturating_duration_since(Instant::now());
            let error = match timeout(left, leaving).await {
                Ok(Ok(_) | Err(ClusterError::NotFound(_))) => continue,
                Ok(Err(error)) => error.to_string(),
                Err(_) => "no answer".to_owned(),
            };
            let name = name.clone();
            report_of_operator(&Happened::Left { name, error });
        }
    }
}

impl PeeringWatch {
    /// Processes a state of the object, unless a newer one is known: then returns false. The state comes from a listing that was requested at
    /// `listing`, or from a watch or an answer.
    fn look_at(&mut self, raw: &Raw, listing: Option<Instant>, own: &OwnPeer, clock: Clock) -> bool {
        let version = &raw.facts().resource_version;
        let [known, new] = [&self.version, version].map(|it| Version::of(it));
        let is_older = known != new && known.knows(&new, listing, self.answered);
        if is_older && self.found == Found::Present {
            return false;
        }
        let Ok(body) = raw.body() else {
            return false;
        };
        // A state read before the first heartbeat lacks the record, which is on its way.
        self.is_expected |= self.found == Found::Absent;
        self.found = Found::Present;
        self.version.clone_from(version);
        let now = Instant::now().duration_since(clock.started());
        self.peers.take_in(body.status(), now, clock.now());
        let verdict = self.peers.judge(own, now);
        if !verdict.lacks_own {
            self.is_expected = true;
        } else if self.is_expected {
            // Fails only if the keeper is gone together with this watch.
            let _ = self.orders.send(PeerCommand::KeepAlive);
        }
        self.remove_dead(verdict.dead);
        true
    }

    /// Requests to remove the records of dead peers from the newest state, once for each state.
    fn remove_dead(&mut self, dead: Vec<String>) {
        let cleaned = (dead, self.version.clone());
        if !cleaned.0.is_empty() && cleaned != self.cleaned {
            self.cleaned.clone_from(&cleaned);
            // Fails only if the keeper is gone together with this watch.
            let _ = self.orders.send(PeerCommand::Clean(cleaned.0, cleaned.1));
        }
    }
}

/// Writes to one peering object.
struct Keeper {
    own: OwnPeer,
    settings: Peering,
    cluster: Cluster,
    clock: Clock,
    collection: Arc<Collection>,
    /// The refusal of the server has been reported.
    is_refused: bool,
}

impl Keeper {
    /// Sends heartbeats, and executes commands until their sender is gone.
    async fn keep(mut self, mut orders: UnboundedReceiver<PeerCommand>, emit: impl Fn(PeerEvent)) {
        let mut failures = Backoff::new(Duration::from_secs(1), Duration::from_secs(10));
        let (mut next, mut last) = (Instant::now(), None::<Instant>);
        loop {
            tokio::select! {
                biased;
                order = orders.recv() => match order {
                    None => return,
                    Some(PeerCommand::KeepAlive) => {
                        next = last.map_or(next, |it| next.min(it + BETWEEN_REPAIRS));
                    }
                    Some(PeerCommand::Clean(dead, version)) => {
                        let change = without(&dead, &version);
                        let name = &self.settings.name;
                        match self.cluster.patch_records(&self.collection, name, &change).await {
                            Ok(raw) => emit(PeerEvent::Sent(Ok(raw), Instant::now())),
                            // The reply to the next heartbeat shows the present object, and peers that are dead by then are removed.
                            Err(error) if error.is_transient() || matches!(error, ClusterError::Conflict(_)) => {
                                next = last.map_or(next, |it| next.min(it + BETWEEN_REPAIRS));
                            }
                            Err(_) => emit(PeerEvent::CleaningRefused),
                        }
                    }
                },
                () = sleep_until(next) => {
                    let change = self.own.keep_alive(self.clock.now());
                    let sent = self.cluster.patch_records(&self.collection, &self.settings.name, &change).await;
                    self.report(&sent);
                    let pause = match &sent {
                        Err(error) if error.is_transient() => failures.next_pause(self.cluster.rng()),
                        _ => {
                            failures.reset();
                            self.period()
                        }
                    };
                    let now = Instant::now();
                    (next, last) = (now + pause, Some(now));
                    emit(PeerEvent::Sent(sent, now));
                }
            }
        }
    }

    /// Returns the heartbeat interval: five to ten seconds less than the lifetime, and at least one second.
    fn period(&self) -> Duration {
        let spread = self.cluster.rng().jitter(Duration::from_secs(5));
        let early = Duration::from_secs(5) + spread;
        let period = self.settings.lifetime.saturating_sub(early);
        period.max(Duration::from_secs(1))
    }

    fn report(&mut self, sent: &Result<Raw, ClusterError>) {
        let (name, of) = (self.settings.name.clone(), self.collection.clone());
        match sent {
            Ok(_) => {
                self.is_refused = false;
                if !self.settings.stealth {
                    let is_there = true;
                    report_of_operator(&Happened::KeptAlive { name, of, is_there });
                }
            }
            Err(ClusterError::NotFound(_)) => {
                let is_there = false;
                report_of_operator(&Happened::KeptAlive { name, of, is_there });
            }
            Err(error) if !std::mem::replace(&mut self.is_refused, true) => {
                let rule = match error {
                    ClusterError::Denied { rule, .. } => rule.clone(),
                    _ => String::new(),
                };
                let error = error.to_string();
                report_of_operator(&Happened::Refused { name, of, error, rule });
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;
    use crate::cluster::fake::Fake;
    use crate::object::key::{Key, KeySet};
    use crate::operator::settings::Settings;
    use crate::reaction::peering::plural;

    /// Returns the part in the peering of the whole cluster, on a server that never answers.
    fn peerings() -> Peerings {
        let clock = Clock::start();
        let mut peerings = Peerings::new(PeeringSetup {
            own: Some(OwnPeer {
                identity: "me".to_owned(),
                priority: 5,
                lifetime: Duration::from_secs(60),
                started: clock.now(),
                is_sharded: false,
                is_shared: false,
            }),
            settings: Settings::default().peering,
            cluster: Fake::new([]).cluster(),
            clock,
        });
        let resource = Resource {
            group: "kopf.dev".to_owned(),
            version: "v1".to_owned(),
            plural: plural(true).to_owned(),
            ..Resource::default()
        };
        peerings.reconcile((&[resource], true), None, true);
        peerings
    }

    /// Returns the object in this version, with a peer of this priority.
    fn object(version: u32, priority: u32) -> Raw {
        let text = format!(
            r#"{{"metadata":{{"name":"default","resourceVersion":"{version}"}},"status":{{"other":{{"priority":{priority}}}}}}}"#
        );
        Raw::parse(&text).unwrap()
    }

    enum Event {
        Watched(WatchEvent),
        Sent(Raw, Instant),
    }

    impl Peerings {
        fn take_in_all(&mut self, events: impl IntoIterator<Item = Event>) {
            let (place, watch) = self.places.first_key_value().unwrap();
            let (place, stream) = (place.clone(), watch.stream);
            let collection = watch.collection.clone();
            for event in events {
                match event {
                    Event::Watched(event) => self.watched(&collection, event),
                    Event::Sent(raw, at) => self.take_in(PeeringNews {
                        place: place.clone(),
                        stream,
                        what: PeerEvent::Sent(Ok(raw), at),
                    }),
                }
            }
        }
    }

    /// Returns the begin of a listing, some time after anything before.
    async fn listing() -> Event {
        advance(Duration::from_millis(1)).await;
        Event::Watched(WatchEvent::Listing(Instant::now()))
    }

    fn listed(version: u32, priority: u32) -> Event {
        let raw = object(version, priority);
        Event::Watched(WatchEvent::Object(EventType::Listed, raw))
    }

    fn synced() -> Event {
        let shown = KeySet::from_iter([Key::of_uid("default")]);
        Event::Watched(WatchEvent::Synced(shown))
    }

    /// Returns the answer to a heartbeat, some time after anything before.
    async fn sent(version: u32, priority: u32) -> Event {
        advance(Duration::from_millis(1)).await;
        Event::Sent(object(version, priority), Instant::now())
    }

    /// Versions go back, and the operator would otherwise ignore its peers until they exceed the former one.
    #[tokio::test(start_paused = true)]
    async fn a_listing_of_a_restored_server_counts() {
        let mut peerings = peerings();
        peerings.take_in_all([listing().await, listed(100, 1), synced()]);
        peerings.take_in_all([sent(101, 1).await]);
        assert!(!peerings.is_paused());
        peerings.take_in_all([listing().await, listed(50, 9), synced()]);
        assert!(peerings.is_paused());
        peerings.take_in_all([sent(51, 1).await]);
        assert!(!peerings.is_paused());
    }

    #[tokio::test(start_paused = true)]
    async fn peers_are_gone_with_the_object_that_a_listing_lacks() {
        let mut peerings = peerings();
        peerings.take_in_all([listing().await, listed(100, 9), synced()]);
        assert!(peerings.is_paused());
        let nothing = Event::Watched(WatchEvent::Synced(KeySet::default()));
        peerings.take_in_all([listing().await, nothing]);
        assert!(!peerings.is_paused());
    }

    /// The listing is told when it is answered, which may be after the answer to a heartbeat that was sent after its request.
    #[tokio::test(start_paused = true)]
    async fn a_listing_is_older_than_the_answer_to_a_later_heartbeat() {
        let mut peerings = peerings();
        peerings.take_in_all([listing().await, listed(100, 1), synced()]);
        let listing = listing().await;
        peerings.take_in_all([sent(102, 9).await, listing, listed(101, 1), synced()]);
        assert!(peerings.is_paused());
    }
}
