//! Settings: plain values under Kopf's names, with sensible defaults.
//!
//! Must not know the components that use them.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::cluster::watch::WatchPace;
use crate::handler::event_sink::{PostingGates, PostingLevel};
use crate::handler::lifecycle::Lifecycle;
use crate::health::board::Bounds;
use crate::object::lease::LeaseTimes;
use crate::object::posted_event::Reporter;
use crate::operator::selection_map::SelectorMap;
use crate::operator::settings::admission::AdmissionServer;
use crate::operator::settings::log_level::LogLevel;
use crate::operator::settings::value::Field;
use crate::operator::settings::written::Written;
use crate::rt::tls::TlsVersion;
use crate::state::Persistence;

pub(crate) mod admission;
pub(crate) mod configuration;
pub(crate) mod log_level;
mod value;
pub(super) mod written;

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
    /// Settings for the log.
    pub logging: Logging,
    /// Settings for health checks.
    pub health: Health,
    /// Settings for the metrics endpoint.
    pub metrics: MetricsSettings,
    /// Settings for admission webhooks.
    pub admission: Admission,
    /// The storage of the operator's state on objects. Default: `None`, for annotations under `{operator's name}.kopf.rs`.
    pub persistence: Option<Persistence>,
}

/// Declares the groups of settings: each field with its type, its default, and whether it must not be zero. A file and variables can set
/// every declared field.
macro_rules! settings {
    ($($(#[$doc:meta])* $Group:ident as $group:ident {
        $($(#[$field_doc:meta])* $field:ident: $type:ty = $default:expr $(, $positive:ident)?;)+
    })+) => {
        $($(#[$doc])*
        #[derive(Clone, Debug)]
        #[non_exhaustive]
        pub struct $Group {
            $($(#[$field_doc])* pub $field: $type,)+
        }

        impl Default for $Group {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        })+

        /// All settings but `persistence`, which consists of storages and can be set only in code.
        pub(super) const TABLE: &[Setting] = &[$($(Setting {
            name: concat!(stringify!($group), ".", stringify!($field)),
            is_positive: settings!(@ $($positive)?),
            field: |settings| &mut settings.$group.$field,
        },)+)+];
    };
    (@ positive) => { true };
    (@) => { false };
}

settings! {
    /// Settings for selecting, retrying and executing handlers.
    Execution as execution {
        /// Selects the due handlers of an object that run in one pass. Default: [`Lifecycle::Asap`].
        lifecycle: Lifecycle = Lifecycle::default();
        /// The delay after each arbitrary error of a handler without `backoff`. Default: `None`, for a delay that grows from `first_backoff` to
        /// `longest_backoff`.
        default_backoff: Option<Duration> = None;
        /// The delay after the first arbitrary error of a handler without `backoff`. It doubles with every further error, and is randomly up to a
        /// fifth longer. Default: 1 second.
        first_backoff: Duration = seconds(1);
        /// The longest such delay. Default: 60 seconds.
        longest_backoff: Duration = seconds(60);
        /// The maximum number of concurrent blocking handlers. Default: the number of processors plus 4, at most 32.
        max_workers: usize = (processors() + 4).min(32), positive;
        /// The maximum number of concurrent calls of `#[reconcile]` functions for each kind of objects. Further calls wait: each of them needs
        /// only the text of its object in memory, while a running call needs about ten times as much. Default: 100.
        max_reconciles: usize = 100, positive;
    }

    /// Settings for stopping daemons and timers.
    Background as background {
        /// The interval of log lines about a daemon that still runs while its object is being deleted, if it has no `cancellation_polling` of its
        /// own. Default: 60 seconds.
        cancellation_polling: Duration = seconds(60), positive;
    }

    /// Settings for the number of objects that are handled concurrently, and for handlers that run while the operator stops.
    Queueing as queueing {
        /// The maximum number of objects with running handlers or requests. Default: `None`, for no limit.
        ///
        /// While the handlers of an object run, the whole object is in memory, and takes about ten times the size of its JSON text. If handlers
        /// take long and are called for thousands of objects concurrently, only this setting limits that memory.
        worker_limit: Option<usize> = None, positive;
        /// The time for which handlers may continue when the operator stops, before they are cancelled. Default: 2 seconds.
        exit_timeout: Duration = seconds(2);
    }

    /// Settings for watching resources.
    Watching as watching {
        /// The time after which the server ends a watch, which is then renewed; varied at random. Default: 235 seconds.
        server_timeout: Duration = WatchPace::default().server_timeout, positive;
        /// The time without any event or bookmark after which a watch is renewed. Default: 70 seconds.
        inactivity_timeout: Duration = WatchPace::default().inactivity, positive;
        /// The pause after the first failure of a watch. It doubles with every further failure. Default: 800 milliseconds.
        reconnect_backoff: Duration = WatchPace::default().backoff.0, positive;
        /// The longest such pause. Default: 30 seconds.
        longest_backoff: Duration = WatchPace::default().backoff.1, positive;
        /// The number of objects per page of a listing, if the server has no streaming lists. Default: 500.
        chunk_size: u32 = WatchPace::default().page, positive;
        /// The time after which the operator renews a watch in any case. Default: `None`: only the server ends it.
        client_timeout: Option<Duration> = WatchPace::default().client_timeout, positive;
        /// List by streaming, which avoids pages on both sides. Pages are used in any case if a server does not support streaming. Default:
        /// `true`.
        initial_streaming: bool = WatchPace::default().streaming;
        /// Label selectors that are sent to the server, per resource: objects that do not satisfy them are not watched. Default: none.
        ///
        /// An object that no longer satisfies its selector is treated as one without handlers: the operator's finalizer is removed, its daemons
        /// and timers are stopped, and no deletion handler is called. Changes while the operator is down remain unnoticed: the finalizer then
        /// stays on the object.
        label_selectors: SelectorMap = SelectorMap::default();
        /// Field selectors such as `metadata.namespace!=kube-system`, with the same effect.
        field_selectors: SelectorMap = SelectorMap::default();
        /// Shard selectors, by which several operators share the objects of a resource; of several for one resource, the first one counts. This
        /// is an alpha feature of Kubernetes: servers without it ignore the selectors and return all objects. Default: none.
        shard_selectors: SelectorMap = SelectorMap::default();
        /// Send the `labels` filters that all handlers of a resource share to the server, provided that all of these are for raw events or
        /// indices. An object that gets its labels later is then reported as `ADDED`. Default: `true`.
        label_filters: bool = true;
    }

    /// Settings for retries and limits of requests.
    Networking as networking {
        /// The pause after the first failure of a request. It doubles with every further failure. Default: 250 milliseconds.
        first_backoff: Duration = Duration::from_millis(250), positive;
        /// The longest such pause. Default: 30 seconds.
        longest_backoff: Duration = seconds(30), positive;
        /// The time limit for the complete response to a request other than a watch. A server gives up after 60 seconds by itself. Default: 65
        /// seconds.
        request_timeout: Duration = seconds(65), positive;
        /// The maximum number of concurrent writes. Default: 16.
        concurrent_writes: usize = 16, positive;
        /// The lowest version of TLS for the endpoints of webhooks and metrics, and for connections to the API server that the program makes from
        /// a kubeconfig or a service account. Default: [`TlsVersion::V1_2`].
        minimum_tls: TlsVersion = TlsVersion::V1_2;
    }

    /// Settings for discovering new kinds and namespaces.
    Scanning as scanning {
        /// Do not look for new kinds and namespaces: the operator serves only those that exist at its start. Default: `false`.
        disabled: bool = false;
        /// The interval of looking for new kinds, if the operator may not watch definitions of custom resources. Default: 60 seconds.
        interval: Duration = seconds(60), positive;
    }

    /// Settings for posting Kubernetes Events: those that handlers post through [`Events`](crate::Events), and optionally log lines.
    Posting as posting {
        /// Post Events at all. Default: yes.
        enabled: bool = true;
        /// Post log lines of change handlers as Events, too: those that they write by `info!` and similar macros, and those about the results of
        /// their attempts and of the handling of their objects. Default: no.
        loggers: bool = false;
        /// The minimum level of posted Events; `Events::event` posts regardless of it. Default: `Info`.
        level: PostingLevel = PostingLevel::Info;
        /// The controller name of Events (`reportingController`). `None`: the operator's name.
        reporting_component: Option<String> = None;
        /// The instance name of Events (`reportingInstance`). `None`: the name of the host, which is that of the Pod.
        reporting_instance: Option<String> = None;
        /// The prefix of the names of Events. Default: `kopf-event-`.
        event_name_prefix: String = "kopf-event-".to_owned();
    }

    /// Settings for the operator's conditions in the status of objects.
    StatusSettings as status {
        /// Show the outcomes of handlers as conditions of their object: `Ready`, which is true when all change handlers and all `#[reconcile]`
        /// functions have succeeded, and no daemon or timer has failed since its last success; and `Stalled` if a handler has failed permanently.
        /// `kubectl wait --for=condition=Ready` then works. Default: no.
        ///
        /// While a handler fails, `Ready` is false, its reason is the class of the error (`TemporaryError`, `PermanentError`, `UnexpectedError`,
        /// `TimedOut`, `RetriesExceeded`) or the problem with a child (`ChildRefused`, `ChildNotOurs`, `ChildConflict`, `ChildKindMissing`), and
        /// its message contains the errors. A `Ready` condition that a handler sets itself, with a reason of its own, is not changed. Objects of
        /// built-in kinds get no such conditions. With a status subresource, each change of a condition costs one more request, unless the status
        /// is written anyway.
        conditions: bool = false;
    }

    /// Settings for the coordination of several operators for the same objects: the one with the highest priority handles them, and the others
    /// pause meanwhile.
    ///
    /// Each operator announces itself in the status of an object of Kopf's kinds: `ClusterKopfPeering`, or `KopfPeering` in each namespace if it
    /// serves only some namespaces. Kopf operators participate, too. If these kinds do not exist, or no object has the name, an operator runs as
    /// if it were alone.
    Peering as peering {
        /// Do not participate: no peering object is read or written. Default: `false`.
        standalone: bool = false;
        /// The name of the peering object. Default: `default`.
        name: String = "default".to_owned();
        /// Pause as long as there is no object of that name. Default: `false`.
        mandatory: bool = false;
        /// Operators with a lower priority pause. If priorities are equal, the operator that was started first continues. Default: 0.
        priority: i64 = 0;
        /// The time without a keep-alive after which the other operators consider this one dead, in whole seconds. It writes a keep-alive five to
        /// ten seconds earlier. Default: 60 seconds.
        lifetime: Duration = seconds(60), positive;
        /// Write no log lines about keep-alives. Default: `false`.
        stealth: bool = false;
    }

    /// Settings for the leader election among the operator's instances: only the instance that holds a Lease (`coordination.k8s.io/v1`) is
    /// active, and the others are standbys.
    ///
    /// An instance that could not renew the Lease writes nothing more, even after it was frozen. The clocks of instances may differ, but their
    /// speeds must not differ by a tenth. `docs/replicas.md` describes the details.
    LeaseSettings as lease {
        /// Participate: no handler is called before this instance holds the Lease. Default: `false`.
        enabled: bool = false;
        /// The name of the Lease. Default: `None`, for the operator's name.
        name: Option<String> = None;
        /// The namespace of the Lease. Default: `None`, for that of the operator's Pod, or that of the kubeconfig's context.
        namespace: Option<String> = None;
        /// The time without a renewal after which other instances take the Lease, in whole seconds, at least 5. Default: 15 seconds.
        duration: Duration = seconds(15), positive;
        /// The time without a renewal after which the holder calls no more handlers. It stops writing after another two fifths of the time
        /// that remains until `duration`. Less than `duration`. Default: 10 seconds.
        renew_deadline: Duration = seconds(10), positive;
        /// The interval between renewals, and between checks by standby instances, which notice changes sooner if they may watch the Lease. At
        /// most half of `renew_deadline`. Default: 2 seconds.
        retry_period: Duration = seconds(2), positive;
    }

    /// Settings for the log of programs of `kopf_rs::main!()` and `kopf-rs run`. Other programs set up their logs themselves.
    Logging as logging {
        /// The level of log lines. Default: `None`, for the level that the flags (`--verbose`, `--debug`, `--quiet`) or `RUST_LOG` say.
        ///
        /// If it is set in the settings file, the program reads it again every 10 seconds, and applies changes while it runs. Startup handlers
        /// cannot change it.
        level: Option<LogLevel> = None;
    }

    /// Settings for health checks: see [`Operator::liveness`](crate::Operator::liveness).
    Health as health {
        /// The time limit for all probes (`#[on_probe]`) together. Default: 5 seconds.
        probe_timeout: Duration = seconds(5), positive;
        /// `/livez` fails when the operator's own thread, or all threads of its handlers, are blocked for this time. Default: 10 seconds.
        beat_timeout: Duration = seconds(10), positive;
        /// `/readyz` fails when a change of an object waits for this time, because a handler of that object does not end, or because no worker of
        /// `queueing.worker_limit` is free. Default: 10 minutes.
        late_after: Duration = seconds(600), positive;
        /// `/livez` fails when a change of an object waits for this time: Kubernetes then restarts the operator, which interrupts running
        /// handlers. If handlers may take longer, this time must be longer, too. Changes that wait because the server does not accept the
        /// operator's writes do not count, because a restart would not help. Default: 1 hour.
        stuck_after: Duration = seconds(3600), positive;
        /// Serve `/statusz` for clients on the same machine. Default: `true`.
        ///
        /// The containers of a Pod count as one machine. Requests that a proxy among them forwards are refused if they are recognisable: by the
        /// Pod's own address, by another host name than `localhost`, or by a header such as `X-Forwarded-For`. Disable the endpoint beside a
        /// proxy that hides all of this.
        status: bool = true;
    }

    /// Settings for the metrics endpoint: see `Operator::metrics`. Startup handlers cannot change them, because the
    /// endpoint starts before them.
    MetricsSettings as metrics {
        /// A file with the certificate to serve (PEM) if the address begins with `https://`, which is renewed externally, for example by
        /// cert-manager; read again when it changes. Default: `None`, for a certificate that the operator creates and renews, and that clients
        /// cannot verify.
        certificate_file: Option<String> = None;
        /// The file with its private key (PEM).
        key_file: Option<String> = None;
        /// Demand a bearer token from each client, and ask the API server whether its user may `get` the path `/metrics` (`TokenReview`,
        /// `SubjectAccessReview`). Needs TLS, and the verb `create` for both kinds. Default: `false`.
        authentication: bool = false;
    }

    /// The settings of admission webhooks for admission handlers (`#[on_validate]`, `#[on_mutate]`).
    Admission as admission {
        /// The address at which the API server reaches this operator. Default: `None`; an operator with admission handlers then does not start.
        server: Option<AdmissionServer> = None;
        /// The address and the port at which the endpoint listens, such as `0.0.0.0:9443`. Default: `None`, for all addresses with the port in
        /// `server`; with port 9443 for a Service; and with any free port if there is none, or at `127.0.0.1` if the server is `local`.
        listen: Option<String> = None;
        /// The name of the `ValidatingWebhookConfiguration` and of the `MutatingWebhookConfiguration` that the operator writes and maintains; the
        /// names of webhooks end with it. Default: `None`, for configurations that are managed externally.
        managed: Option<String> = None;
        /// The name of the Secret that stores the certificates, in the namespace of the Service: all instances of the operator serve the same
        /// ones. Default: `None`, for `{operator's name}-webhook`. Without a Service, the certificates are kept in memory.
        secret: Option<String> = None;
        /// A file with the certificate to serve (PEM), which is renewed externally, for example by cert-manager; read again when it changes.
        /// Default: `None`, for certificates that the operator creates and renews.
        certificate_file: Option<String> = None;
        /// The file with its private key (PEM).
        key_file: Option<String> = None;
        /// The file with the trusted authorities (PEM) for the configurations. Default: `None`, for the certificate itself.
        authority_file: Option<String> = None;
        /// A file with authorities (PEM). If set, the API server must present a certificate that one of them has signed. Default: `None`.
        client_authority_file: Option<String> = None;
        /// The validity period of certificates that the operator creates. A new one is created when a third of it is left. Default: 90 days.
        certificate_life: Duration = seconds(90 * 24 * 3600), positive;
        /// The time that API servers may need to notice a change of a configuration: a new certificate is served this long after its authority
        /// was written. Default: 60 seconds; none for the server of `--embedded` and of `kopf-rs dev`, which notices each change at once.
        propagation: Duration = seconds(60);
        /// The time for which a webhook endpoint in a cluster continues to answer after the operator was asked to stop: `/readyz/webhooks` fails
        /// immediately, but nodes and API servers need a while to send their requests to other Pods. Default: 5 seconds.
        shutdown_grace: Duration = seconds(5);
        /// Rewrite all objects of converted kinds (`#[on_convert]`) unchanged if some may still be stored in a former version, so that the
        /// version can be removed from the definition. Default: `false`.
        storage_migration: bool = false;
        /// The number of objects that are rewritten per second. Default: 20.
        migration_rate: u32 = 20, positive;
    }
}

/// A setting that a file or a variable may set.
pub(super) struct Setting {
    /// `group.field`, as in code.
    pub(super) name: &'static str,
    /// True if zero has no meaning: some function would never work, or would repeat without a pause.
    pub(super) is_positive: bool,
    pub(super) field: fn(&mut Settings) -> &mut dyn Field,
}

impl Setting {
    /// Sets it. The error describes the expected value.
    pub(super) fn set(&self, settings: &mut Settings, written: &Written) -> Result<(), String> {
        let refused = |expected| format!("`{}` is {written}: {expected}", self.name);
        let field = (self.field)(settings);
        field.set(written).map_err(refused)?;
        if self.is_positive && field.is_zero() {
            return Err(refused("expected more than 0".to_owned()));
        }
        Ok(())
    }

    /// Returns the group and the field.
    pub(super) fn parts(&self) -> (&'static str, &'static str) {
        self.name.split_once('.').unwrap_or_default()
    }
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
        self.0.lock().clone()
    }

    /// Changes the settings: `settings.change(|settings| settings.queueing.worker_limit = Some(10))`. The function may also read them, as
    /// they were before the change.
    pub fn change<T>(&self, change: impl FnOnce(&mut Settings) -> T) -> T {
        let mut settings = self.get();
        let result = change(&mut settings);
        *self.0.lock() = settings;
        result
    }
}

const fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

impl Execution {
    /// Returns the first and the longest delay after arbitrary errors.
    pub(super) fn backoff(&self) -> (Duration, Duration) {
        let growing = (self.first_backoff, self.longest_backoff);
        self.default_backoff.map_or(growing, |fixed| (fixed, fixed))
    }
}

impl Networking {
    /// Returns the first and the longest delay after failed requests.
    pub(super) fn backoff(&self) -> (Duration, Duration) {
        (self.first_backoff, self.longest_backoff)
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

/// Returns the name of this host, or else this word.
pub(super) fn named_host(or: &str) -> String {
    host_name().filter(|it| !it.is_empty()).unwrap_or_else(|| or.to_owned())
}

/// Returns the name of this host, if it is easily available.
pub(super) fn host_name() -> Option<String> {
    let variable = std::env::var("HOSTNAME").ok();
    let read = || std::fs::read_to_string("/etc/hostname").ok();
    Some(variable.or_else(read)?.trim().to_owned())
}

impl LeaseSettings {
    pub(super) fn times(&self) -> LeaseTimes {
        LeaseTimes { duration: self.duration, renew_deadline: self.renew_deadline, retry: self.retry_period }
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
