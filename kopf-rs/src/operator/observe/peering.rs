//! The peering objects of the operator: watched, and written at intervals, and whether the operator is paused for what they say.
//!
//! Promises that the operator handles nothing before it has written its record and read those of the others, and that an object that
//! cannot be reached changes nothing of what is known: a peer that it has paused for is dead once the server has agreed to take its record
//! away in the version that was read last. Must not know what a pause is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::task::AbortOnDropHandle;

use crate::cluster::Cluster;
use crate::cluster::error::ClusterError;
use crate::cluster::watch::{Selection, WatchEvent, WatchPace, Watched};
use crate::engine::memory::Version;
use crate::engine::report::report_of_operator;
use crate::happening::Happening;
use crate::happening::peering::Peering as Happened;
use crate::object::collection::Collection;
use crate::object::event::EventType;
use crate::object::raw::Raw;
use crate::object::resource::Resource;
use crate::operator::follow::follow_in_task;
use crate::operator::observe::backbone::places;
use crate::operator::settings::Peering;
use crate::reaction::peering::{OwnPeer, Peers, Verdict, is_peering, without};
use crate::rt::backoff::Backoff;
use crate::rt::clock::Clock;

/// A record that others have taken away is written anew, but not more often than that.
const BETWEEN_REPAIRS: Duration = Duration::from_secs(5);

/// For so long, the operator tries to take its record away at its end.
const FAREWELL: Duration = Duration::from_secs(5);

/// Taking part in peerings.
pub(crate) struct Peerings {
    setup: PeeringSetup,
    tell: UnboundedSender<PeeringNews>,
    news: UnboundedReceiver<PeeringNews>,
    places: BTreeMap<PeeringPlace, PeeringWatch>,
    next_stream: u32,
    /// The namespaces of the operator are known.
    are_places_known: bool,
    /// The operator has been active at some time: a place that is new does not pause it.
    has_begun: bool,
    told: Told,
    rivals: BTreeSet<String>,
    /// What is to be told once it is so.
    news_of_pause: Option<Happened>,
}

/// What taking part needs.
pub(crate) struct PeeringSetup {
    /// `None`: the operator is standalone.
    pub(crate) own: Option<OwnPeer>,
    pub(crate) settings: Peering,
    pub(crate) cluster: Cluster,
    pub(crate) pace: WatchPace,
    pub(crate) clock: Clock,
}

/// The group of the kind, and the namespace, or the whole cluster.
type PeeringPlace = (String, Option<String>);

/// One peering object.
struct PeeringWatch {
    stream: u32,
    collection: Arc<Collection>,
    found: Found,
    /// The listing that is under way has named it.
    is_listed: bool,
    /// The `resourceVersion` of the newest state that was taken in.
    version: String,
    /// The object has had the operator's record, or has come after it was sent: without it, it is to be sent again.
    is_expected: bool,
    peers: Peers,
    orders: UnboundedSender<Order>,
    /// The dead peers that were last asked to be taken away, and from which version.
    cleaned: (Vec<String>, String),
    /// The watch does not see what happens.
    is_blind: bool,
    cleaning: Cleaning,
    _watch: AbortOnDropHandle<()>,
    _keeper: AbortOnDropHandle<()>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Unknown,
    Absent,
    Present,
}

/// Whether records of dead peers may be taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cleaning {
    Allowed,
    /// Silence has to do as the proof that a peer is dead.
    Refused,
}

/// What was last said of a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Nothing,
    Paused,
    Awaited,
}

/// What happens at a place.
pub(crate) struct PeeringNews {
    place: PeeringPlace,
    stream: u32,
    what: What,
}

enum What {
    Watched(WatchEvent),
    /// A record was sent.
    Sent(Result<Raw, ClusterError>),
    /// Records of the dead may not be taken away.
    CleaningRefused,
}

/// What the task that writes is asked for.
enum Order {
    /// The record, soon.
    KeepAlive,
    /// That dead peers are taken away from the object in this version.
    Clean(Vec<String>, String),
}

// === impl Peerings ===

impl Peerings {
    pub(super) fn new(setup: PeeringSetup) -> Self {
        let (tell, news) = unbounded_channel();
        Self {
            setup,
            tell,
            news,
            places: BTreeMap::new(),
            next_stream: 0,
            are_places_known: false,
            has_begun: false,
            told: Told::Nothing,
            rivals: BTreeSet::new(),
            news_of_pause: None,
        }
    }

    /// Take part wherever the operator is; `namespaces`: in those only, which are all of them where they are known.
    pub(super) fn reconcile(
        &mut self,
        resources: &[Resource],
        namespaces: Option<&BTreeSet<String>>,
        are_known: bool,
    ) {
        let Some(own) = self.setup.own.clone() else {
            return;
        };
        self.are_places_known = are_known;
        let mut wanted = BTreeMap::new();
        let is_peering = |it: &&Resource| is_peering(it, namespaces.is_none());
        for resource in resources.iter().filter(is_peering) {
            let resource = Arc::new(resource.clone());
            let group = &resource.group;
            for namespace in places(&resource, namespaces) {
                wanted.insert((group.clone(), namespace), resource.clone());
            }
        }
        self.places.retain(|place, watch| {
            let resource = wanted.get(place);
            resource.is_some_and(|it| **it == *watch.collection.resource)
        });
        for (place, resource) in wanted {
            if !self.places.contains_key(&place) {
                let watch = self.start(&own, place.clone(), resource);
                self.places.insert(place, watch);
            }
        }
    }

    fn start(
        &mut self,
        own: &OwnPeer,
        place: PeeringPlace,
        resource: Arc<Resource>,
    ) -> PeeringWatch {
        let stream = self.next_stream;
        self.next_stream += 1;
        let PeeringSetup {
            settings,
            cluster,
            pace,
            clock,
            ..
        } = &self.setup;
        let watched = Watched::new(resource, place.1.clone(), pace.clone());
        let watched = watched.selecting(Selection::named(&settings.name));
        let collection = watched.collection.clone();
        let tell = self.tell.clone();
        let told = move |what| {
            // Nobody listens any more only when this task is about to end.
            let place = place.clone();
            drop(tell.send(PeeringNews {
                place,
                stream,
                what,
            }));
        };
        let tell_event = told.clone();
        let watch = follow_in_task(cluster, watched, move |event| {
            tell_event(What::Watched(event));
        });
        let (orders, ordered) = unbounded_channel();
        let keeper = Keeper {
            own: own.clone(),
            settings: settings.clone(),
            cluster: cluster.clone(),
            clock: *clock,
            collection: collection.clone(),
            is_refused: false,
        };
        PeeringWatch {
            stream,
            collection,
            found: Found::Unknown,
            is_listed: false,
            version: String::new(),
            is_expected: false,
            peers: Peers::default(),
            orders,
            cleaned: (Vec::new(), String::new()),
            is_blind: false,
            cleaning: Cleaning::Allowed,
            _watch: watch,
            _keeper: AbortOnDropHandle::new(tokio::spawn(keeper.keep(ordered, told))),
        }
    }

    /// Wait until something has happened, or until a peer is dead for want of a sign of life. Cancel-safe.
    pub(super) async fn changed(&mut self) {
        let until = self.verdicts().filter_map(|it| it.until).min();
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
            () = elapses => self.clean(),
        }
    }

    /// Have the records of dead peers taken away.
    fn clean(&mut self) {
        let Some(own) = &self.setup.own else {
            return;
        };
        let now = Instant::now().duration_since(self.setup.clock.started());
        for watch in self.places.values_mut() {
            watch.order(own, now);
        }
    }

    fn take_in(&mut self, news: PeeringNews) {
        let PeeringNews {
            place,
            stream,
            what,
        } = news;
        let (own, clock) = (&self.setup.own, self.setup.clock);
        let watch = self.places.get_mut(&place);
        let (Some(watch), Some(own)) = (watch.filter(|it| it.stream == stream), own) else {
            return;
        };
        match &what {
            What::Watched(WatchEvent::Trouble(_)) => watch.is_blind = true,
            What::Watched(WatchEvent::Resumed | WatchEvent::Synced) => watch.is_blind = false,
            What::Watched(_) | What::Sent(_) | What::CleaningRefused => {}
        }
        match what {
            What::Watched(WatchEvent::Listing(_)) => watch.is_listed = false,
            What::Watched(WatchEvent::Synced) if !watch.is_listed => watch.found = Found::Absent,
            What::Watched(WatchEvent::Object(EventType::Deleted, _))
            | What::Sent(Err(ClusterError::NotFound(_))) => watch.found = Found::Absent,
            What::Watched(WatchEvent::Object(_, raw)) => {
                watch.is_listed = true;
                watch.look_at(&raw, own, clock);
            }
            What::Sent(Ok(raw)) => watch.look_at(&raw, own, clock),
            // As if there were no peering: the operator is told so, and works.
            What::Sent(Err(error)) if !error.is_transient() && watch.found == Found::Unknown => {
                watch.found = Found::Absent;
            }
            What::CleaningRefused => watch.cleaning = Cleaning::Refused,
            What::Watched(_) | What::Sent(Err(_)) => {}
        }
    }

    fn verdicts(&self) -> impl Iterator<Item = Verdict> {
        let own = self.setup.own.as_ref();
        let since = Instant::now().duration_since(self.setup.clock.started());
        self.places.values().filter_map(move |watch| {
            let is_present = watch.found == Found::Present;
            let mut verdict = watch.peers.judge(own?, since);
            if watch.cleaning == Cleaning::Refused && !watch.is_blind {
                verdict.silent = 0;
            }
            Some(verdict).filter(|_| is_present)
        })
    }

    /// Whether the operator is to be paused; [`Peerings::tell_pause`] tells of it.
    pub(super) fn is_paused(&mut self) -> bool {
        if self.setup.own.is_none() {
            return false;
        }
        let verdicts: Vec<Verdict> = self.verdicts().collect();
        let in_favour_of: Vec<String> = verdicts
            .iter()
            .flat_map(|it| it.in_favour_of.iter().cloned())
            .collect();
        let found = |found| self.places.values().any(|it| it.found == found);
        let is_mandatory = self.setup.settings.mandatory;
        let lacks_object = self.places.is_empty() || found(Found::Absent);
        let is_unsure = found(Found::Unknown) && !self.has_begun;
        let lacks_proof =
            self.told == Told::Paused && verdicts.iter().any(|verdict| verdict.silent > 0);
        self.tell_rivals(&verdicts);
        let is_paused = if !in_favour_of.is_empty() {
            self.tell(Told::Paused, Happened::Paused { in_favour_of });
            true
        } else if is_unsure || lacks_proof {
            true
        } else if is_mandatory && lacks_object {
            let name = self.setup.settings.name.clone();
            self.tell(Told::Awaited, Happened::Awaited { name });
            true
        } else {
            self.tell(Told::Nothing, Happened::Resumed);
            false
        };
        self.has_begun |= !is_paused && self.are_places_known;
        is_paused
    }

    fn tell(&mut self, told: Told, happened: Happened) {
        if self.told != told {
            self.told = told;
            self.news_of_pause = Some(happened);
        }
    }

    /// The operator is paused, or at work, as it is to be: tell where that is news.
    pub(super) fn tell_pause(&mut self) {
        self.news_of_pause.take().into_iter().for_each(report);
    }

    fn tell_rivals(&mut self, verdicts: &[Verdict]) {
        let shown = verdicts.iter().flat_map(|it| it.rivals.iter().cloned());
        let peers: Vec<String> = shown.collect();
        // The time of their last sign of life is no news.
        let name = |shown: &String| shown.split(": ").next().unwrap_or_default().to_owned();
        let rivals: BTreeSet<String> = peers.iter().map(name).collect();
        if rivals != self.rivals && !rivals.is_empty() {
            report(Happened::Rivals { peers });
        }
        self.rivals = rivals;
    }

    /// The end: the others are told that this operator is gone.
    pub(crate) async fn leave(self) {
        let Some(own) = &self.setup.own else {
            return;
        };
        let name = &self.setup.settings.name;
        let present = self.places.into_values();
        let present = present.filter(|watch| watch.found == Found::Present);
        let collections: Vec<Arc<Collection>> = present.map(|it| it.collection.clone()).collect();
        let farewell = own.farewell();
        let until = Instant::now() + FAREWELL;
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
            report(Happened::Left { name, error });
        }
    }
}

impl PeeringWatch {
    /// Take in a state of the object, unless a newer one is known.
    fn look_at(&mut self, raw: &Raw, own: &OwnPeer, clock: Clock) {
        let version = &raw.facts().resource_version;
        let [known, new] = [&self.version, version].map(|it| Version::of(it));
        let is_older = known != new && known.covers(&new);
        if is_older && self.found == Found::Present {
            return;
        }
        let Ok(body) = raw.body() else {
            return;
        };
        // What is read before the first sign of life lacks it, which is on its way.
        self.is_expected |= self.found == Found::Absent;
        self.found = Found::Present;
        self.version.clone_from(version);
        let now = Instant::now().duration_since(clock.started());
        self.peers.take_in(body.status(), now, clock.now());
        self.order(own, now);
    }

    /// Have written what the newest state lacks, and taken away what is dead.
    fn order(&mut self, own: &OwnPeer, now: Duration) {
        if self.found != Found::Present {
            return;
        }
        let verdict = self.peers.judge(own, now);
        // The keeper is gone only when this watch is.
        if !verdict.lacks_own {
            self.is_expected = true;
        } else if self.is_expected {
            let _ = self.orders.send(Order::KeepAlive);
        }
        let cleaned = (verdict.dead, self.version.clone());
        if !cleaned.0.is_empty() && cleaned != self.cleaned {
            self.cleaned.clone_from(&cleaned);
            let _ = self.orders.send(Order::Clean(cleaned.0, cleaned.1));
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
    /// The server has refused it, as was told.
    is_refused: bool,
}

impl Keeper {
    /// Send signs of life, and do what is ordered, until nobody orders any more.
    async fn keep(mut self, mut orders: UnboundedReceiver<Order>, tell: impl Fn(What)) {
        let mut failures = Backoff::new(Duration::from_secs(1), Duration::from_secs(10));
        let (mut next, mut last) = (Instant::now(), None::<Instant>);
        loop {
            tokio::select! {
                biased;
                order = orders.recv() => match order {
                    None => return,
                    Some(Order::KeepAlive) => {
                        next = last.map_or(next, |it| next.min(it + BETWEEN_REPAIRS));
                    }
                    Some(Order::Clean(dead, version)) => {
                        let change = without(&dead, &version);
                        let name = &self.settings.name;
                        match self.cluster.patch_records(&self.collection, name, &change).await {
                            Ok(raw) => tell(What::Sent(Ok(raw))),
                            // What the object is like now, the reply to a sign of life shows, and whoever is dead by then is taken away.
                            Err(error) if error.is_transient() || matches!(error, ClusterError::Conflict(_)) => {
                                next = last.map_or(next, |it| next.min(it + BETWEEN_REPAIRS));
                            }
                            Err(_) => tell(What::CleaningRefused),
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
                    tell(What::Sent(sent));
                }
            }
        }
    }

    /// Five to ten seconds less than the lifetime, and at least one second.
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
                    report(Happened::KeptAlive { name, of, is_there });
                }
            }
            Err(ClusterError::NotFound(_)) => {
                let is_there = false;
                report(Happened::KeptAlive { name, of, is_there });
            }
            Err(error) if !std::mem::replace(&mut self.is_refused, true) => {
                let rule = match error {
                    ClusterError::Denied { rule, .. } => rule.clone(),
                    _ => String::new(),
                };
                let error = error.to_string();
                report(Happened::Refused {
                    name,
                    of,
                    error,
                    rule,
                });
            }
            Err(_) => {}
        }
    }
}

fn report(happened: Happened) {
    report_of_operator(&Happening::Peering(happened));
}
