//! List and watch one resource, for ever: a silent, cut or refused watch comes back by itself, alone.
//!
//! Promises that nothing is lost silently: whatever cannot be resumed or understood leads to a new listing. Never asks in a
//! hot loop. Must not know who listens.

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
use crate::object::raw::{NotAnObject, Raw};
use crate::object::resource::Resource;
use crate::rt::backoff::Backoff;

mod line;
pub(super) mod pages;
mod stream;
#[cfg(test)]
mod tests;

/// What is watched, and how.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub(crate) collection: Arc<Collection>,
    pub(crate) pace: WatchPace,
    pub(crate) selection: Selection,
    pub(crate) form: ObjectForm,
}

/// What of an object a watch tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ObjectForm {
    /// All but its `managedFields`.
    #[default]
    Object,
    /// All of it.
    Whole,
    /// Nothing but its metadata, `managedFields` included.
    Metadata,
}

/// Which objects of a collection are watched: those that satisfy all of these. Empty: all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    /// A label selector.
    pub(crate) labels: String,
    /// A field selector.
    pub(crate) fields: String,
    pub(crate) shard: Option<String>,
}

impl Selection {
    /// The object of that name.
    pub(crate) fn named(name: &str) -> Self {
        Self {
            fields: format!("metadata.name={name}"),
            ..Self::default()
        }
    }
}

/// Timings of a watch; defaults as Kopf's settings `watching.*` where they exist.
#[derive(Clone, Debug)]
pub(crate) struct WatchPace {
    /// No line for that long: reconnect.
    pub(crate) inactivity: Duration,
    /// `timeoutSeconds` asked of the server, before jitter.
    pub(crate) server_timeout: Duration,
    /// First and longest pause after failures.
    pub(crate) backoff: (Duration, Duration),
    /// Objects per page where the server has no streaming lists.
    pub(crate) page: u32,
    /// A stream is ended by ourselves after that time.
    pub(crate) client_timeout: Option<Duration>,
    /// List by streaming where the server can.
    pub(crate) streaming: bool,
}

/// What a watch tells.
#[derive(Debug)]
pub(crate) enum WatchEvent {
    /// A listing begins: objects not named until [`WatchEvent::Synced`] do not exist any more. It is as new as the moment when it was
    /// asked for.
    Listing(Instant),
    /// An object as listed, added, modified or deleted.
    Object(EventType, Raw),
    /// The listing is complete.
    Synced,
    /// The watch is in trouble and tries again by itself. Told once, not on every try.
    Trouble(ClusterError),
    /// The trouble is over.
    Resumed,
    /// Nothing has changed, and the server is there: told about every minute, where it tells so at all.
    Bookmark,
    /// Nothing has come for too long: the watch is renewed.
    Silent,
}

impl Watched {
    /// All objects of a resource, or those in one namespace.
    pub(crate) fn new(resource: Arc<Resource>, namespace: Option<String>, pace: WatchPace) -> Self {
        let collection = Arc::new(Collection {
            resource,
            namespace,
        });
        Self {
            collection,
            pace,
            selection: Selection::default(),
            form: ObjectForm::default(),
        }
    }

    /// Only the objects that are selected.
    pub(crate) fn selecting(self, selection: Selection) -> Self {
        Self { selection, ..self }
    }

    /// The objects in this form.
    pub(crate) fn told_as(self, form: ObjectForm) -> Self {
        Self { form, ..self }
    }

    /// How an object is read.
    fn parse(&self) -> Parse {
        match self.form {
            ObjectForm::Object => Raw::parse,
            ObjectForm::Whole | ObjectForm::Metadata => Raw::parse_whole,
        }
    }
}

impl Selection {
    /// Whether an object that changes may go out of it, and live on: the server calls that a deletion, too.
    pub(crate) fn may_be_left(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }

    /// As parameters of a query, each with its `&`.
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
            // Jitter takes up to a sixth off: 200 to 235 s, so that a quiet watch ends before a middlebox cuts it at 240 s.
            server_timeout: Duration::from_secs(235),
            backoff: (Duration::from_millis(800), Duration::from_secs(30)),
            page: 500,
            client_timeout: None,
            streaming: true,
        }
    }
}

impl Cluster {
    /// Feed `sink` until the future is dropped. The sink must not block.
    pub(crate) async fn watch(
        &self,
        watched: &Watched,
        sink: &mut (dyn FnMut(WatchEvent) + Send),
    ) -> Infallible {
        let mut attempts = Watcher::new(self, watched, sink);
        loop {
            let end = attempts.attempt().await;
            let unanswered = matches!(end, End::Failed(ClusterError::Unreachable(_)));
            let pause = attempts.pause_after(end);
            if unanswered {
                self.shared.reach.pause(pause, self.rng()).await;
            } else if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
        }
    }
}

/// A stream that lived this long was a good one; what ends sooner is paced.
const CALM: Duration = Duration::from_secs(10);
/// First and longest pause after streams that were accepted and ended soon: short, for changes may wait.
const CUTS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// The same failure that often, and what we believe in (a version, a way of listing) is given up.
const PATIENCE: u32 = 2;

/// How the text of an object is read.
type Parse = fn(&str) -> Result<Raw, NotAnObject>;

const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// One watch, from attempt to attempt.
struct Watcher<'a> {
    cluster: &'a Cluster,
    watched: &'a Watched,
    sink: &'a mut (dyn FnMut(WatchEvent) + Send),
    /// Where to go on. `None`: a listing is due.
    version: Option<String>,
    /// What was told last, until it is over.
    trouble: Option<Discriminant<ClusterError>>,
    failures: Backoff,
    cuts: Backoff,
    /// Error events in a row.
    errors: u32,
    /// Streaming listings in a row that did not come to their end.
    unfinished: u32,
    /// Paged listings in a row that expired.
    expired: u32,
}

/// How an attempt has ended.
enum End {
    /// The paged listing is complete: the watch can start.
    Listed,
    /// The stream is over, or was cut.
    Over,
    /// No line came for too long.
    Silent,
    /// 410: only a listing helps.
    Expired(String),
    /// The server does not know streaming lists.
    NoStreaming(String),
    /// A line that we do not understand.
    Garbled(String),
    Failed(ClusterError),
}

impl<'a> Watcher<'a> {
    fn new(
        cluster: &'a Cluster,
        watched: &'a Watched,
        sink: &'a mut (dyn FnMut(WatchEvent) + Send),
    ) -> Self {
        let (first, longest) = watched.pace.backoff;
        Self {
            cluster,
            watched,
            sink,
            version: None,
            trouble: None,
            failures: Backoff::new(first, longest),
            cuts: Backoff::new(CUTS.0, CUTS.1),
            errors: 0,
            unfinished: 0,
            expired: 0,
        }
    }

    async fn attempt(&mut self) -> End {
        let streamable = || {
            self.watched.pace.streaming
                && self.unfinished < PATIENCE
                && !self
                    .cluster
                    .shared
                    .unstreamable
                    .has(&self.watched.collection.resource.group)
        };
        if self.version.is_some() || streamable() {
            self.stream().await
        } else {
            self.pages().await
        }
    }

    /// Learn from the end of an attempt; how long to wait before the next one.
    fn pause_after(&mut self, end: End) -> Duration {
        match end {
            End::Over | End::Silent if self.version.is_none() => {
                self.tell(ClusterError::Unreachable(
                    "the listing has broken off".to_owned(),
                ));
                self.failures.next_pause(self.cluster.rng())
            }
            End::Listed => Duration::ZERO,
            End::Silent => {
                (self.sink)(WatchEvent::Silent);
                Duration::ZERO
            }
            End::Over => self.cuts.next_pause(self.cluster.rng()),
            End::NoStreaming(why) => {
                tracing::debug!("{} is listed by pages: {why}", self.watched.collection);
                let group = &self.watched.collection.resource.group;
                self.cluster.shared.unstreamable.add(group);
                Duration::ZERO
            }
            End::Expired(why) => {
                tracing::debug!(
                    "Restarting the watch-stream for {}: {why}",
                    self.watched.collection
                );
                self.version = None;
                self.failures.next_pause(self.cluster.rng())
            }
            End::Garbled(what) => {
                self.version = None;
                self.tell(ClusterError::Invalid(what));
                self.failures.next_pause(self.cluster.rng())
            }
            End::Failed(error) => {
                if is_about_the_version(&error) {
                    self.version = None;
                }
                let asked_for = error.retry_after().unwrap_or_default();
                self.tell(error);
                let rng = self.cluster.rng();
                self.failures.next_pause_after(asked_for, rng)
            }
        }
    }

    /// An attempt was as it should be, for long enough to believe in it.
    fn calm(&mut self) {
        self.failures.reset();
        self.cuts.reset();
        self.errors = 0;
        self.expired = 0;
    }

    fn tell(&mut self, error: ClusterError) {
        let kind = discriminant(&error);
        let former = self.trouble.replace(kind);
        if former == Some(kind) {
            return;
        }
        let nobody = discriminant(&ClusterError::Unreachable(String::new()));
        if former == Some(nobody) {
            // A server that starts refuses at first: what it took to find it says nothing of how long.
            self.failures.reset();
        }
        (self.sink)(WatchEvent::Trouble(error));
    }

    /// All that was asked for has come, or is coming.
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

    /// The call of the watch: from the known version on, or with all there is first.
    fn watch_call(&self) -> Call<'a> {
        let Watched {
            collection,
            pace,
            selection,
            form,
        } = self.watched;
        let off = self.cluster.rng().jitter(pace.server_timeout * 3 / 20);
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

/// Errors that stay as long as the same version is asked for. A server restored from a backup is younger than our version.
fn is_about_the_version(error: &ClusterError) -> bool {
    match error {
        ClusterError::Busy { message, .. } => message.contains("Too large resource version"),
        ClusterError::NotFound(_) | ClusterError::Invalid(_) => true,
        _ => false,
    }
}
