//! The command line of every operator: `kopf_rs::main!` and the functions behind it.
//!
//! Turns flags into a connection, settings and a running [`Operator`], and the outcome into an exit code: 0 for a
//! requested stop, or with `--once` if everything is handled; 1 for a failure, or with `--once` if something is not
//! handled; 2 if flags, handlers or the objects to apply are invalid, before anything starts; 130 and 143 after a
//! second SIGINT or SIGTERM. Logs go to standard error. This module must not depend on the internals of an operator.

mod connecting;
pub(crate) mod embedded;
mod end;
#[cfg(feature = "embedded")]
mod install;
pub(crate) mod lines;
mod log_level;
mod main_macro;
mod manifests;
pub(crate) mod observing;
pub(crate) mod own_flags;
mod packaging;
mod pause;
mod printing;
mod signals;
mod tasks;
#[cfg(feature = "otel")]
mod traces;
mod webhooks;
mod why;
pub(crate) mod yaml;

use std::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{ArgMatches, Args, Command, FromArgMatches, Parser};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use kopf_rs_flags::forwarded::{Receiver, forwarded};
use kopf_rs_flags::task::{Task, TaskCommand};
use kopf_rs_flags::{ClusterFlags, Flags, LogFormat, PeeringFlags, Scope};
use tokio::runtime::Builder;
use tracing_subscriber::layer::Identity;

use crate::cli::connecting::{checked_connection, options};
use crate::cli::embedded::{Embedded, LOCAL_SERVER, RUN_FOLDER};
use crate::cli::end::End;
#[cfg(feature = "embedded")]
use crate::cli::install::run as install;
use crate::cli::lines::Verbosity;
use crate::cli::log_level::LogLevelSetting;
use crate::cli::manifests::{Manifest, ManifestError};
use crate::cli::own_flags::OwnFlags;
use crate::cli::printing::Printing;
use crate::cluster::connect::{ConnectOptions, Connection};
use crate::cluster::{Client, Cluster};
use crate::handler::extract::State;
use crate::handler::registry::{Registry, RegistryError};
use crate::operator::crash_notes_path::{EndNote, NotesAt};
use crate::operator::run::preparation::Preparation;
use crate::operator::run::{Operator, OperatorError, Report};
use crate::operator::scope::BadPattern;
use crate::operator::settings::{Peering, Settings, SettingsError};
use crate::state::Persistence;
use crate::why::question::BadQuestion;

const WRONG_USAGE: u8 = 2;

const EXIT_CODES: &str = "\
Exit codes: 0 stopped as asked, or with --once everything is handled; 1 failed, or with --once
not everything is handled; 2 flags or handlers are wrong, or objects to apply cannot be read, and
nothing was started; 130 and 143 ended by a second SIGINT or SIGTERM.";

/// Runs an operator as the command line requests, named after the package of its handlers. Return the exit code from
/// `main`.
#[must_use]
pub fn main() -> ExitCode {
    start(Program::bare(None, "operator", env!("CARGO_PKG_VERSION")))
}

/// Runs an operator with this name and version, as [`main!`](crate::main) does.
#[must_use]
pub fn run(name: &'static str, version: &'static str) -> ExitCode {
    start(Program::bare(Some(name), name, version))
}

/// Equips an operator with values for its handlers, before it starts. A boxed function, because each generic caller would contain the
/// code of the whole operator once more.
type Equip<'a> =
    Box<dyn FnOnce(Operator, ArgMatches) -> LocalBoxFuture<'a, Result<Operator, Box<dyn Error>>> + 'a>;

/// The program that starts, and its additions to the operator.
struct Program<'a> {
    /// The name of the operator, unless it is that of the handlers' package.
    name: Option<&'static str>,
    title: &'static str,
    version: &'static str,
    flags: OwnFlags,
    equip: Equip<'a>,
}

impl Program<'_> {
    /// Returns a program that adds nothing.
    fn bare(name: Option<&'static str>, title: &'static str, version: &'static str) -> Self {
        let equip = |operator, _| std::future::ready(Ok(operator)).boxed_local();
        Self { name, title, version, flags: OwnFlags::none(), equip: Box::new(equip) }
    }
}

/// Called by [`main!`](crate::main), which also sets the allocator, and registers values for the handlers. `F` has the program's flags.
#[doc(hidden)]
#[must_use]
pub fn run_program<F: Args + Send + Sync + 'static>(
    name: &'static str,
    version: &'static str,
    equip: impl AsyncFnOnce(Operator, State<F>) -> Result<Operator, Box<dyn Error>>,
) -> ExitCode {
    let equip = |operator: Operator, typed: ArgMatches| {
        let operator = if cfg!(feature = "mimalloc") { operator.on_mimalloc() } else { operator };
        async move {
            let flags = F::from_arg_matches(&typed).unwrap_or_else(|usage| usage.exit());
            let flags = State::from(flags);
            equip(operator.with_shared(&flags), flags).await
        }
        .boxed_local()
    };
    start(Program {
        name: Some(name),
        title: name,
        version,
        flags: OwnFlags::of::<F>(),
        equip: Box::new(equip),
    })
}

/// Runs a task that needs no handlers: asks running operators to pause or resume (`kopf-rs freeze` and
/// `kopf-rs resume`), or removes an operator's configuration from the API server (`kopf-rs webhooks clean`). Return the
/// exit code from `main`. Programs of [`main!`](crate::main) have the same commands.
///
/// The exit code is 0 on success, 1 if there is no peering or if a write or removal fails, and 2 if the flags are
/// invalid.
#[must_use]
pub fn do_task() -> ExitCode {
    run_task(&TaskCommand::parse().task)
}

fn run_task(task: &Task) -> ExitCode {
    let log = task.logging();
    lines::install(log, None::<Identity>);
    let done = match task {
        Task::Pause(pause) => pause::run(pause),
        Task::Webhooks(webhooks) => webhooks::clean(webhooks.clean()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(error.as_ref(), log.log_format);
            code_of(error.as_ref())
        }
    }
}

fn start(program: Program<'_>) -> ExitCode {
    let command = program.flags.beside(command(program.name, program.title, program.version));
    let mut command = match command {
        Ok(command) => command,
        Err(clash) => {
            eprintln!("error: {clash}");
            return ExitCode::from(WRONG_USAGE);
        }
    };
    let typed = command.clone().get_matches();
    if typed.subcommand().is_some() {
        return run_task(&Task::from_arg_matches(&typed).unwrap_or_else(|usage| usage.exit()));
    }
    let parsed = Flags::from_arg_matches(&typed).and_then(|flags| {
        let env = |key: &str| std::env::var_os(key);
        flags.checked(&env, &mut command)
    });
    let (flags, scope) = parsed.unwrap_or_else(|usage| usage.exit());
    let service = flags.state.name.as_deref().unwrap_or(program.title);
    log_and_trace(service, &flags, |verbosity| {
        let ended = serve(program, &flags, &scope, typed, LogLevelSetting::new(verbosity));
        ended.unwrap_or_else(|error| {
            complain(error.as_ref(), flags.log.log_format);
            code_of(error.as_ref())
        })
    })
}

/// Returns arguments as texts, as manifests contain them.
fn texts(args: Vec<OsString>) -> Result<Vec<String>, String> {
    let text = |arg: OsString| {
        arg.into_string()
            .map_err(|arg| format!("the flag {} cannot be part of a manifest: expected UTF-8", arg.display()))
    };
    args.into_iter().map(text).collect()
}

fn serve(
    program: Program<'_>,
    flags: &Flags,
    scope: &Scope,
    typed: ArgMatches,
    mut log_level: LogLevelSetting,
) -> Result<ExitCode, Box<dyn Error>> {
    let settings = settings(flags)?;
    log_level.apply(settings.logging.level);
    let task = flags.installing.task();
    if task.is_some() || flags.manifests.manifests {
        let args = [forwarded(&typed, Receiver::Pod), program.flags.typed(&typed)].concat();
        let printing = Printing {
            flags,
            scope,
            args: texts(args)?,
            version: program.version,
            operator: &|scope: &Scope| operator(program.name, flags, scope.clone(), settings.clone()),
        };
        return task.map_or_else(|| printing::print(&printing), |task| install(&printing, task));
    }
    let operator = operator(program.name, flags, scope.clone(), settings)?;
    if let Some(object) = &flags.why.why {
        return why::explain(operator, object, flags);
    }
    let equip = program.equip;
    let following = settings_file(flags).map(|file| log_level.follow(file.clone()));
    session(operator, &flags.cluster, Box::new(|operator| equip(operator, typed)), following)
}

/// The feature has the server that says which kinds there are before their definitions are installed.
#[cfg(not(feature = "embedded"))]
fn install(_: &Printing<'_>, _: kopf_rs_flags::installing::Task) -> Result<ExitCode, Box<dyn Error>> {
    Err("--install, --upgrade and --uninstall: this program is built without the in-process API server, which finds the kinds; switch on the \
         feature `embedded` of kopf-rs in its Cargo.toml, or use `kopf-rs install`, which builds it with this feature".into())
}

/// Runs `run` with logging, and with traces if environment variables enable them.
#[cfg(feature = "otel")]
fn log_and_trace(service: &str, flags: &Flags, run: impl FnOnce(Verbosity) -> ExitCode) -> ExitCode {
    let (traces, trouble) = traces::Traces::begin(service);
    let layer = traces.as_ref().map(traces::Traces::layer);
    let verbosity = lines::install(&flags.log, layer);
    if let Some(trouble) = trouble {
        tracing::warn!("{trouble}");
    }
    let code = run(verbosity);
    if let Some(traces) = traces {
        traces.end();
    }
    code
}

/// Runs `run` with logging.
#[cfg(not(feature = "otel"))]
fn log_and_trace(_: &str, flags: &Flags, run: impl FnOnce(Verbosity) -> ExitCode) -> ExitCode {
    run(lines::install(&flags.log, None::<Identity>))
}

fn command(name: Option<&'static str>, title: &'static str, version: &'static str) -> Command {
    let about = "A Kubernetes operator built on kopf-rs";
    let command = tasks::beside(Command::new(title).version(version).about(about), name, title);
    // The doc comment of the flags' type is for developers, so replace it.
    Flags::augment_args(command).about(about).long_about(None).bin_name(title).after_help(EXIT_CODES)
}

/// Logs the error as a JSON line in JSON format; otherwise prints it in the usual form of command-line programs.
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
            Liveness, Manifests, MissingState, Name, Namespaces, NoHandlers, Persistence, Registry, Settings,
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
                | Manifests(_)
        )
    });
    #[cfg(feature = "metrics")]
    let operator = operator || matches!(error.downcast_ref(), Some(OperatorError::Metrics(_)));
    let manifest = error.downcast_ref().is_some_and(ManifestError::is_wrong_usage);
    let settings = error.is::<SettingsError>() || error.is::<BadQuestion>() || error.is::<BadPattern>();
    if operator || manifest || settings || error.is::<RegistryError>() {
        ExitCode::from(WRONG_USAGE)
    } else {
        ExitCode::FAILURE
    }
}

/// Adds the program's values to its operator.
type Equipping<'a> = Box<dyn FnOnce(Operator) -> LocalBoxFuture<'a, Result<Operator, Box<dyn Error>>> + 'a>;

/// Reports errors that need no cluster before connecting to one. `beside` runs as long as the operator.
fn session(
    operator: Operator,
    flags: &ClusterFlags,
    equip: Equipping<'_>,
    beside: Option<impl Future<Output = ()> + Send + 'static>,
) -> Result<ExitCode, Box<dyn Error>> {
    let manifests = manifests::read(&flags.apply)?;
    let note = EndNote::default();
    let end = End::watch(flags, note.clone())?;
    // A separate thread keeps watches, probes and the shutdown responsive even if handlers block their threads.
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handlers = Builder::new_multi_thread().enable_all().build()?;
    if let Some(beside) = beside {
        runtime.spawn(beside);
    }
    let operator = operator.handlers_on(handlers.handle().clone()).owning_the_process();
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
    let (operator, definitions) = applying(operator, &manifests);
    let names_cluster = flags.connection.kubeconfig.is_some() || flags.connection.context.is_some();
    let options = ConnectOptions { minimum_tls: operator.minimum_tls(), ..options(&flags.connection) };
    let logs_in = operator.has_login_handlers() && !names_cluster && flags.embedded.is_none();
    // Boxed, because each of tokio's ways to run it would contain the code of the whole operator.
    let ended = async {
        if logs_in {
            let server = "where login handlers say".to_owned();
            let operator = operator.notes(notes_for(server, note));
            let prepare = async |client: &Client| {
                let applied = apply(client, &definitions).await;
                applied.map_err(Box::<dyn Error>::from)
            };
            return operator.run_prepared(prepare, end.came()).await;
        }
        let embedded = embedded(flags, &manifests).await?;
        let ready = async {
            let (client, operator) = if let Some(server) = &embedded {
                (server.client(), operator)
            } else {
                let Connection { client, server } = checked_connection(&options).await?;
                (client, operator.notes(notes_for(server, note)))
            };
            apply(&client, &definitions).await?;
            Ok::<_, Box<dyn Error>>((client, operator))
        };
        let (client, operator) = tokio::select! {
            ready = ready => ready?,
            () = end.came() => return Ok(Report::default()),
        };
        Ok(operator.run(client, end.came()).await?)
    }
    .boxed_local();
    let ended = runtime.block_on(ended);
    // A handler that never returns must not block the exit of the process.
    handlers.shutdown_background();
    runtime.shutdown_background();
    ended.map(|report| end.code(&report))
}

fn settings_file(flags: &Flags) -> Option<&PathBuf> {
    flags.settings.settings.as_ref().filter(|it| !it.as_os_str().is_empty())
}

/// Reads the settings from the file and the environment.
fn settings(flags: &Flags) -> Result<Settings, SettingsError> {
    let mut settings = Settings::default();
    if let Some(file) = settings_file(flags) {
        settings.read_file(file)?;
    }
    settings.read_environment()?;
    Ok(settings)
}

fn operator(
    name: Option<&str>,
    flags: &Flags,
    scope: Scope,
    mut settings: Settings,
) -> Result<Operator, Box<dyn Error>> {
    let mut operator = Operator::new(Registry::collected()?);
    if flags.state.kopf_compatible {
        settings.persistence = Some(Persistence::kopf());
    }
    take_part(&mut settings.peering, &flags.peering);
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
    if let Some(port) = flags.health.web {
        operator = with_web(operator, port)?;
    }
    if flags.cluster.once {
        operator = operator.once();
    }
    operator = match scope {
        Scope::Namespaces(patterns) => operator.namespaces(patterns),
        Scope::Cluster => operator.all_namespaces(),
        Scope::Unsaid => {
            tracing::debug!("Serving all namespaces, since neither -A nor -n is given.");
            operator.all_namespaces()
        }
    };
    if flags.cluster.embedded.is_some() || std::env::var_os(LOCAL_SERVER).is_some() {
        operator = operator.asked_on_this_machine()?;
    }
    operator.check()?;
    Ok(operator)
}

/// Flags override the settings file.
fn take_part(peering: &mut Peering, flags: &PeeringFlags) {
    peering.standalone |= flags.standalone;
    peering.priority = flags.priority().unwrap_or(peering.priority);
    if let Some(name) = &flags.peering {
        peering.name.clone_from(name);
        peering.mandatory = true;
        peering.standalone = false;
    }
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

#[cfg(feature = "web")]
#[expect(clippy::unnecessary_wraps, reason = "the same as without the feature")]
fn with_web(operator: Operator, port: u16) -> Result<Operator, Box<dyn Error>> {
    Ok(operator.web(port))
}

#[cfg(not(feature = "web"))]
fn with_web(_: Operator, _: u16) -> Result<Operator, Box<dyn Error>> {
    Err("--web: this program is built without the web page; switch on the feature `web` of kopf-rs in its Cargo.toml".into())
}

/// Returns where to store notes about crashes. They belong to one server, because the objects that cause a crash
/// exist there. Programs that `kopf-rs run` builds use a separate folder.
fn notes_for(server: String, end: EndNote) -> NotesAt {
    let folder = std::env::var_os(RUN_FOLDER).map(PathBuf::from);
    NotesAt { server, folder, end }
}

/// Logs how to inspect the applied objects, and the Pods that operators often create.
fn log_how_to_inspect(server: &Embedded, manifests: &[Manifest]) {
    let applied = manifests.iter().map(|manifest| manifest.kind().to_lowercase());
    let mut kinds: Vec<String> = Vec::new();
    for kind in applied.chain(["pod".to_owned()]) {
        if kind != "customresourcedefinition" && !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    tracing::info!("The embedded API server is at {}. Inspect it with:", server.url());
    let (file, kinds) = (server.kubeconfig().display(), kinds.join(","));
    tracing::info!("kubectl --kubeconfig {file} get {kinds} --all-namespaces");
}

/// Starts the API server in this process, if the flags request it.
async fn embedded(flags: &ClusterFlags, manifests: &[Manifest]) -> Result<Option<Embedded>, Box<dyn Error>> {
    let Some(port) = flags.embedded else {
        return Ok(None);
    };
    let server = Embedded::start(port, flags.workloads).await?;
    if !flags.once {
        log_how_to_inspect(&server, manifests);
    }
    Ok(Some(server))
}

/// Returns an operator that applies the objects after its start, and the manifests to apply before it.
fn applying(operator: Operator, manifests: &[Manifest]) -> (Operator, Vec<Manifest>) {
    let all = manifests.iter().cloned();
    let (definitions, objects): (Vec<_>, Vec<_>) = all.partition(Manifest::defines_others);
    if objects.is_empty() {
        (operator, definitions)
    } else {
        (operator.prepared_by(preparation(objects)), definitions)
    }
}

/// Applies definitions before the operator starts, and other objects after its startup handlers have run and its
/// webhooks are active.
fn preparation(objects: Vec<Manifest>) -> Preparation {
    let namespaces = objects.iter().filter_map(Manifest::namespace);
    let namespaces = namespaces.map(str::to_owned).collect();
    let objects: Arc<[Manifest]> = objects.into();
    Preparation {
        namespaces,
        run: Arc::new(move |client| {
            let objects = objects.clone();
            async move {
                let applied = apply(&client, &objects).await;
                applied.map_err(|error| error.to_string())
            }
            .boxed()
        }),
    }
}

async fn apply(client: &Client, manifests: &[Manifest]) -> Result<(), ManifestError> {
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
        let mut command = command(Some("my-op"), "my-op", "1.2.3");
        let long = command.render_long_help().to_string();
        let short = command.render_help().to_string();
        for help in [long, short] {
            assert!(help.starts_with("A Kubernetes operator built on kopf-rs\n"), "{help}");
            assert!(help.contains("Usage: my-op [OPTIONS]"), "{help}");
        }
    }

    #[test]
    fn a_peering_that_is_typed_comes_before_a_file_that_wants_none() {
        let mut peering = Peering { standalone: true, ..Peering::default() };
        take_part(&mut peering, &PeeringFlags::default());
        assert!(peering.standalone);
        let typed = PeeringFlags { peering: Some("team".to_owned()), ..PeeringFlags::default() };
        take_part(&mut peering, &typed);
        assert!(!peering.standalone && peering.mandatory);
        assert_eq!(peering.name, "team");
        let typed = PeeringFlags { standalone: true, ..PeeringFlags::default() };
        take_part(&mut peering, &typed);
        assert!(peering.standalone);
    }
}
