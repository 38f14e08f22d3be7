//! The command line of every operator: `kopf_rs::main!` and what it stands for.
//!
//! Turns flags into a connection, settings and a running [`Operator`], and its end into an exit code: 0 stopped as asked,
//! or all handled with `--once`; 1 failed, or not all handled with `--once`; 2 flags or handlers are wrong, or objects to apply cannot be
//! read, and nothing was started; 130 and 143 ended by a second SIGINT or SIGTERM. Logs go to standard error. Must not know how an
//! operator works.

mod embedded;
pub(crate) mod lines;
mod manifests;
mod pause;
mod signals;
#[cfg(feature = "otel")]
mod traces;
mod why;

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Args, Command, FromArgMatches, Parser};
use kopf_rs_flags::pause::PauseCommand;
use kopf_rs_flags::{ClusterFlags, Flags, LogFormat, Scope};
use serde_json::json;
use tokio::runtime::Builder;
use tracing_subscriber::layer::Identity;

use crate::cli::embedded::{Embedded, RUN_FOLDER};
use crate::cli::manifests::{Manifest, ManifestError};
use crate::cli::signals::FirstSignal;
use crate::cluster::connect::{self, ConnectOptions, Connection};
use crate::cluster::{Client, Cluster};
use crate::handler::registry::{Registry, RegistryError};
use crate::operator::noting::{EndNote, NotesAt};
use crate::operator::run::{Operator, OperatorError, Report};
use crate::operator::scope::BadPattern;
use crate::operator::settings::{Settings, SettingsError};
use crate::state::Persistence;
use crate::why::question::BadQuestion;

const WRONG_USAGE: u8 = 2;

const EXIT_CODES: &str = "\
Exit codes: 0 stopped as asked, or with --once everything is handled; 1 failed, or with --once
not everything is handled; 2 flags or handlers are wrong, or objects to apply cannot be read, and
nothing was started; 130 and 143 ended by a second SIGINT or SIGTERM.";

/// Make this program an operator of all its annotated functions: `kopf_rs::main!();` in the place of `fn main`.
///
/// Functions in another crate are found only if the program mentions that crate: `kopf_rs::main!(my_handlers, others);`.
/// Values that handlers take as `State<T>` follow, one expression each. They are evaluated before the operator starts, on the runtime of the
/// handlers, and an error ends the program.
///
/// ```no_run
/// use kopf_rs::prelude::*;
///
/// struct Db { url: String }
///
/// async fn connect() -> std::io::Result<Db> {
///     Ok(Db { url: "db.local".to_owned() })
/// }
///
/// #[on_create("kopfexamples")]
/// async fn create_fn(db: State<Db>) {
///     info!("the database is at {}", db.url);
/// }
///
/// kopf_rs::main!(state = connect().await?);
/// ```
///
/// The operator has the name of the package, and keeps its state on objects under `{name}.kopf.rs`. With the feature `mimalloc` the program's
/// allocator is mimalloc.
#[macro_export]
macro_rules! main {
    ($($given:tt)*) => {
        $crate::__kopf_main!([] [] $($given)*);
    };
}

/// What is given to [`main!`](crate::main), one by one: crates of handlers, then values of the state.
#[doc(hidden)]
#[macro_export]
macro_rules! __kopf_main {
    ([$($handlers:ident)*] [$($state:expr,)*]) => {
        $(extern crate $handlers as _;)*

        $crate::__kopf_allocator!();

        fn main() -> ::std::process::ExitCode {
            $crate::__private::run_program(
                ::core::env!("CARGO_PKG_NAME"),
                ::core::env!("CARGO_PKG_VERSION"),
                async |operator| {
                    $(let operator = $crate::Operator::with(operator, $state);)*
                    ::core::result::Result::Ok(operator)
                },
            )
        }
    };
    ([$($handlers:ident)*] [$($states:expr,)*] state = $state:expr $(, $($rest:tt)*)?) => {
        $crate::__kopf_main!([$($handlers)*] [$($states,)* $state,] $($($rest)*)?);
    };
    ([$($handlers:ident)*] [] $handler:ident $(, $($rest:tt)*)?) => {
        $crate::__kopf_main!([$($handlers)* $handler] [] $($($rest)*)?);
    };
    ($($other:tt)*) => {
        ::core::compile_error!(
            "expected crates with handlers, then values for `State<T>`: kopf_rs::main!(my_handlers, state = connect().await?)"
        );
    };
}

/// The feature is this crate's, so it is asked here and not where [`main!`](crate::main) is expanded.
#[cfg(feature = "mimalloc")]
#[doc(hidden)]
#[macro_export]
macro_rules! __kopf_allocator {
    () => {
        #[global_allocator]
        static KOPF_RS_ALLOCATOR: $crate::__private::MiMalloc = $crate::__private::MiMalloc;
    };
}

/// Without the feature `mimalloc`: the system's, or the program's own.
#[cfg(not(feature = "mimalloc"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __kopf_allocator {
    () => {};
}

/// Run as the command line says; the operator takes the name of its handlers' package. Give what it returns to `main`'s caller.
#[must_use]
pub fn main() -> ExitCode {
    start(None, "operator", env!("CARGO_PKG_VERSION"), async |it| {
        Ok(it)
    })
}

/// The same under a name and a version of its own: [`main!`](crate::main) does this too.
#[must_use]
pub fn run(name: &'static str, version: &'static str) -> ExitCode {
    start(Some(name), name, version, async |it| Ok(it))
}

/// What [`main!`](crate::main) calls, which has chosen the allocator as well, and gives the operator what its handlers ask for.
#[doc(hidden)]
#[must_use]
pub fn run_program(
    name: &'static str,
    version: &'static str,
    equip: impl AsyncFnOnce(Operator) -> Result<Operator, Box<dyn Error>>,
) -> ExitCode {
    start(Some(name), name, version, async |operator: Operator| {
        let operator = if cfg!(feature = "mimalloc") {
            operator.on_mimalloc()
        } else {
            operator
        };
        equip(operator).await
    })
}

/// Ask running operators to pause, or to go on: the programs `kopf-rs freeze` and `kopf-rs resume`. Give what it returns to `main`'s caller.
///
/// It exits with 0 once they are asked, with 1 where there is no peering or it cannot be written, and with 2 where its flags are wrong.
#[must_use]
pub fn pause() -> ExitCode {
    let pause = PauseCommand::parse().pause;
    let who = pause.who();
    lines::install(who.verbosity, &who.lines, None::<Identity>);
    match pause::run(&pause) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(error.as_ref(), who.lines.log_format);
            code_of(error.as_ref())
        }
    }
}

fn start(
    name: Option<&str>,
    title: &'static str,
    version: &'static str,
    equip: impl AsyncFnOnce(Operator) -> Result<Operator, Box<dyn Error>>,
) -> ExitCode {
    let mut command = command(title, version);
    let matches = command.clone().get_matches();
    let parsed = Flags::from_arg_matches(&matches).and_then(|flags| {
        let env = |key: &str| std::env::var_os(key);
        let scope = flags.scope.scope(&env, &mut command)?;
        Ok((flags, scope))
    });
    let (flags, scope) = parsed.unwrap_or_else(|usage| usage.exit());
    let service = flags.state.name.as_deref().unwrap_or(title);
    log_and_trace(service, &flags, || {
        let ended = serve(name, &flags, scope, equip);
        ended.unwrap_or_else(|error| {
            complain(error.as_ref(), flags.lines.log_format);
            code_of(error.as_ref())
        })
    })
}

fn serve(
    name: Option<&str>,
    flags: &Flags,
    scope: Scope,
    equip: impl AsyncFnOnce(Operator) -> Result<Operator, Box<dyn Error>>,
) -> Result<ExitCode, Box<dyn Error>> {
    let scope = match &flags.why.why {
        Some(_) => Scope::Cluster,
        None => scope,
    };
    let operator = operator(name, flags, scope)?;
    if let Some(object) = &flags.why.why {
        return why::explain(operator, object, flags, connect(&flags.cluster));
    }
    if flags.cluster.manifests {
        return print_manifests(operator, &flags.cluster);
    }
    session(operator, &flags.cluster, equip)
}

/// Write lines from now on, and send traces where the environment asks for them, until `run` has ended.
#[cfg(feature = "otel")]
fn log_and_trace(service: &str, flags: &Flags, run: impl FnOnce() -> ExitCode) -> ExitCode {
    let (traces, trouble) = traces::Traces::begin(service);
    let layer = traces.as_ref().map(traces::Traces::layer);
    lines::install(flags.verbosity, &flags.lines, layer);
    if let Some(trouble) = trouble {
        tracing::warn!("{trouble}");
    }
    let code = run();
    if let Some(traces) = traces {
        traces.end();
    }
    code
}

/// Write lines from now on.
#[cfg(not(feature = "otel"))]
fn log_and_trace(_: &str, flags: &Flags, run: impl FnOnce() -> ExitCode) -> ExitCode {
    lines::install(flags.verbosity, &flags.lines, None::<Identity>);
    run()
}

fn command(title: &'static str, version: &'static str) -> Command {
    let about = "A Kubernetes operator built on kopf-rs";
    let command = Command::new(title).version(version).about(about);
    // What the flags' own text says is not for people.
    Flags::augment_args(command)
        .about(about)
        .long_about(None)
        .bin_name(title)
        .after_help(EXIT_CODES)
}

/// Among JSON lines an error is one of them; people get it as they know it from other programs.
fn complain(error: &dyn Error, format: LogFormat) {
    if format == LogFormat::Json {
        tracing::error!("{error}");
    } else {
        eprintln!("error: {error}");
    }
}

fn code_of(error: &(dyn Error + 'static)) -> ExitCode {
    let operator = error.downcast_ref().is_some_and(|error| {
        use OperatorError::{
            Liveness, MissingState, Name, Namespaces, NoHandlers, Persistence, Registry, Settings,
        };
        matches!(
            error,
            Namespaces(_)
                | Name(_)
                | NoHandlers
                | Registry(_)
                | MissingState(_)
                | Persistence(_)
                | Liveness(_)
                | Settings(_)
        )
    });
    #[cfg(feature = "metrics")]
    let operator = operator || matches!(error.downcast_ref(), Some(OperatorError::Metrics(_)));
    let manifest = error
        .downcast_ref()
        .is_some_and(ManifestError::is_wrong_usage);
    let settings =
        error.is::<SettingsError>() || error.is::<BadQuestion>() || error.is::<BadPattern>();
    if operator || manifest || settings || error.is::<RegistryError>() {
        ExitCode::from(WRONG_USAGE)
    } else {
        ExitCode::FAILURE
    }
}

/// What is wrong without a cluster is said before one is looked for.
fn session(
    operator: Operator,
    flags: &ClusterFlags,
    equip: impl AsyncFnOnce(Operator) -> Result<Operator, Box<dyn Error>>,
) -> Result<ExitCode, Box<dyn Error>> {
    let manifests = manifests::read(&flags.apply)?;
    let note = EndNote::default();
    let end = End::watch(flags, note.clone())?;
    // Watches, probes and the end go on whatever handlers do with their threads.
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handlers = Builder::new_multi_thread().enable_all().build()?;
    let operator = operator
        .handlers_on(handlers.handle().clone())
        .owning_the_process();
    let equipped = handlers.block_on(async {
        tokio::select! {
            equipped = equip(operator) => equipped.map(Some),
            () = end.came() => Ok(None),
        }
    });
    let Some(operator) = equipped? else {
        handlers.shutdown_background();
        return Ok(end.code(&Report::default()));
    };
    operator.check_state()?;
    let is_told_where = flags.kubeconfig.is_some() || flags.context.is_some();
    let logs_in = operator.has_login_handlers() && !is_told_where && flags.embedded.is_none();
    let ended = runtime.block_on(async {
        if logs_in {
            let server = "where login handlers say".to_owned();
            let operator = operator.notes(notes_for(server, note));
            let prepare = async |client: &Client| apply(client, &manifests).await;
            return operator.run_prepared(prepare, end.came()).await;
        }
        let embedded = match flags.embedded {
            Some(port) => {
                let server = Embedded::start(port, flags.workloads).await?;
                if !flags.once {
                    tell_how_to_look_into(&server, &manifests);
                }
                Some(server)
            }
            None => None,
        };
        let ready = async {
            let (client, operator) = if let Some(server) = &embedded {
                (server.client(), operator)
            } else {
                let Connection { client, server } = connect(flags).await?;
                (client, operator.notes(notes_for(server, note)))
            };
            apply(&client, &manifests).await?;
            Ok::<_, Box<dyn Error>>((client, operator))
        };
        let (client, operator) = tokio::select! {
            ready = ready => ready?,
            () = end.came() => return Ok(Report::default()),
        };
        Ok(operator.run(client, end.came()).await?)
    });
    // A handler that never returns must not keep the process.
    handlers.shutdown_background();
    runtime.shutdown_background();
    ended.map(|report| end.code(&report))
}

/// What ends the operator, and whether that is a good end.
struct End {
    signal: FirstSignal,
    once: bool,
    /// With `--once`: when it gives up, and after how long.
    timeout: Option<(tokio::time::Instant, Duration)>,
    is_too_late: AtomicBool,
}

impl End {
    fn watch(flags: &ClusterFlags, note: EndNote) -> Result<Self, Box<dyn Error>> {
        let timeout = Some(flags.timeout).filter(|it| flags.once && !it.is_zero());
        let now = tokio::time::Instant::now();
        Ok(Self {
            signal: FirstSignal::watch(note)?,
            once: flags.once,
            timeout: timeout.and_then(|it| Some((now.checked_add(it)?, it))),
            is_too_late: AtomicBool::new(false),
        })
    }

    /// The first signal, or the end of the time for `--once`.
    async fn came(&self) {
        let Some((at, timeout)) = self.timeout else {
            return self.signal.came().await;
        };
        tokio::select! {
            () = self.signal.came() => {}
            () = tokio::time::sleep_until(at) => {
                let seconds = timeout.as_secs();
                tracing::error!("Not everything is handled within {seconds} seconds (--timeout).");
                self.is_too_late.store(true, Ordering::Relaxed);
            }
        }
    }

    fn code(&self, report: &Report) -> ExitCode {
        if !self.once {
            return ExitCode::SUCCESS;
        }
        if !report.failed.is_empty() {
            let failed: Vec<String> = report.failed.iter().map(ToString::to_string).collect();
            tracing::error!("Failed for good: {}", failed.join(", "));
        }
        for unserved in &report.unserved {
            tracing::error!("Not handled: {unserved}");
        }
        let is_late = self.is_too_late.load(Ordering::Relaxed);
        if is_late || !report.failed.is_empty() || !report.unserved.is_empty() {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        }
    }
}

fn operator(name: Option<&str>, flags: &Flags, scope: Scope) -> Result<Operator, Box<dyn Error>> {
    let mut operator = Operator::new(Registry::collected()?);
    let mut settings = Settings::default();
    if let Some(file) = &flags.settings.settings {
        settings.read_file(file)?;
    }
    settings.read_environment()?;
    if flags.state.kopf_compatible {
        settings.persistence = Some(Persistence::kopf());
    }
    let peering = &mut settings.peering;
    peering.standalone |= flags.peering.standalone;
    peering.priority = flags.peering.priority().unwrap_or(peering.priority);
    if let Some(name) = &flags.peering.peering {
        peering.name.clone_from(name);
        peering.mandatory = true;
    }
    if let Some(name) = &flags.lease.lease {
        settings.lease.enabled = true;
        let name = Some(name).filter(|it| !it.is_empty());
        settings.lease.name = name.cloned().or(settings.lease.name);
    }
    operator = operator.settings(settings);
    if let Some(name) = flags.state.name.as_deref().or(name) {
        operator = operator.name(name);
    }
    if let Some(url) = &flags.health.liveness {
        operator = operator.liveness(url);
    }
    if let Some(address) = &flags.health.metrics {
        operator = with_metrics(operator, address)?;
    }
    if flags.cluster.once {
        operator = operator.once();
    }
    operator = match scope {
        Scope::Namespaces(patterns) => operator.namespaces(patterns),
        Scope::Cluster => operator.all_namespaces(),
        Scope::Unsaid => {
            tracing::info!("Serving all namespaces, since neither -A nor -n is given.");
            operator.all_namespaces()
        }
    };
    operator.check()?;
    Ok(operator)
}

#[cfg(feature = "metrics")]
#[expect(clippy::unnecessary_wraps, reason = "the same as without the feature")]
fn with_metrics(operator: Operator, address: &str) -> Result<Operator, Box<dyn Error>> {
    Ok(operator.metrics(address))
}

#[cfg(not(feature = "metrics"))]
fn with_metrics(_: Operator, _: &str) -> Result<Operator, Box<dyn Error>> {
    Err("--metrics: this program is built without metrics; switch on the feature `metrics` of kopf-rs in its Cargo.toml".into())
}

/// As kubectl takes them: JSON.
fn print_manifests(operator: Operator, flags: &ClusterFlags) -> Result<ExitCode, Box<dyn Error>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let items = runtime.block_on(async {
        let Connection { client, .. } = connect(flags).await?;
        Ok::<_, Box<dyn Error>>(operator.manifests(client).await?)
    })?;
    if items.is_empty() {
        tracing::warn!(
            "There is nothing to print: no admission handler, no conversion and no validation rule is for a resource that the cluster serves, and no Lease is asked for."
        );
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    std::io::stdout().write_all(format!("{list:#}\n").as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// A client that has been answered once: what is wrong with the connection is said before anything is begun.
async fn connect(flags: &ClusterFlags) -> Result<Connection, Box<dyn Error>> {
    let options = ConnectOptions {
        kubeconfig: flags.kubeconfig.clone(),
        context: flags.context.clone(),
    };
    let connection = connect::connect(&options).await?;
    let version = Cluster::new(connection.client.clone()).check().await?;
    tracing::debug!("The cluster runs Kubernetes {version}.");
    Ok(connection)
}

/// A crash is found out for a server: the objects that the operator stumbles over are there. What is built by `kopf-rs run` has a folder
/// of its own.
fn notes_for(server: String, end: EndNote) -> NotesAt {
    let folder = std::env::var_os(RUN_FOLDER).map(PathBuf::from);
    NotesAt {
        server,
        folder,
        end,
    }
}

/// Say how to look at what is applied, and at the Pods that operators mostly make.
fn tell_how_to_look_into(server: &Embedded, manifests: &[Manifest]) {
    let applied = manifests
        .iter()
        .map(|manifest| manifest.kind().to_lowercase());
    let mut kinds: Vec<String> = Vec::new();
    for kind in applied.chain(["pod".to_owned()]) {
        if kind != "customresourcedefinition" && !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    tracing::info!(
        "The embedded API server is at {}. Look into it with:",
        server.url()
    );
    let (file, kinds) = (server.kubeconfig().display(), kinds.join(","));
    tracing::info!("kubectl --kubeconfig {file} get {kinds} --all-namespaces");
}

async fn apply(client: &Client, manifests: &[Manifest]) -> Result<(), Box<dyn Error>> {
    let cluster = Cluster::new(client.clone());
    for manifest in manifests {
        let applied = cluster.apply_manifest(&manifest.object).await;
        let applied = applied.map_err(|error| manifest.refused(&error))?;
        tracing::info!("{manifest} {applied}.");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_is_about_the_operator() {
        let mut command = command("my-op", "1.2.3");
        let long = command.render_long_help().to_string();
        let short = command.render_help().to_string();
        for help in [long, short] {
            assert!(
                help.starts_with("A Kubernetes operator built on kopf-rs\n"),
                "{help}"
            );
            assert!(help.contains("Usage: my-op [OPTIONS]"), "{help}");
        }
    }
}
