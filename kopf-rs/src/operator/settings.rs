//! Settings: plain values under Kopf's names, with sensible defaults.
//!
//! Must not know the components that use them.

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

/// All settings of an operator. A program of `kopf_rs::main!()` reads them from several sources, of which later ones take precedence: the
/// defaults, a file (`--settings`, `Settings::read_file`), the environment ([`Settings::read_environment`]), the flags, and its startup
/// handlers, which change them through [`StartupSettings`]. Other programs pass them to [`Operator::settings`](crate::Operator::settings).
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
    /// Settings for selecting, retrying and executing handlers.
    pub execution: Execution,
    /// Settings for stopping daemons and timers.
    pub background: Background,
    /// Settings for the number of objects that are handled concurrently, and for handlers that run while the operator stops.
    pub queueing: Queueing,
    /// Settings for watching resources.
    pub watching: Watching,
    /// Settings for retries and limits of requests.
    pub networking: Networking,
    /// Settings for discovering new kinds and namespaces.
    pub scanning: Scanning,
    /// Settings for posting Kubernetes Events.
    pub posting: Posting,
    /// Settings for the operator's conditions in the status of objects.
    pub status: StatusSettings,
    /// Settings for the coordination of several operators for the same objects.
    pub peering: Peering,
    /// Settings for the leader election among the operator's instances.
    pub lease: LeaseSettings,
    /// Settings for health checks.
    pub health: Health,
    /// Settings for admission webhooks.
    pub admission: Admission,
    /// The storage of the operator's state on objects. Default: `None`, for annotations under `{operator's name}.kopf.rs`.
    pub persistence: Option<Persistence>,
}

/// Settings for the coordination of several operators for the same objects: the one with the highest priority handles them, and the others
/// pause meanwhile.
///
/// Each operator announces itself in the status of an object of Kopf's kinds: `ClusterKopfPeering`, or `KopfPeering` in each namespace if it
/// serves only some namespaces. Kopf operators participate, too. If these kinds do not exist, or no object has the name, an operator runs as
/// if it were alone.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Peering {
    /// Do not participate: no peering object is read or written. Default: `false`.
    pub standalone: bool,
    /// The name of the peering object. Default: `default`.
    pub name: String,
    /// Pause as long as there is no object of that name. Default: `false`.
    pub mandatory: bool,
    /// Operators with a lower priority pause. If priorities are equal, the operator that was started first continues. Default: 0.
    pub priority: i64,
    /// The time without a keep-alive after which the other operators consider this one dead, in whole seconds. It writes a keep-alive five to
    /// ten seconds earlier. Default: 60 seconds.
    pub lifetime: Duration,
    /// Write no log lines about keep-alives. Default: `false`.
    pub stealth: bool,
}

/// Settings for the leader election among the operator's instances: only the instance that holds a Lease (`coordination.k8s.io/v1`) is
/// active, and the others are standbys.
///
/// An instance that could not renew the Lease writes nothing more, even after it was frozen. The clocks of instances may differ, but their
/// speeds must not differ by a tenth. `docs/replicas.md` describes the details.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LeaseSettings {
    /// Participate: no handler is called before this instance holds the Lease. Default: `false`.
    pub enabled: bool,
    /// The name of the Lease. Default: `None`, for the operator's name.
    pub name: Option<String>,
    /// The namespace of the Lease. Default: `None`, for that of the operator's Pod, or that of the kubeconfig's context.
    pub namespace: Option<String>,
    /// The time without a renewal after which other instances take the Lease, in whole seconds, at least 5. Default: 15 seconds.
    pub duration: Duration,
    /// The time without a renewal after which the holder calls no more handlers. It stops writing after another two fifths of the time
    /// that remains until `duration`. Less than `duration`. Default: 10 seconds.
    pub renew_deadline: Duration,
    /// The interval between renewals, and between checks by standby instances, which notice changes sooner if they may watch the Lease. At
    /// most half of `renew_deadline`. Default: 2 seconds.
    pub retry_period: Duration,
}

/// Settings for selecting, retrying and executing handlers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Execution {
    /// Selects the due handlers of an object that run in one pass. Default: [`Lifecycle::Asap`].
    pub lifecycle: Lifecycle,
    /// The delay after each arbitrary error of a handler without `backoff`. Default: `None`, for a delay that grows from `first_backoff` to
    /// `longest_backoff`.
    pub default_backoff: Option<Duration>,
    /// The delay after the first arbitrary error of a handler without `backoff`. It doubles with every further error, and is randomly up to a
    /// fifth longer. Default: 1 second.
    pub first_backoff: Duration,
    /// The longest such delay. Default: 60 seconds.
    pub longest_backoff: Duration,
    /// The maximum number of concurrent blocking handlers. Default: the number of processors plus 4, at most 32.
    pub max_workers: usize,
    /// The maximum number of concurrent calls of `#[reconcile]` functions for each kind of objects. Further calls wait: each of them needs
    /// only the text of its object in memory, while a running call needs about ten times as much. Default: 100.
    pub max_reconciles: usize,
}

/// Settings for stopping daemons and timers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Background {
    /// The interval of log lines about a daemon that still runs while its object is being deleted, if it has no `cancellation_polling` of its
    /// own. Default: 60 seconds.
    pub cancellation_polling: Duration,
}

/// Settings for the number of objects that are handled concurrently, and for handlers that run while the operator stops.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Queueing {
    /// The maximum number of objects with running handlers or requests. Default: `None`, for no limit.
    ///
    /// While the handlers of an object run, the whole object is in memory, and takes about ten times the size of its JSON text. If handlers
    /// take long and are called for thousands of objects concurrently, only this setting limits that memory.
    pub worker_limit: Option<usize>,
    /// The time for which handlers may continue when the operator stops, before they are cancelled. Default: 2 seconds.
    pub exit_timeout: Duration,
}

/// Settings for watching resources.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Watching {
    /// The time after which the server ends a watch, which is then renewed; varied at random. Default: 235 seconds.
    pub server_timeout: Duration,
    /// The time without any event or bookmark after which a watch is renewed. Default: 70 seconds.
    pub inactivity_timeout: Duration,
    /// The pause after the first failure of a watch. It doubles with every further failure. Default: 800 milliseconds.
    pub reconnect_backoff: Duration,
    /// The longest such pause. Default: 30 seconds.
    pub longest_backoff: Duration,
    /// The number of objects per page of a listing, if the server has no streaming lists. Default: 500.
    pub chunk_size: u32,
    /// The time after which the operator renews a watch in any case. Default: `None`: only the server ends it.
    pub client_timeout: Option<Duration>,
    /// List by streaming, which avoids pages on both sides. Pages are used in any case if a server does not support streaming. Default:
    /// `true`.
    pub initial_streaming: bool,
    /// Label selectors that are sent to the server, per resource: objects that do not satisfy them are not watched. Default: none.
    ///
    /// An object that no longer satisfies its selector is treated as one without handlers: the operator's finalizer is removed, its daemons
    /// and timers are stopped, and no deletion handler is called. Changes while the operator is down remain unnoticed: the finalizer then
    /// stays on the object.
    pub label_selectors: SelectorMap,
    /// Field selectors such as `metadata.namespace!=kube-system`, with the same effect.
    pub field_selectors: SelectorMap,
    /// Shard selectors, by which several operators share the objects of a resource; of several for one resource, the first one counts. This
    /// is an alpha feature of Kubernetes: servers without it ignore the selectors and return all objects. Default: none.
    pub shard_selectors: SelectorMap,
    /// Send the `labels` filters that all handlers of a resource share to the server, provided that all of these are for raw events or
    /// indices. An object that gets its labels later is then reported as `ADDED`. Default: `true`.
    pub label_filters: bool,
}

/// Settings for retries and limits of requests.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Networking {
    /// The pause after the first failure of a request. It doubles with every further failure. Default: 250 milliseconds.
    pub first_backoff: Duration,
    /// The longest such pause. Default: 30 seconds.
    pub longest_backoff: Duration,
    /// The time limit for the complete response to a request other than a watch. A server gives up after 60 seconds by itself. Default: 65
    /// seconds.
    pub request_timeout: Duration,
    /// The maximum number of concurrent writes. Default: 16.
    pub concurrent_writes: usize,
}

/// Settings for discovering new kinds and namespaces.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Scanning {
    /// Do not look for new kinds and namespaces: the operator serves only those that exist at its start. Default: `false`.
    pub disabled: bool,
    /// The interval of looking for new kinds, if the operator may not watch definitions of custom resources. Default: 60 seconds.
    pub interval: Duration,
}

/// Settings for posting Kubernetes Events: those that handlers post through [`Events`](crate::Events), and optionally log lines.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Posting {
    /// Post Events at all. Default: yes.
    pub enabled: bool,
    /// Post log lines of change handlers as Events, too: those that they write by `info!` and similar macros, and those about the results of
    /// their attempts and of the handling of their objects. Default: no.
    pub loggers: bool,
    /// The minimum level of posted Events; `Events::event` posts regardless of it. Default: `Info`.
    pub level: PostingLevel,
    /// The controller name of Events (`reportingController`). `None`: the operator's name.
    pub reporting_component: Option<String>,
    /// The instance name of Events (`reportingInstance`). `None`: the name of the host, which is that of the Pod.
    pub reporting_instance: Option<String>,
    /// The prefix of the names of Events. Default: `kopf-event-`.
    pub event_name_prefix: String,
}

/// Settings for the operator's conditions in the status of objects.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct StatusSettings {
    /// Show the outcomes of handlers as conditions of their object: `Ready`, which is true when all change handlers and all `#[reconcile]`
    /// functions have succeeded, and no daemon or timer has failed since its last success; and `Stalled` if a handler has failed permanently.
    /// `kubectl wait --for=condition=Ready` then works. Default: no.
    ///
    /// While a handler fails, `Ready` is false, its reason is the class of the error (`TemporaryError`, `PermanentError`, `UnexpectedError`,
    /// `TimedOut`, `RetriesExceeded`) or the problem with a child (`ChildRefused`, `ChildNotOurs`, `ChildConflict`, `ChildKindMissing`), and
    /// its message contains the errors. A `Ready` condition that a handler sets itself, with a reason of its own, is not changed. Objects of
    /// built-in kinds get no such conditions. With a status subresource, each change of a condition costs one more request, unless the status
    /// is written anyway.
    pub conditions: bool,
}

/// Settings for health checks: see [`Operator::liveness`](crate::Operator::liveness).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Health {
    /// The time limit for all probes (`#[on_probe]`) together. Default: 5 seconds.
    pub probe_timeout: Duration,
    /// `/livez` fails when the operator's own thread, or all threads of its handlers, are blocked for this time. Default: 10 seconds.
    pub beat_timeout: Duration,
    /// `/readyz` fails when a change of an object waits for this time, because a handler of that object does not end, or because no worker of
    /// `queueing.worker_limit` is free. Default: 10 minutes.
    pub late_after: Duration,
    /// `/livez` fails when a change of an object waits for this time: Kubernetes then restarts the operator, which interrupts running
    /// handlers. If handlers may take longer, this time must be longer, too. Changes that wait because the server does not accept the
    /// operator's writes do not count, because a restart would not help. Default: 1 hour.
    pub stuck_after: Duration,
    /// Serve `/statusz` for clients on the same machine. Default: `true`.
    ///
    /// The containers of a Pod count as one machine. Requests that a proxy among them forwards are refused if they are recognisable: by the
    /// Pod's own address, by another host name than `localhost`, or by a header such as `X-Forwarded-For`. Disable the endpoint beside a
    /// proxy that hides all of this.
    pub status: bool,
}

/// The operator's settings for its startup handlers, which may change them: the argument `settings`. Clones share them.
///
/// The operator applies them when the last startup handler has succeeded. Later changes have no effect on the handling of objects.
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

/// The error for an invalid setting, with its place and the expected form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SettingsError(String);

impl SettingsError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl Settings {
    /// Returns the default settings with the changes that `change` makes.
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

    /// Returns a copy of the current settings.
    #[must_use]
    pub fn get(&self) -> Settings {
        self.lock().clone()
    }

    /// Changes the settings: `settings.change(|settings| settings.queueing.worker_limit = Some(10))`. The function may also read them, as
    /// they were before the change.
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
    /// Returns the first and the longest delay after arbitrary errors.
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
        Self { cancellation_polling: Duration::from_secs(60) }
    }
}

impl Default for Queueing {
    fn default() -> Self {
        Self { worker_limit: None, exit_timeout: Duration::from_secs(2) }
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
    /// Returns which Events are accepted; `None` if none are.
    pub(super) fn gates(&self) -> Option<PostingGates> {
        self.enabled.then_some(PostingGates { level: self.level, lines: self.loggers })
    }

    /// Returns the reporting component for an operator of that name.
    pub(super) fn reporter(&self, operator: &str) -> Reporter {
        let or = |given: &Option<String>, default: &dyn Fn() -> Option<String>| {
            let given = given.clone().or_else(default);
            given.filter(|name| !name.is_empty()).unwrap_or_else(|| operator.to_owned())
        };
        Reporter {
            controller: or(&self.reporting_component, &|| None),
            instance: or(&self.reporting_instance, &host_name),
        }
    }
}

/// Returns the name of this host, if it is easily available.
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
        LeaseTimes { duration: self.duration, renew_deadline: self.renew_deadline, retry: self.retry_period }
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
        Self { disabled: false, interval: Duration::from_secs(60) }
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
        assert_eq!((before, settings.get().queueing.worker_limit), (None, Some(3)));
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
