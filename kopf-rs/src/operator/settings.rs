//! Settings: plain values under Kopf's names, with defaults that need no thought.
//!
//! Must not know what anything is set for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::cluster::watch::WatchPace;
use crate::engine::posting::queue::PostingGates;
use crate::handler::event_sink::PostingLevel;
use crate::handler::lifecycle::Lifecycle;
use crate::health::board::Bounds;
use crate::object::lease::LeaseTimes;
use crate::object::posted_event::Reporter;
use crate::operator::selection_map::SelectorMap;
use crate::operator::settings::admission::Admission;
use crate::state::Persistence;

pub(crate) mod admission;

/// All settings of an operator. A program of `kopf_rs::main!()` takes them from several places, of which the later ones count: the defaults, a
/// file (`--settings`, `Settings::read_file`), the environment ([`Settings::read_environment`]), the flags, and its startup handlers, which
/// change them through [`StartupSettings`]. A program of its own gives them to [`Operator::settings`](crate::Operator::settings).
///
/// ```
/// use kopf_rs::Settings;
///
/// let one_at_a_time = Settings::with(|settings| settings.queueing.worker_limit = Some(1));
/// # assert_eq!(one_at_a_time.queueing.worker_limit, Some(1));
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Settings {
    /// How handlers are picked, retried and run.
    pub execution: Execution,
    /// How daemons and timers are stopped.
    pub background: Background,
    /// How many objects are handled at the same time, and for how long they may be handled while the operator stops.
    pub queueing: Queueing,
    /// How resources are watched.
    pub watching: Watching,
    /// How requests are repeated and limited.
    pub networking: Networking,
    /// How new kinds and namespaces are found.
    pub scanning: Scanning,
    /// Which Kubernetes Events are posted.
    pub posting: Posting,
    /// What the operator says in the status of objects.
    pub status: StatusSettings,
    /// Which of several operators for the same objects handles them.
    pub peering: Peering,
    /// Whether one instance of the operator is at work at a time.
    pub lease: LeaseSettings,
    /// When the operator says that it is not well.
    pub health: Health,
    /// How the API server asks admission handlers.
    pub admission: Admission,
    /// Where the state is kept on objects. Default: `None`, for annotations under `{operator's name}.kopf.rs`.
    pub persistence: Option<Persistence>,
}

/// Which of several operators for the same objects handles them: the one with the highest priority; the others are paused meanwhile.
///
/// They tell of themselves in the status of an object of Kopf's kinds `ClusterKopfPeering` or, if they serve some namespaces only,
/// `KopfPeering` in each of them. Kopf operators take part, too. Where these kinds are not there, or no object has the name, an operator runs as if
/// it were alone.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Peering {
    /// Take no part: no object is read or written. Default: `false`.
    pub standalone: bool,
    /// The name of the peering object. Default: `default`.
    pub name: String,
    /// Be paused as long as there is no object of that name. Default: `false`.
    pub mandatory: bool,
    /// Operators with a lower priority are paused. Of equal operators, the one goes on that was started first. Default: 0.
    pub priority: i64,
    /// After how long without a sign of life the others take this operator for dead, in whole seconds. It gives one five to ten seconds
    /// earlier. Default: 60 seconds.
    pub lifetime: Duration,
    /// Write no log lines about signs of life. Default: `false`.
    pub stealth: bool,
}

/// Whether one instance of the operator is at work at a time: the one that holds a Lease (`coordination.k8s.io/v1`). The others stand by.
///
/// An instance that could not renew the Lease writes nothing any more, however long it was frozen. Clocks of instances may be apart, but must
/// not run at speeds that differ by a tenth. `docs/replicas.md` tells the rest.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LeaseSettings {
    /// Take part: no handler is called before this instance holds the Lease. Default: `false`.
    pub enabled: bool,
    /// The name of the Lease. Default: `None`, for the operator's name.
    pub name: Option<String>,
    /// The namespace of the Lease. Default: `None`, for that of the operator's Pod, or that of the kubeconfig's context.
    pub namespace: Option<String>,
    /// Others take the Lease when it was not renewed for this time, in whole seconds, at least 5. Default: 15 seconds.
    pub duration: Duration,
    /// After this time without a renewal, the holder calls no handler any more; after two fifths of the rest of `duration`, it writes
    /// nothing. Less than `duration`. Default: 10 seconds.
    pub renew_deadline: Duration,
    /// The time between two renewals, and between two looks of those that stand by, who see it sooner where they may watch the Lease. At most
    /// half of `renew_deadline`. Default: 2 seconds.
    pub retry_period: Duration,
}

/// How handlers are picked, retried and run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Execution {
    /// Which of the due handlers of an object run in one pass. Default: [`Lifecycle::Asap`].
    pub lifecycle: Lifecycle,
    /// The delay after each arbitrary error of a handler without `backoff`. Default: `None`, for a delay that grows from `first_backoff` to
    /// `longest_backoff`.
    pub default_backoff: Option<Duration>,
    /// The delay after the first arbitrary error of a handler without `backoff`. It doubles with every further error, and is up to a fifth
    /// longer at random. Default: 1 second.
    pub first_backoff: Duration,
    /// The longest such delay. Default: 60 seconds.
    pub longest_backoff: Duration,
    /// How many blocking handlers run at the same time. Default: the number of processors and 4 more, at most 32.
    pub max_workers: usize,
    /// How many calls of `#[reconcile]` functions run at the same time, for each kind of objects. The others wait: for each of them, the text of
    /// its object is in memory, where a call that runs takes about ten times that. Default: 100.
    pub max_reconciles: usize,
}

/// How daemons and timers are stopped.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Background {
    /// How often a log line names a daemon that still runs while its object is being deleted, if it has no `cancellation_polling` of its own.
    /// Default: 60 seconds.
    pub cancellation_polling: Duration,
}

/// How many objects are handled at the same time, and for how long they may be handled while the operator stops.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Queueing {
    /// How many objects may have running handlers or requests at the same time. Default: `None`, for any number.
    ///
    /// While the handlers of an object run, the whole object is in memory, and takes about ten times the size of its JSON text. If handlers
    /// take long, and are called for thousands of objects at the same time, only this limit bounds that memory.
    pub worker_limit: Option<usize>,
    /// How long handlers may continue to run when the operator stops, before they are cancelled. Default: 2 seconds.
    pub exit_timeout: Duration,
}

/// How resources are watched.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Watching {
    /// After how long the server ends a watch, which is then renewed; varied at random. Default: 235 seconds.
    pub server_timeout: Duration,
    /// A watch without any event or bookmark for this time is renewed. Default: 70 seconds.
    pub inactivity_timeout: Duration,
    /// The pause after the first failure of a watch. It doubles with every further failure. Default: 800 milliseconds.
    pub reconnect_backoff: Duration,
    /// The longest such pause. Default: 30 seconds.
    pub longest_backoff: Duration,
    /// How many objects a page of a listing has, where the server has no streaming lists. Default: 500.
    pub chunk_size: u32,
    /// After how long a watch is renewed by the operator, whatever comes. Default: `None`, for a watch that the server ends.
    pub client_timeout: Option<Duration>,
    /// List by streaming, which spares both sides the pages. Where a server does not know it, pages are used in any case. Default: `true`.
    pub initial_streaming: bool,
    /// Label selectors that are sent to the server, per resource: objects that do not satisfy them are not watched. Default: none.
    ///
    /// An object that no longer satisfies its selector is one without handlers: the operator's finalizer is taken off, its daemons and timers
    /// are stopped, and no deletion handler is called. What changes while the operator is down goes unseen: the finalizer stays on it.
    pub label_selectors: SelectorMap,
    /// The same by field selectors, such as `metadata.namespace!=kube-system`.
    pub field_selectors: SelectorMap,
    /// Shard selectors, which let several operators share the objects of a resource; of several for one resource, the first one counts. The
    /// server must know them, which is an alpha feature of Kubernetes: others ignore them, and show all objects. Default: none.
    pub shard_selectors: SelectorMap,
    /// Send the `labels` filters of handlers to the server, as far as all handlers of a resource have them, and all are for raw events. An
    /// object that gets its labels later is then told of as `ADDED`. Default: `true`.
    pub label_filters: bool,
}

/// How requests are repeated and limited.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Networking {
    /// The pause after the first failure of a request. It doubles with every further failure. Default: 250 milliseconds.
    pub first_backoff: Duration,
    /// The longest such pause. Default: 30 seconds.
    pub longest_backoff: Duration,
    /// For how long the complete answer to a request that is no watch is waited for. A server gives up after 60 seconds by itself. Default: 65
    /// seconds.
    pub request_timeout: Duration,
    /// How many writes may be in flight at the same time. Default: 16.
    pub concurrent_writes: usize,
}

/// How new kinds and namespaces are found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Scanning {
    /// Do not look for new kinds and namespaces: the operator serves only those that exist at its start. Default: `false`.
    pub disabled: bool,
    /// How often the operator looks for new kinds, if it may not watch definitions of custom resources. Default: 60 seconds.
    pub interval: Duration,
}

/// Which Kubernetes Events are posted: what handlers post through [`Events`](crate::Events), and log lines where that is asked for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Posting {
    /// Post Events at all. Default: yes.
    pub enabled: bool,
    /// Post log lines of handlers of changes as Events, too: those that they write by `info!` and the like, and those on how their attempts and
    /// the handling of their objects have ended. Default: no.
    pub loggers: bool,
    /// Post only what is at least that important; `Events::event` posts whatever the level is. Default: `Info`.
    pub level: PostingLevel,
    /// Which controller the Events are of (`reportingController`). `None`: the operator's name.
    pub reporting_component: Option<String>,
    /// Which instance of it has posted them (`reportingInstance`). `None`: the name of the host, which is that of the Pod.
    pub reporting_instance: Option<String>,
    /// What the names of Events begin with. Default: `kopf-event-`.
    pub event_name_prefix: String,
}

/// What the operator says in the status of objects.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct StatusSettings {
    /// Show what handlers have come to as conditions of their object: `Ready`, which is true when all handlers of changes and all `#[reconcile]` functions
    /// have succeeded, and no daemon or timer has failed since it has last succeeded, and `Stalled` where one has failed for good. Then `kubectl wait --for=condition=Ready` works. Default: no.
    ///
    /// While a handler fails, `Ready` is false, its reason is the class of the error (`TemporaryError`, `PermanentError`, `UnexpectedError`, `TimedOut`,
    /// `RetriesExceeded`), or what is wrong with a child (`ChildRefused`, `ChildNotOurs`, `ChildConflict`, `ChildKindMissing`), and its message tells the errors. A `Ready` that a handler sets itself, with a reason of its own, stays as it is. Objects of
    /// Kubernetes' own kinds get no such conditions. A status subresource costs one more request for each change of a condition, unless the status is
    /// written in any case.
    pub conditions: bool,
}

/// When the operator says that it is not well, where it is asked: see [`Operator::liveness`](crate::Operator::liveness).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Health {
    /// How long all probes (`#[on_probe]`) together may take. Default: 5 seconds.
    pub probe_timeout: Duration,
    /// `/livez` fails when the operator's own thread, or all threads of its handlers, are blocked for this time. Default: 10 seconds.
    pub beat_timeout: Duration,
    /// `/readyz` fails when a change of an object waits for this time, because a handler of that object runs on and on, or because none of
    /// the places of `queueing.worker_limit` is free. Default: 10 minutes.
    pub late_after: Duration,
    /// `/livez` fails when a change of an object waits for this time: Kubernetes will then start the operator anew, which cuts the handlers
    /// that run. Where handlers may take longer, this must be longer, too. What waits because the server does not take the operator's writes
    /// does not count: a new start would not mend that. Default: 1 hour.
    pub stuck_after: Duration,
    /// Answer at `/statusz`, for those who ask from the same machine. Default: `true`.
    ///
    /// The containers of a Pod are one machine to each other. Requests that a proxy among them hands on are refused, as far as they show it: by
    /// the Pod's own address, by another host name than `localhost`, or by a header such as `X-Forwarded-For`. Switch it off beside a proxy
    /// that hides all of this.
    pub status: bool,
}

/// The operator's settings in the hands of its startup handlers, which may change them: the argument `settings`. Clones share them.
///
/// The operator takes them as they are when the last startup handler has succeeded. Who changes them later changes nothing for objects.
///
/// ```
/// use kopf_rs::prelude::*;
///
/// #[on_startup]
/// fn configure(settings: StartupSettings) {
///     settings.change(|settings| settings.queueing.worker_limit = Some(10));
/// }
///
/// // In a unit test:
/// let settings = StartupSettings::default();
/// configure(settings.clone());
/// assert_eq!(settings.get().queueing.worker_limit, Some(10));
/// ```
#[derive(Clone, Debug, Default)]
pub struct StartupSettings(Arc<Mutex<Settings>>);

/// A setting that cannot be understood, with where it was found and what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SettingsError(String);

impl SettingsError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl Settings {
    /// The default settings but for what `change` sets.
    #[must_use]
    pub fn with<T>(change: impl FnOnce(&mut Self) -> T) -> Self {
        let mut settings = Self::default();
        change(&mut settings);
        settings
    }
}

impl StartupSettings {
    pub(crate) fn new(settings: Settings) -> Self {
        Self(Arc::new(Mutex::new(settings)))
    }

    /// A copy of the current settings.
    #[must_use]
    pub fn get(&self) -> Settings {
        self.lock().clone()
    }

    /// Change the settings: `settings.change(|settings| settings.queueing.worker_limit = Some(10))`. The function may also
    /// read them, as they were before the change.
    pub fn change<T>(&self, change: impl FnOnce(&mut Settings) -> T) -> T {
        let mut settings = self.get();
        let result = change(&mut settings);
        *self.lock() = settings;
        result
    }

    fn lock(&self) -> MutexGuard<'_, Settings> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Execution {
    /// The first and the longest delay after arbitrary errors.
    pub(super) fn backoff(&self) -> (Duration, Duration) {
        let growing = (self.first_backoff, self.longest_backoff);
        self.default_backoff.map_or(growing, |fixed| (fixed, fixed))
    }
}

impl Default for Execution {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            lifecycle: Lifecycle::default(),
            default_backoff: None,
            first_backoff: Duration::from_secs(1),
            longest_backoff: Duration::from_secs(60),
            max_workers: (processors + 4).min(32),
            max_reconciles: 100,
        }
    }
}

impl Default for Background {
    fn default() -> Self {
        Self {
            cancellation_polling: Duration::from_secs(60),
        }
    }
}

impl Default for Queueing {
    fn default() -> Self {
        Self {
            worker_limit: None,
            exit_timeout: Duration::from_secs(2),
        }
    }
}

impl Default for Watching {
    fn default() -> Self {
        let pace = WatchPace::default();
        Self {
            server_timeout: pace.server_timeout,
            inactivity_timeout: pace.inactivity,
            reconnect_backoff: pace.backoff.0,
            longest_backoff: pace.backoff.1,
            chunk_size: pace.page,
            client_timeout: pace.client_timeout,
            initial_streaming: pace.streaming,
            label_selectors: SelectorMap::default(),
            field_selectors: SelectorMap::default(),
            shard_selectors: SelectorMap::default(),
            label_filters: true,
        }
    }
}

impl Default for Networking {
    fn default() -> Self {
        Self {
            first_backoff: Duration::from_millis(250),
            longest_backoff: Duration::from_secs(30),
            request_timeout: Duration::from_secs(65),
            concurrent_writes: 16,
        }
    }
}

impl Posting {
    /// Which Events are taken; `None`: none at all.
    pub(super) fn gates(&self) -> Option<PostingGates> {
        self.enabled.then_some(PostingGates {
            level: self.level,
            lines: self.loggers,
        })
    }

    /// Who posts, for an operator of that name.
    pub(super) fn reporter(&self, operator: &str) -> Reporter {
        let or = |given: &Option<String>, default: &dyn Fn() -> Option<String>| {
            let given = given.clone().or_else(default);
            given
                .filter(|name| !name.is_empty())
                .unwrap_or_else(|| operator.to_owned())
        };
        Reporter {
            controller: or(&self.reporting_component, &|| None),
            instance: or(&self.reporting_instance, &host_name),
        }
    }
}

/// The name of this host, as far as it is easily told.
pub(super) fn host_name() -> Option<String> {
    let told = std::env::var("HOSTNAME").ok();
    let read = || std::fs::read_to_string("/etc/hostname").ok();
    Some(told.or_else(read)?.trim().to_owned())
}

impl Default for Peering {
    fn default() -> Self {
        Self {
            standalone: false,
            name: "default".to_owned(),
            mandatory: false,
            priority: 0,
            lifetime: Duration::from_secs(60),
            stealth: false,
        }
    }
}

impl LeaseSettings {
    pub(super) fn times(&self) -> LeaseTimes {
        LeaseTimes {
            duration: self.duration,
            renew_deadline: self.renew_deadline,
            retry: self.retry_period,
        }
    }
}

impl Default for LeaseSettings {
    fn default() -> Self {
        Self {
            enabled: false,
            name: None,
            namespace: None,
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

impl Default for Posting {
    fn default() -> Self {
        Self {
            enabled: true,
            loggers: false,
            level: PostingLevel::Info,
            reporting_component: None,
            reporting_instance: None,
            event_name_prefix: "kopf-event-".to_owned(),
        }
    }
}

impl Health {
    pub(super) fn bounds(&self) -> Bounds {
        Bounds {
            probes: self.probe_timeout,
            beat: self.beat_timeout,
            late: self.late_after,
            stuck: self.stuck_after,
            status: self.status,
        }
    }
}

impl Default for Health {
    fn default() -> Self {
        Self {
            probe_timeout: Duration::from_secs(5),
            beat_timeout: Duration::from_secs(10),
            late_after: Duration::from_secs(600),
            stuck_after: Duration::from_secs(3600),
            status: true,
        }
    }
}

impl Default for Scanning {
    fn default() -> Self {
        Self {
            disabled: false,
            interval: Duration::from_secs(60),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_can_be_read_while_they_are_changed() {
        let settings = StartupSettings::default();
        let before = settings.change(|changed| {
            changed.queueing.worker_limit = Some(3);
            settings.get().queueing.worker_limit
        });
        assert_eq!(
            (before, settings.get().queueing.worker_limit),
            (None, Some(3))
        );
    }

    #[test]
    fn the_default_backoff_is_fixed_where_it_is_given() {
        let mut execution = Execution::default();
        let seconds = |(first, longest): (Duration, Duration)| (first.as_secs(), longest.as_secs());
        assert_eq!(seconds(execution.backoff()), (1, 60));
        execution.default_backoff = Some(Duration::from_secs(7));
        assert_eq!(seconds(execution.backoff()), (7, 7));
    }
}
