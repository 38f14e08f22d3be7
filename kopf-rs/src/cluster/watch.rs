//! Lists and watches one resource forever: a silent, cut or refused watch recovers by itself, independently of other watches.
//!
//! This module guarantees that no change is lost silently: a stream that cannot be resumed or parsed leads to a new
//! listing. Never retries without a pause. It must not depend on the consumer.

use std::convert::Infallible;
use std::mem::{Discriminant, discriminant};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::cluster::Cluster;
use crate::cluster::error::{Asked, ClusterError};
use crate::cluster::request::{Call, escaped};
use crate::object::collection::Collection;
use crate::object::event::EventType;
use crate::object::key::{Key, KeySet};
use crate::object::raw::{NotAnObject, Raw};
use crate::object::resource::Resource;
use crate::rt::backoff::Backoff;
use crate::rt::flow::Flow;
use crate::rt::rng::Rng;

#[cfg(test)]
mod fuzz;
mod line;
pub(super) mod pages;
mod stream;
#[cfg(test)]
mod tests;

/// The parameters of a watch.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub(crate) collection: Arc<Collection>,
    pub(crate) pace: WatchPace,
    pub(crate) selection: Selection,
    pub(crate) form: ObjectForm,
    /// The consumer's queue: a listing waits for room in it.
    pub(crate) flow: Flow,
}

/// The parts of an object that a watch delivers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ObjectForm {
    /// Everything except `managedFields`.
    #[default]
    Object,
    /// Everything.
    Whole,
    /// Only the metadata, including `managedFields`.
    Metadata,
}

/// The filter of a watch: objects must satisfy all parts. An empty filter selects all objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    /// A label selector.
    pub(crate) labels: String,
    /// A field selector.
    pub(crate) fields: String,
    pub(crate) shard: Option<String>,
}

impl Selection {
    /// Selects the object of that name.
    pub(crate) fn named(name: &str) -> Self {
        Self { fields: format!("metadata.name={name}"), ..Self::default() }
    }
}

/// Timings of a watch. The defaults equal Kopf's settings `watching.*` where these exist.
#[derive(Clone, Debug)]
pub(crate) struct WatchPace {
    /// Reconnect after this long without a line.
    pub(crate) inactivity: Duration,
    /// The `timeoutSeconds` requested from the server, before jitter.
    pub(crate) server_timeout: Duration,
    /// The first and the longest pause after failures.
    pub(crate) backoff: (Duration, Duration),
    /// Objects per page if the server has no streaming lists.
    pub(crate) page: u32,
    /// Close a stream from this side after that time.
    pub(crate) client_timeout: Option<Duration>,
    /// List by streaming if the server supports it.
    pub(crate) streaming: bool,
}

/// An event of a watch.
#[derive(Debug)]
pub(crate) enum WatchEvent {
    /// A listing begins: objects that are not listed before [`WatchEvent::Synced`] no longer exist. The listing is as new as the time when it
    /// was requested.
    Listing(Instant),
    /// An object that was listed, added, modified or deleted.
    Object(EventType, Raw),
    /// The listing is complete. It has shown these objects: others no longer exist, unless the follower knows of them from a later write.
    Synced(KeySet),
    /// The watch fails and retries by itself. Reported once, not on every attempt.
    Trouble(ClusterError),
    /// The watch works again.
    Resumed,
    /// No change, but the server is alive. Servers that support bookmarks send one about every minute.
    Bookmark,
    /// The stream was silent for too long and is renewed.
    Silent,
}

/// Collects the objects that listings show, for all followers of a watch.
#[derive(Debug, Default)]
pub(crate) struct Listings(Option<KeySet>);

impl Listings {
    /// Notes the object of an event while a listing runs, and adds the noted objects to the end of the listing. The end of no listing is a mere
    /// bookmark.
    pub(crate) fn complete(&mut self, of: &Resource, mut event: WatchEvent) -> WatchEvent {
        match &mut event {
            WatchEvent::Listing(_) => self.0 = Some(KeySet::default()),
            WatchEvent::Object(_, raw) => {
                if let Some(shown) = &mut self.0 {
                    shown.add(&Key::of(of, raw.facts()));
                }
            }
            WatchEvent::Synced(shown) => match self.0.take() {
                Some(mut all) => {
                    all.sort();
                    all.version = std::mem::take(&mut shown.version);
                    *shown = all;
                }
                None => event = WatchEvent::Bookmark,
            },
            WatchEvent::Trouble(_) | WatchEvent::Resumed | WatchEvent::Bookmark | WatchEvent::Silent => {}
        }
        event
    }
}

impl Watched {
    /// Watches all objects of a resource, or those in one namespace.
    pub(crate) fn new(resource: Arc<Resource>, namespace: Option<String>, pace: WatchPace) -> Self {
        let collection = Arc::new(Collection { resource, namespace });
        Self {
            collection,
            pace,
            selection: Selection::default(),
            form: ObjectForm::default(),
            flow: Flow::default(),
        }
    }

    /// Restricts the watch to the selected objects.
    pub(crate) fn selecting(self, selection: Selection) -> Self {
        Self { selection, ..self }
    }

    /// Delivers the objects in this form.
    pub(crate) fn in_form(self, form: ObjectForm) -> Self {
        Self { form, ..self }
    }

    /// Returns the parser for objects.
    fn parse(&self) -> Parse {
        match self.form {
            ObjectForm::Object => Raw::parse,
            ObjectForm::Whole | ObjectForm::Metadata => Raw::parse_whole,
        }
    }
}

impl Selection {
    /// Returns true if an object can leave the selection and continue to exist. The server reports that as a deletion, too.
    pub(crate) fn may_be_left(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }

    /// Returns the query parameters, each preceded by `&`.
    fn query(&self) -> String {
        let parts = [
            ("labelSelector", self.labels.as_str()),
            ("fieldSelector", self.fields.as_str()),
            ("shardSelector", self.shard.as_deref().unwrap_or_default()),
        ];
        let mut query = String::new();
        for (name, selector) in parts {
            if !selector.is_empty() {
                query.extend(["&", name, "=", &escaped(selector)]);
            }
        }
        query
    }
}

impl Default for WatchPace {
    fn default() -> Self {
        Self {
            inactivity: Duration::from_secs(70),
            // Jitter subtracts up to a sixth: 200 to 235 s, so that a quiet watch ends before a middlebox cuts it at 240 s.
            server_timeout: Duration::from_secs(235),
            backoff: (Duration::from_millis(800), Duration::from_secs(30)),
            page: 500,
            client_timeout: None,
            streaming: true,
        }
    }
}

impl Cluster {
    /// Feeds `sink` until the future is dropped. The sink must not block.
    pub(crate) async fn watch(
        &self,
        watched: &Watched,
        sink: &mut (dyn FnMut(WatchEvent) + Send),
    ) -> Infallible {
        let mut listings = Listings::default();
        let of = &watched.collection.resource;
        let mut sink = |event| sink(listings.complete(of, event));
        let mut attempts = Watcher::new(self, watched, &mut sink);
        loop {
            let end = attempts.attempt().await;
            let unanswered = matches!(end, End::Failed(ClusterError::Unreachable(_)));
            let pause = attempts.pause_after(end);
            if unanswered {
                self.shared.reach.pause(pause, &attempts.rng).await;
            } else if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
        }
    }
}

/// The minimum lifetime of a healthy stream. Streams that end sooner are renewed after a pause.
const CALM: Duration = Duration::from_secs(10);
/// The first and the longest pause after accepted streams that ended early. It is short, because changes may be waiting.
const CUTS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// The total time that a listing waits for its consumers: servers end streams that are not read.
const LISTING_WAITS: Duration = Duration::from_secs(30);
/// After this many identical failures, the watcher gives up its assumption (a version, a way of listing).
const PATIENCE: u32 = 2;

/// A parser for the text of an object.
type Parse = fn(&str) -> Result<Raw, NotAnObject>;

const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// The state of one watch across attempts.
struct Watcher<'a> {
    cluster: &'a Cluster,
    watched: &'a Watched,
    sink: &'a mut (dyn FnMut(WatchEvent) + Send),
    /// The version to resume from; `None` if a listing is due.
    version: Option<String>,
    /// The last reported failure, until it is over.
    trouble: Option<Discriminant<ClusterError>>,
    failures: Backoff,
    cuts: Backoff,
    /// Of its own, so that its pauses do not depend on the order in which watches fail. That order is random even in virtual time.
    rng: Rng,
    /// Consecutive error events.
    errors: u32,
    /// Consecutive streaming listings that were not completed.
    unfinished: u32,
    /// Consecutive paged listings that expired.
    expired: u32,
    /// Until then, a listing waits for its consumers.
    waits_until: Instant,
}

/// The way in which an attempt ended.
enum End {
    /// The paged listing is complete: the watch can start.
    Listed,
    /// The stream ended or was cut.
    Over,
    /// No line arrived for too long.
    Silent,
    /// 410: only a new listing helps.
    Expired(String),
    /// The server does not support streaming lists.
    NoStreaming(String),
    /// A line that cannot be parsed.
    Garbled(String),
    Failed(ClusterError),
}

impl<'a> Watcher<'a> {
    fn new(cluster: &'a Cluster, watched: &'a Watched, sink: &'a mut (dyn FnMut(WatchEvent) + Send)) -> Self {
        let (first, longest) = watched.pace.backoff;
        Self {
            cluster,
            watched,
            sink,
            version: None,
            trouble: None,
            failures: Backoff::new(first, longest),
            cuts: Backoff::new(CUTS.0, CUTS.1),
            rng: cluster.rng().fork(),
            errors: 0,
            unfinished: 0,
            expired: 0,
            waits_until: Instant::now(),
        }
    }

    async fn attempt(&mut self) -> End {
        let streamable = || {
            self.watched.pace.streaming
                && self.unfinished < PATIENCE
                && !self.cluster.shared.unstreamable.has(&self.watched.collection.resource.group)
        };
        if self.version.is_some() || streamable() { self.stream().await } else { self.pages().await }
    }

    /// Updates the state after an attempt, and returns the pause before the next one.
    fn pause_after(&mut self, end: End) -> Duration {
        match end {
            End::Over | End::Silent if self.version.is_none() => {
                self.report(ClusterError::Unreachable("the listing has broken off".to_owned()));
                self.failures.next_pause(&self.rng)
            }
            End::Listed => Duration::ZERO,
            End::Silent => {
                (self.sink)(WatchEvent::Silent);
                Duration::ZERO
            }
            End::Over => self.cuts.next_pause(&self.rng),
            End::NoStreaming(why) => {
                tracing::debug!("{} is listed by pages: {why}", self.watched.collection);
                let group = &self.watched.collection.resource.group;
                self.cluster.shared.unstreamable.add(group);
                Duration::ZERO
            }
            End::Expired(why) => {
                tracing::debug!("Restarting the watch-stream for {}: {why}", self.watched.collection);
                self.version = None;
                self.failures.next_pause(&self.rng)
            }
            End::Garbled(what) => {
                self.version = None;
                self.report(ClusterError::Invalid(what));
                self.failures.next_pause(&self.rng)
            }
            End::Failed(error) => {
                if is_about_the_version(&error) {
                    self.version = None;
                }
                let asked_for = error.retry_after().unwrap_or_default();
                self.report(error);
                self.failures.next_pause_after(asked_for, &self.rng)
            }
        }
    }

    fn begin_listing(&mut self, asked: Instant) {
        self.waits_until = Instant::now() + LISTING_WAITS;
        (self.sink)(WatchEvent::Listing(asked));
    }

    /// Waits for room in the consumer's queue before more of a listing is read, but not for consumers that make no progress.
    async fn wait_for_room(&mut self) {
        let waits_until = self.waits_until;
        if waits_until <= Instant::now() {
            return;
        }
        let room = tokio::time::timeout_at(waits_until, self.watched.flow.room());
        if room.await != Ok(true) {
            self.waits_until = Instant::now();
        }
    }

    /// Resets all counters after an attempt that was healthy for long enough.
    fn calm(&mut self) {
        self.failures.reset();
        self.cuts.reset();
        self.errors = 0;
        self.expired = 0;
    }

    fn report(&mut self, error: ClusterError) {
        let kind = discriminant(&error);
        let former = self.trouble.replace(kind);
        if former == Some(kind) {
            return;
        }
        let nobody = discriminant(&ClusterError::Unreachable(String::new()));
        if former == Some(nobody) {
            // A starting server refuses at first, so the failures until it was reachable do not predict the length of this failure.
            self.failures.reset();
        }
        (self.sink)(WatchEvent::Trouble(error));
    }

    /// Reports that the listing of this version is complete.
    fn end_listing(&mut self, version: String) {
        self.advance(&version);
        (self.sink)(WatchEvent::Synced(KeySet::at(version)));
    }

    /// Reports recovery: the requested data has arrived or is arriving.
    fn recover(&mut self) {
        if self.trouble.take().is_some() {
            (self.sink)(WatchEvent::Resumed);
        }
    }

    fn advance(&mut self, version: &str) {
        if !version.is_empty() {
            let known = self.version.get_or_insert_default();
            known.clear();
            known.push_str(version);
        }
    }

    fn asked(&self) -> Asked<'a> {
        let collection = &self.watched.collection;
        let namespace = collection.namespace.as_deref();
        Asked::of(&collection.resource, namespace, &["list", "watch"])
    }

    /// Returns the call of the watch: from the known version on, or with a listing first.
    fn watch_call(&self) -> Call<'a> {
        let Watched { collection, pace, selection, form, .. } = self.watched;
        let off = self.rng.jitter(pace.server_timeout * 3 / 20);
        let seconds = pace.server_timeout.saturating_sub(off).as_secs();
        let path = collection.path();
        let from = match &self.version {
            Some(version) => format!("resourceVersion={}", escaped(version)),
            None => "sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned(),
        };
        let target = format!(
            "{path}?watch=true&allowWatchBookmarks=true&timeoutSeconds={}&{from}{}",
            seconds.max(1),
            selection.query()
        );
        let mut call = Call::get(target, self.asked());
        if *form == ObjectForm::Metadata {
            call.accept = METADATA;
        }
        call
    }
}

/// Returns true for errors that persist while the same version is requested. A server restored from a backup is older than our version.
fn is_about_the_version(error: &ClusterError) -> bool {
    match error {
        ClusterError::Busy { message, .. } => message.contains("Too large resource version"),
        ClusterError::NotFound(_) | ClusterError::Invalid(_) => true,
        _ => false,
    }
}
