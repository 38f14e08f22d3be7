//! Runs an operator from start to end: check, start up, observe, stop, clean up.
//!
//! Assembles the parts and decides their order. It does not implement their work.

use std::any::TypeId;
use std::future::Future;
use std::sync::Arc;

use futures_util::future::{OptionFuture, join3};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::cluster::error::ClusterError;
use crate::cluster::login::Vault;
use crate::cluster::{Client, Cluster, ClusterSettings};
use crate::conversion::graph::Conversions;
use crate::engine::Engine;
use crate::engine::children::ChildApplier;
use crate::engine::failures::Failure;
use crate::engine::invoke::Invoker;
#[cfg(feature = "cli")]
use crate::engine::invoke::take_over_panics;
use crate::engine::noted_calls::NotedCalls;
use crate::engine::posting::EventPosting;
use crate::engine::triggers::Triggers;
use crate::handler::cause::CauseContext;
use crate::handler::definition::Handler;
use crate::handler::extensions::Extensions;
#[cfg(feature = "cli")]
use crate::handler::extract::State;
use crate::handler::logger::Logger;
use crate::handler::memo::Memo;
use crate::handler::registry::{Registry, RegistryError};
use crate::handler::trigger::Trigger;
use crate::handler::validation_rule::DeclaredRule;
use crate::health::address::BadLiveness;
#[cfg(feature = "metrics")]
use crate::health::address::BadMetricsAddress;
use crate::health::board::Board;
use crate::operator::clock::give_clock;
use crate::operator::crash_notes_path::NotesAt;
use crate::operator::endpoints::{Endpoints, WantedEndpoints, is_given_by_itself};
use crate::operator::leasing::{LeaseTask, Role, changed};
use crate::operator::run::preparation::Preparation;
use crate::operator::scope::{BadPattern, Patterns, Scope};
use crate::operator::selection::check_selectors;
use crate::operator::settings::{Settings, SettingsError, StartupSettings};
use crate::operator::validation::{bounded, check_amounts};
#[cfg(feature = "cli")]
use crate::rt::broken_pipe::own_streams;
use crate::rt::clock::Clock;
use crate::rt::rng::Rng;
use crate::rt::task;
#[cfg(feature = "cli")]
use crate::rt::tls::TlsVersion;
use crate::state::naming;
use crate::state::{BadPersistence, Persistence};

mod activities;
mod admission;
mod answering;
mod asking;
#[cfg(feature = "embedded")]
pub(crate) mod footprint;
mod leasing;
mod logged_in;
#[cfg(any(feature = "cli", test))]
pub(crate) mod manifests;
mod parts;
mod peer;
mod posting;
pub(crate) mod preparation;
mod preparing;
#[cfg(feature = "testing")]
pub(crate) mod reviewing;
mod rights;
#[cfg(feature = "web")]
mod web;
mod why;

/// An operator: its handlers, its settings, and the namespaces that it serves.
///
/// ```no_run
/// # async fn example(client: kopf_rs::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use kopf_rs::{Operator, Registry};
///
/// let stop = tokio::signal::ctrl_c();
/// Operator::new(Registry::new()).name("my-operator").run(client, stop).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Operator {
    registry: Registry,
    name: Option<String>,
    settings: Settings,
    extensions: Extensions,
    memo: Memo,
    trigger: Trigger,
    scope: Result<Scope, BadPattern>,
    once: bool,
    seed: Option<u64>,
    handlers_on: Option<Handle>,
    notes: Option<NotesAt>,
    on_mimalloc: bool,
    preparation: Option<Preparation>,
    endpoints: WantedEndpoints,
}

/// The result of an operator that has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Permanent failures of handlers.
    pub failed: Vec<Failure>,
    /// With [`Operator::once`], one line of text for each resource that has handlers but is not served or not permitted, for each change of
    /// a handler that the server refused, and for each object whose handlers had not finished when the operator was stopped.
    pub unserved: Vec<String>,
}

/// Why an operator could not start, or did not end well.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OperatorError {
    /// The registry is empty.
    #[error(
        "there are no handlers: this program contains no function with #[on_create], #[on_update] or a similar attribute. If it should \
         contain some, there are two usual causes: the program does not mention the crate with the annotated functions, so the linker \
         leaves that crate out (add `use its_name as _;`); or two versions of kopf-rs are linked, and the functions have the attributes of \
         the other one (see `cargo tree --duplicates`)"
    )]
    NoHandlers,
    /// Handlers have duplicate ids, or their selectors are invalid.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// Handlers ask for values that the operator was not given. One line for each.
    #[error(
        "{}\n  give it one by `kopf_rs::main!(state = ..)` in the program (flags by `flags = ..`), or by `Operator::with`; `kopf-rs run` cannot give values to a \
         library or a single file: write a program with `kopf_rs::main!`, which `kopf-rs run` can run", .0.join("\n")
    )]
    MissingState(Vec<String>),
    /// A namespace pattern is invalid.
    #[error(transparent)]
    Namespaces(#[from] BadPattern),
    /// The operator's name cannot be part of annotation names.
    #[error(
        "the operator's name `{0}` cannot be used: expected at most 63 letters, digits, dashes and dots, with a letter or a digit at both ends of what is between dots, such as `my-operator`"
    )]
    Name(String),
    /// The settings store state on objects in a way that the server would refuse.
    #[error(transparent)]
    Persistence(#[from] BadPersistence),
    /// A setting is invalid.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The liveness URL is invalid.
    #[error(transparent)]
    Liveness(#[from] BadLiveness),
    /// The address of the metrics endpoint is invalid.
    #[cfg(feature = "metrics")]
    #[error(transparent)]
    Metrics(#[from] BadMetricsAddress),
    /// The liveness endpoint cannot listen at its URL; for instance, the port is in use. The operator has not started.
    #[error("{0}")]
    Endpoint(String),
    /// The manifests that install the operator cannot be printed as requested. The text gives the reason and the remedy.
    #[cfg(any(feature = "cli", test))]
    #[error("{0}")]
    Manifests(String),
    /// Admission webhooks cannot be served, or would block the operator itself. The text gives the reason and the remedy.
    #[error("{0}")]
    Admission(String),
    /// A preparation step has failed, for instance because the server refused objects to apply. No handler was called.
    #[error("{0}")]
    Preparation(String),
    /// Startup handlers failed permanently. The operator has not started.
    #[error("startup has failed: {}", .0.join(", "))]
    Startup(Vec<String>),
    /// Cleanup handlers failed permanently. Everything else has ended.
    #[error("cleanup has failed: {}", .0.join(", "))]
    Cleanup(Vec<String>),
    /// Login handlers return no credentials, or none that the server accepts. The text names the handlers and the remedy.
    #[error("{0}")]
    Login(String),
    /// The cluster refuses API discovery.
    #[error("the cluster has refused API discovery: {0}")]
    Refused(String),
}

impl Operator {
    /// Creates an operator with these handlers, for all namespaces.
    #[must_use]
    pub fn new(registry: Registry) -> Self {
        Self {
            registry,
            name: None,
            settings: Settings::default(),
            extensions: Extensions::default(),
            memo: Memo::default(),
            trigger: Trigger::new(),
            scope: Ok(Scope::All),
            once: false,
            seed: None,
            handlers_on: None,
            notes: None,
            on_mimalloc: false,
            preparation: None,
            endpoints: WantedEndpoints::default(),
        }
    }

    /// Sets the operator's name: it stores its state on objects under `{name}.kopf.rs`. At most 63 letters, digits, dashes and dots; by
    /// default the name of the handlers' package.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Replaces the default settings, for example by `Settings::with(|settings| settings.queueing.worker_limit = Some(10))`.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Adds a value for handlers that ask for `State<T>`. The operator does not start if a handler asks for a missing value.
    #[must_use]
    pub fn with<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.extensions.insert(value);
        self
    }

    /// Adds a value that the program keeps, too.
    #[cfg(feature = "cli")]
    pub(crate) fn with_shared<T: Send + Sync + 'static>(mut self, value: &State<T>) -> Self {
        self.extensions.share(State::shared(value));
        self
    }

    /// Sets the operator's memo: activities get it, and every object's memo starts as a copy of it. The default is an empty memo.
    #[must_use]
    pub fn memo(mut self, memo: Memo) -> Self {
        self.memo = memo;
        self
    }

    /// Returns the trigger of this operator and its clones, with which the program reconciles objects for reasons of its own.
    #[must_use]
    pub fn trigger(&self) -> Trigger {
        self.trigger.clone()
    }

    /// Limits the operator to matching namespaces: names, globs, comma-separated lists of them, `!` to exclude. The default is all
    /// namespaces.
    #[must_use]
    pub fn namespaces<S: AsRef<str>>(mut self, patterns: impl IntoIterator<Item = S>) -> Self {
        self.scope = Patterns::parse(patterns).map(Scope::Some);
        self
    }

    /// Serves all namespaces, through cluster-wide watches. This is the default.
    #[must_use]
    pub fn all_namespaces(mut self) -> Self {
        self.scope = Ok(Scope::All);
        self
    }

    /// Makes all random choices depend on a number: the exact length of pauses, and the order in the lifecycles `randomized` and `shuffled`.
    /// For tests that must be repeatable. By default no two runs make the same choices.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Returns the lowest version of TLS for connections that the program makes.
    #[cfg(feature = "cli")]
    pub(crate) fn minimum_tls(&self) -> TlsVersion {
        self.settings.networking.minimum_tls
    }

    /// Calls handlers on this runtime, and does everything else on the runtime that the operator runs on.
    #[cfg(feature = "cli")]
    pub(crate) fn handlers_on(mut self, runtime: Handle) -> Self {
        self.handlers_on = Some(runtime);
        self
    }

    /// Notes calls after a crash.
    #[cfg(feature = "cli")]
    pub(crate) fn notes(mut self, at: NotesAt) -> Self {
        self.notes = Some(at);
        self
    }

    /// Declares that the process runs nothing but this operator: panics of handlers appear only in their error reports, and output to a full
    /// or closed standard output is discarded.
    #[cfg(feature = "cli")]
    pub(crate) fn owning_the_process(self) -> Self {
        take_over_panics();
        own_streams();
        self
    }

    /// Declares that the program's allocator is mimalloc, so that memory freed after bursts of events can be returned on the operator's
    /// thread.
    #[cfg(feature = "cli")]
    pub(crate) fn on_mimalloc(mut self) -> Self {
        self.on_mimalloc = true;
        self
    }

    /// Handles all existing objects, makes the necessary retries, then ends. By default an operator runs until it is stopped.
    ///
    /// A timer is called at once for each existing object, and the operator waits until these calls have succeeded or failed permanently,
    /// retries included. It does not wait for an `initial_delay`, for `idle`, nor for the next call after an interval. It does not wait for
    /// daemons: they run until everything else is done, and are then stopped as by the end of any operator.
    ///
    /// The operator does not wait for resources that are not served or may not be watched: [`Report::unserved`] lists them.
    #[must_use]
    pub fn once(mut self) -> Self {
        self.once = true;
        self
    }

    /// Runs until `until` is ready. From then on it calls no further handlers, lets running handlers finish within
    /// [`Queueing::exit_timeout`](crate::Queueing::exit_timeout), writes their outcomes, and calls cleanup handlers.
    ///
    /// Dropping the future ends everything at once.
    ///
    /// # The client
    ///
    /// Any [`Client`] works. A client that kube creates from a configuration repeats requests that the server answers with 429, 503 or 504,
    /// up to 15 times and without a log line. The operator has its own back-off for that, which logs the failure and ends when the operator
    /// stops. To leave these answers to the operator:
    ///
    /// ```no_run
    /// # async fn example(operator: kopf_rs::Operator) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut config = kube::Config::infer().await?;
    /// config.default_retry = false;
    /// let client = kube::Client::try_from(config)?;
    /// operator.run(client, tokio::signal::ctrl_c()).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # The process
    ///
    /// The operator does not change the process: neither its panic hook nor its signals, its logging or its streams. A handler that panics
    /// has failed with an arbitrary error and is retried; the panic hook of the process reports the location, by default on standard error.
    /// A panic that aborts (`panic = "abort"`) ends the process.
    ///
    /// # Errors
    /// Returns an error if the operator cannot start, or its cleanup fails.
    pub async fn run(self, client: Client, until: impl Future) -> Result<Report, OperatorError> {
        let name = self.check()?;
        self.check_state()?;
        if self.has_login_handlers() {
            tracing::warn!(
                "Login handlers are not called, because the operator was given a client: Operator::run_logged_in calls them."
            );
        }
        CheckedOperator::new(self, name, client)?.run_noted(until).await
    }

    /// Checks everything that needs no cluster. Returns the operator's name.
    pub(crate) fn check(&self) -> Result<String, OperatorError> {
        if let Err(bad) = &self.scope {
            return Err(bad.clone().into());
        }
        self.endpoints.check()?;
        // First, because a registry in which all handlers are invalid is empty.
        self.registry.check()?;
        if self.registry.is_empty() && self.registry.rules().is_empty() {
            return Err(OperatorError::NoHandlers);
        }
        check(&self.settings)?;
        self.checked_name()
    }

    /// Returns an error if handlers ask for values that the operator was not given.
    pub(crate) fn check_state(&self) -> Result<(), OperatorError> {
        let own = [TypeId::of::<Client>(), TypeId::of::<StartupSettings>()];
        let is_given = |it: &TypeId| own.contains(it) || is_given_by_itself(*it) || self.extensions.has(*it);
        let mut missing = Vec::new();
        let requirements = self.registry.requirements().iter();
        for requirement in requirements.filter(|it| !is_given(&it.what.type_id)) {
            missing.push(requirement.to_string());
        }
        missing.dedup();
        if missing.is_empty() { Ok(()) } else { Err(OperatorError::MissingState(missing)) }
    }

    fn checked_name(&self) -> Result<String, OperatorError> {
        let package = || {
            let handlers = self.registry.handlers().iter();
            handlers.filter_map(|handler| handler.declared_at.package()).find(|package| !package.is_empty())
        };
        let name = self.name.as_deref().or_else(package);
        let name = name.unwrap_or("operator").to_lowercase().replace('_', "-");
        // Longer names would be truncated, and invalid ones altered, so two operators might share their annotations.
        if name.len() <= 63 && naming::is_valid_prefix(&name) {
            Ok(name)
        } else {
            Err(OperatorError::Name(name))
        }
    }
}

impl From<Registry> for Operator {
    /// Creates an operator with these handlers, for all namespaces.
    fn from(registry: Registry) -> Self {
        Self::new(registry)
    }
}

/// An operator that has passed its checks.
pub(super) struct CheckedOperator {
    name: String,
    handlers: Vec<Arc<Handler>>,
    /// The handlers of admission webhooks.
    admission_handlers: Vec<Arc<Handler>>,
    conversions: Arc<Conversions>,
    /// The rules that the API server enforces itself.
    rules: Vec<Arc<DeclaredRule>>,
    settings: StartupSettings,
    scope: Scope,
    once: bool,
    client: Client,
    clock: Clock,
    rng: Arc<Rng>,
    context: CauseContext,
    handlers_on: Option<Handle>,
    notes: Arc<NotedCalls>,
    on_mimalloc: bool,
    preparation: Option<Preparation>,
    invoker: Arc<Invoker>,
    posting: EventPosting,
    children: Arc<ChildApplier>,
    triggers: Arc<Triggers>,
    endpoints: Endpoints,
    /// Collects the state of the parts for status pages, if they are enabled.
    board: Option<Board>,
    /// The extensions for login handlers, which run before there is a client.
    without_client: Arc<Extensions>,
    /// Holds the credentials if they come from handlers.
    vault: Option<Vault>,
}

impl CheckedOperator {
    pub(super) fn new(operator: Operator, name: String, client: Client) -> Result<Self, OperatorError> {
        let settings = StartupSettings::new(operator.settings);
        let mut extensions = operator.extensions;
        let handlers = operator.registry.handlers();
        let endpoints = operator.endpoints.checked(handlers, &mut extensions)?;
        let clock = Clock::start();
        give_clock(clock, &mut extensions);
        let triggers = Arc::new(Triggers::default());
        operator.trigger.connect(Arc::downgrade(&triggers) as _);
        extensions.insert(operator.trigger);
        extensions.insert(settings.clone());
        extensions.insert(operator.registry.indices());
        let without_client = Arc::new(extensions.clone());
        extensions.insert(client.clone());
        let workers = settings.get().execution.max_workers;
        let posting = EventPosting::new(clock, endpoints.meter.clone());
        extensions.insert(posting.sink());
        let handlers = operator.registry.handlers().iter();
        let kinds = handlers.flat_map(|it| it.kinds_of_children()).cloned();
        let children = Arc::new(ChildApplier::new(naming::prefix(&name), kinds.collect()));
        extensions.insert(children.for_handlers());
        let scope = operator.scope?;
        let bounds = bounded(settings.get()).health.bounds();
        let board = endpoints.are_wanted().then(|| Board::new(&name, bounds));
        let open = |at: NotesAt| at.open(&name, &scope, clock.now());
        let notes = operator.notes.map_or_else(|| Arc::new(NotedCalls::none()), open);
        let all = operator.registry.handlers().iter().cloned();
        let (admission_handlers, handlers) = all.partition(|it| it.admission().is_some());
        Ok(Self {
            name,
            notes,
            on_mimalloc: operator.on_mimalloc,
            preparation: operator.preparation,
            handlers,
            admission_handlers,
            conversions: Arc::new(Conversions::of(operator.registry.conversions())),
            rules: operator.registry.rules().to_vec(),
            settings,
            scope,
            once: operator.once,
            client,
            clock,
            rng: Arc::new(operator.seed.map_or_else(Rng::new, Rng::seeded)),
            context: CauseContext {
                logger: Logger::new(),
                memo: operator.memo,
                extensions: Arc::new(extensions),
            },
            invoker: Arc::new(
                Invoker::new(clock, workers, operator.handlers_on.clone()).metered(endpoints.meter.clone()),
            ),
            posting,
            children,
            triggers,
            endpoints,
            board,
            without_client,
            vault: None,
            handlers_on: operator.handlers_on,
        })
    }

    /// Runs from startup to cleanup, and notes calls if that is enabled.
    async fn run_noted(self, until: impl Future) -> Result<Report, OperatorError> {
        let operator = Arc::new(self);
        let notes = operator.notes.clone();
        let looked_after = notes.clone();
        let looked_after = task::spawn(async move { looked_after.look_after().await });
        let _looked_after = AbortOnDropHandle::new(looked_after);
        let ended = operator
            .run(async {
                until.await;
                if notes.stopping() {
                    tracing::debug!("The request to stop the operator is noted.");
                }
            })
            .await;
        notes.end();
        ended
    }

    /// Runs from startup to cleanup.
    async fn run(self: &Arc<Self>, until: impl Future) -> Result<Report, OperatorError> {
        let _endpoints = self.endpoints().await?;
        let mut until = std::pin::pin!(until);
        let comparing = self.compare_rights_at_startup();
        tokio::select! {
            biased;
            failed = self.login_failed() => return Err(failed),
            started = self.startup() => {
                started.map_err(OperatorError::Startup)?;
            }
            _ = &mut until => {
                tracing::warn!("The operator is stopped during its startup: some startup handlers may not have finished.");
                return Ok(Report::default());
            }
        }
        drop(comparing);
        let mut lease = None;
        let served = Box::pin(self.serve(until, &mut lease)).await;
        let cleaned = self.cleanup().await;
        let patience = self.settings.get().queueing.exit_timeout;
        self.posting.finish(patience).await;
        // No handler is called and nothing is written from here on.
        OptionFuture::from(lease.map(LeaseTask::release)).await;
        let report = served?;
        cleaned.map_err(OperatorError::Cleanup)?;
        Ok(report)
    }

    /// Runs from the first request to the last, except for those of `lease`, which outlives all others.
    async fn serve(
        self: &Arc<Self>,
        until: impl Future,
        lease: &mut Option<LeaseTask>,
    ) -> Result<Report, OperatorError> {
        let settings = bounded(self.settings.get());
        check(&settings)?;
        let cluster = self.cluster(&settings);
        self.post_events(&settings, &cluster);
        let bounds = settings.health.bounds();
        let found = watch::Sender::new(None);
        let _comparing = self.compare_rights(settings.clone(), cluster.clone(), found.subscribe());
        let mut until = std::pin::pin!(until);
        let mut admission = tokio::select! {
            biased;
            _ = &mut until => {
                tracing::warn!("The operator is stopped before its admission webhooks are served: nothing has been handled.");
                return Ok(Report::default());
            }
            failed = self.login_failed() => return Err(failed),
            begun = self.admission(&settings, &cluster, found.subscribe()) => begun?,
        };
        if let Some(board) = &self.board {
            board.answers_reviews();
        }
        let policies = self.keep_policies(&settings, &cluster, found.subscribe());
        let prepared = self.prepare(&cluster, &found, &mut admission, until.as_mut());
        if let Some(ended) = Box::pin(prepared).await {
            policies.finish().await;
            return ended;
        }
        // Elected last, because an instance that cannot start would keep the Lease from those that can.
        let (fenced, role) = self.elect(&settings, &cluster, lease);
        self.children.start(&fenced);
        let role_at_end = role.clone();
        let (engine, mut observer) = self.parts(settings, fenced, found, role);
        let _dies_with_this = engine.guard();
        if let Some(board) = &self.board {
            board.serves(engine.clone(), bounds);
        }
        let ended = tokio::select! {
            biased;
            _ = until => Ok(Vec::new()),
            failed = self.login_failed() => Err(failed),
            ended = observer.run(self.once) => ended.map_err(|error| refused(&error)),
            failed = Self::webhooks_fail(admission.as_mut()) => Err(failed),
            never = engine.return_memory_after_bursts(), if self.on_mimalloc => match never {},
            never = engine.look_after_timers() => match never {},
            never = engine.look_after_clock() => match never {},
            never = engine.look_after_triggers() => match never {},
            never = engine.look_after_indices() => match never {},
        };
        let peerings = observer.into_peerings();
        if let Some(board) = &self.board {
            board.stops();
        }
        let answered = admission.map(|webhooks| Box::pin(webhooks.finish()));
        let answered = OptionFuture::from(answered);
        join3(drain(&engine, role_at_end), answered, policies.finish()).await;
        peerings.leave().await;
        let mut unserved = ended?;
        unserved.extend(engine.gave_up());
        Ok(Report { unserved, failed: engine.failures() })
    }

    pub(super) fn cluster(&self, settings: &Settings) -> Cluster {
        let settings = ClusterSettings {
            operator: self.name.clone(),
            writes: settings.networking.concurrent_writes,
            request_timeout: settings.networking.request_timeout,
            rng: self.rng.clone(),
            meter: self.endpoints.meter.clone(),
        };
        Cluster::with_settings(self.client.clone(), &settings)
    }
}

/// Lets calls end, and writes their outcomes. If the term ends meanwhile, cuts the calls off, since another instance may lead soon.
async fn drain(engine: &Engine, mut role: Option<watch::Receiver<Role>>) {
    // The role may have changed since the observer last read it.
    if let Some(role) = &mut role {
        role.mark_changed();
    }
    let mut draining = std::pin::pin!(engine.drain());
    loop {
        tokio::select! {
            biased;
            () = &mut draining => return,
            role = changed(&mut role) => if role == Role::StandsBy {
                engine.stand_by();
            },
        }
    }
}

fn check(settings: &Settings) -> Result<(), OperatorError> {
    check_selectors(&settings.watching)?;
    check_amounts(settings)?;
    let persistence = settings.persistence.as_ref();
    Ok(persistence.map_or(Ok(()), Persistence::check)?)
}

pub(super) fn refused(error: &ClusterError) -> OperatorError {
    OperatorError::Refused(match error {
        ClusterError::Unauthorized(_) => {
            format!("{error}. Are the credentials in the kubeconfig right, and not expired?")
        }
        ClusterError::Denied { message, rule } if rule.is_empty() => message.clone(),
        ClusterError::Denied { message, rule } => {
            format!("{message}\nTo grant it, add {rule}")
        }
        error => error.to_string(),
    })
}
