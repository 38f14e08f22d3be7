//! `kopf-rs dev`: builds an operator and runs it, and builds and starts it again at each change of its sources.
//!
//! The operator and the API server are child processes. `machine` decides; this module starts and ends processes, and reports events.
//! Guarantees that none of its processes is left behind unless it is killed itself.

mod api_server;
mod machine;
mod sources;
mod watcher;
mod words;

use std::collections::BTreeSet;
use std::error::Error;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::args::{Dev, Run};
use crate::cargo::BuiltProgram;
use crate::dev::api_server::{ApiServer, Options};
use crate::dev::machine::{Action, Event, Machine, Phase};
use crate::dev::sources::Sources;
use crate::dev::watcher::Watcher;
use crate::processes::{self, End, HANGUP, Handle, INTERRUPT, TERMINATE};
use crate::run;
use crate::source;
use crate::terminal::{self, Stream};

/// The time for an operator to stop before it is killed, and then for the API server.
const PATIENCE: Duration = Duration::from_secs(10);

/// Tells the operator that the API server is on this machine, and calls its webhooks without any settings, as with `--embedded`.
const LOCAL_SERVER: &str = "KOPF_RS_LOCAL_SERVER";

/// Flags that `kopf-rs dev` cannot serve.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DevError {
    #[error(
        "{0} ends the operator, but kopf-rs dev starts it again at each change of its sources\n  leave it out, or use: kopf-rs run {0}"
    )]
    EndsOperator(&'static str),
    #[error(
        "--apply -: standard input can be read only once, but kopf-rs dev applies files again when they change\n  name a file or a folder"
    )]
    StandardInput,
}

/// News from other threads.
enum Message {
    Event(Event),
    /// These paths have changed.
    Changed(BTreeSet<PathBuf>),
    /// The folders of the packages that the operator is built from.
    Packages(Vec<PathBuf>),
    /// A build has succeeded; the folder is for the operator's own files.
    Built {
        program: BuiltProgram,
        folder: PathBuf,
    },
}

/// Everything that `kopf-rs dev` holds while it runs.
struct Session {
    run: Arc<Run>,
    what: String,
    /// The arguments of each operator, without files to apply.
    args: Vec<OsString>,
    has_local_server: bool,
    sources: Sources,
    watcher: Watcher,
    machine: Machine,
    sender: Sender<Message>,
    /// The program of the last successful build, and the folder for its own files.
    built: Option<(PathBuf, PathBuf)>,
    operator: Option<Handle>,
    phase: Phase,
    since: Instant,
}

/// Runs until a signal ends it.
pub(crate) fn dev(dev: Dev, operator_args: Vec<OsString>) -> Result<ExitCode, Box<dyn Error>> {
    check(&dev.run)?;
    for path in run::paths(&dev.run) {
        source::existing(&path)?;
    }
    let (sender, messages) = channel();
    let is_begun = end_on_signals(sender.clone())?;
    terminal::begin_status();
    let ended = serve(dev, operator_args, (sender, messages), &is_begun);
    terminal::end_status();
    match ended {
        Err(_) if processes::are_builds_ended() => Ok(ExitCode::from(130)),
        ended => ended,
    }
}

fn check(run: &Run) -> Result<(), DevError> {
    let flags = &run.flags;
    let ends = [
        ("--once", flags.cluster.once),
        ("--manifests", flags.manifests.manifests),
        ("--why", flags.why.why.is_some()),
    ];
    if let Some((flag, _)) = ends.into_iter().find(|(_, is_given)| *is_given) {
        return Err(DevError::EndsOperator(flag));
    }
    if flags.cluster.apply.iter().any(|path| path.as_os_str() == "-") {
        return Err(DevError::StandardInput);
    }
    Ok(())
}

/// Reports signals. Until the returned flag is set, they end the build of the API server.
fn end_on_signals(sender: Sender<Message>) -> std::io::Result<Arc<AtomicBool>> {
    let is_begun = Arc::new(AtomicBool::new(false));
    let begun = is_begun.clone();
    processes::on_signals(&[HANGUP, INTERRUPT, TERMINATE], move |signal| {
        if !begun.load(Ordering::SeqCst) {
            processes::end_builds();
        }
        let signal = u8::try_from(signal).unwrap_or_default();
        // Fails only if this program is about to end.
        let _sent = sender.send(Message::Event(Event::Interrupted(signal)));
    })?;
    Ok(is_begun)
}

fn serve(
    dev: Dev,
    operator_args: Vec<OsString>,
    (sender, messages): (Sender<Message>, Receiver<Message>),
    is_begun: &AtomicBool,
) -> Result<ExitCode, Box<dyn Error>> {
    let server = if dev.is_on_cluster() { None } else { Some(start_server(&dev, sender.clone())?) };
    is_begun.store(true, Ordering::SeqCst);
    let kubeconfig = server.as_ref().map(ApiServer::kubeconfig);
    let args = operator_arguments(&dev, operator_args, kubeconfig);
    let ended = Session::begin(dev, args, server.is_some(), sender).map(|session| session.run(&messages));
    if let Some(server) = server {
        let is_hurried = matches!(ended, Ok(code) if code > 1);
        server.stop(if is_hurried { Duration::ZERO } else { PATIENCE });
    }
    Ok(ExitCode::from(ended?))
}

fn start_server(dev: &Dev, sender: Sender<Message>) -> Result<ApiServer, Box<dyn Error>> {
    terminal::show_status("kopf-rs dev: starting the API server");
    let flags = &dev.run.flags.cluster;
    let options = Options {
        port: flags.embedded.unwrap_or(0),
        workloads: flags.workloads,
        data_dir: dev.data_dir.as_deref(),
    };
    ApiServer::start(&options, move || drop(sender.send(Message::Event(Event::ServerEnded))))
}

/// Returns the arguments of each operator: those that the user gave, except the ones that concern the server and the files to apply.
fn operator_arguments(dev: &Dev, mut args: Vec<OsString>, kubeconfig: Option<&Path>) -> Vec<OsString> {
    let is_ours = |arg: &OsString| {
        let flag = arg.to_string_lossy();
        let flag = flag.split('=').next().unwrap_or_default();
        ["--embedded", "--workloads", "--apply"].contains(&flag)
    };
    args.retain(|arg| !is_ours(arg));
    let Some(kubeconfig) = kubeconfig else {
        let peering = &dev.run.flags.peering;
        let is_chosen = peering.standalone || peering.priority().is_some();
        args.extend((!is_chosen).then(|| "--dev".into()));
        return args;
    };
    let mut token = OsString::from("--kubeconfig=");
    token.push(kubeconfig);
    args.push(token);
    args
}

// === impl Session ===

impl Session {
    /// Watches the sources, and begins the first build.
    #[expect(clippy::disallowed_methods, reason = "the status line shows how long its state lasts")]
    fn begin(
        dev: Dev,
        args: Vec<OsString>,
        has_local_server: bool,
        sender: Sender<Message>,
    ) -> Result<Self, Box<dyn Error>> {
        let applied = &dev.run.flags.cluster.apply;
        let mut sources = Sources::default();
        sources.add_code(run::paths(&dev.run).iter().map(PathBuf::as_path));
        sources.add_applied(applied);
        let changed = sender.clone();
        let mut watcher = Watcher::start(move |paths| {
            // Fails only if this program is about to end.
            let _sent = changed.send(Message::Changed(paths));
        })?;
        watcher.watch(sources.folders())?;
        if dev.is_on_cluster() {
            say(
                "The operator takes part in the peering, where deployed operators pause for it. Operators outside of a peering do not pause.",
            );
        }
        Ok(Self {
            machine: Machine::new(applied.clone()),
            what: run::name_of(&dev.run),
            run: Arc::new(dev.run),
            args,
            has_local_server,
            sources,
            watcher,
            sender,
            built: None,
            operator: None,
            phase: Phase::Building,
            since: Instant::now(),
        })
    }

    /// Returns the exit code.
    fn run(mut self, messages: &Receiver<Message>) -> u8 {
        self.build();
        loop {
            self.show();
            let message = if terminal::has_status() {
                messages.recv_timeout(Duration::from_secs(1))
            } else {
                messages.recv().map_err(RecvTimeoutError::from)
            };
            let Ok(message) = message else {
                // The session holds a sender, so this is the time to show the status again.
                continue;
            };
            let Some(event) = self.event_of(message) else {
                continue;
            };
            for action in self.machine.handle(event) {
                if let Action::Leave(code) = action {
                    return code;
                }
                self.act(action);
            }
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the status line shows how long its state lasts")]
    fn show(&mut self) {
        let phase = self.machine.phase();
        if phase != self.phase {
            (self.phase, self.since) = (phase, Instant::now());
        }
        terminal::show_status(&words::status(&self.what, phase, self.since.elapsed()));
    }

    /// Returns what a message means for the machine.
    fn event_of(&mut self, message: Message) -> Option<Event> {
        match message {
            Message::Event(event) => Some(event),
            Message::Changed(paths) => {
                // A new folder may contain files already.
                self.watch();
                let changes = self.sources.changes(&paths);
                let is_change = changes.code || !changes.applied.is_empty();
                is_change.then_some(Event::Saved(changes.applied))
            }
            Message::Packages(packages) => {
                self.sources.add_code(packages.iter().map(PathBuf::as_path));
                self.watch();
                None
            }
            Message::Built { program, folder } => {
                self.built = Some((program.path, folder));
                Some(Event::Built { is_new: program.is_new })
            }
        }
    }

    fn watch(&mut self) {
        if let Err(error) = self.watcher.watch(self.sources.folders()) {
            say(&format!("Some changes start no build. {error}"));
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Build => self.build(),
            Action::Start(files) => self.start(&files),
            Action::Stop(number) => {
                self.end_operator(End::Gracefully);
                self.report_after(PATIENCE, Event::Overdue(number));
            }
            Action::Kill => self.end_operator(End::AtOnce),
            Action::Tell(news) => say(&words::sentence(news, PATIENCE)),
            Action::Cancel => processes::end_builds(),
            Action::Leave(_) => {}
        }
    }

    /// Builds in a thread.
    fn build(&self) {
        say(&format!("Building {}.", self.what));
        let (run, sender) = (self.run.clone(), self.sender.clone());
        thread::spawn(move || {
            let message = built(&run, &sender).unwrap_or_else(|error| {
                if !processes::are_builds_ended() {
                    terminal::say(&format!("error: {error}"));
                }
                Message::Event(Event::Refused)
            });
            // Fails only if this program is about to end.
            let _sent = sender.send(message);
        });
    }

    fn start(&mut self, files: &[PathBuf]) {
        let Some((program, folder)) = &self.built else {
            return;
        };
        let mut args = self.args.clone();
        for file in files {
            let mut token = OsString::from("--apply=");
            token.push(file);
            args.push(token);
        }
        let mut command = run::operator(program, folder, &args);
        command.stdin(Stdio::null());
        command.stdout(terminal::output_of_child()).stderr(terminal::output_of_child());
        if self.has_local_server {
            command.env(LOCAL_SERVER, "true");
        }
        say("Starting the operator.");
        let sender = self.sender.clone();
        let report = move |code| drop(sender.send(Message::Event(Event::Ended(code))));
        match processes::spawn(&mut command, true) {
            Ok((mut child, handle)) => {
                let output = child.stdout.take().map(|it| terminal::relay(it, Stream::Output, || ()));
                let errors = child.stderr.take().map(|it| terminal::relay(it, Stream::Error, || ()));
                self.operator = Some(handle.clone());
                thread::spawn(move || {
                    let status = handle.wait(&mut child);
                    terminal::drain(output.into_iter().chain(errors).collect());
                    report(status.ok().and_then(|status| status.code()));
                });
            }
            Err(error) => {
                say(&format!("{} cannot be started: {error}", program.display()));
                report(Some(1));
            }
        }
    }

    fn end_operator(&self, how: End) {
        if let Some(operator) = &self.operator {
            operator.end(how);
        }
    }

    fn report_after(&self, time: Duration, event: Event) {
        let sender = self.sender.clone();
        thread::spawn(move || {
            let (_open, never) = channel::<()>();
            let _timeout = never.recv_timeout(time);
            let _sent = sender.send(Message::Event(event));
        });
    }
}

/// Finds the sources, reports their packages, and builds.
fn built(run: &Run, sender: &Sender<Message>) -> Result<Message, Box<dyn Error>> {
    let prepared = run::prepare(run)?;
    // If cargo cannot resolve the dependencies, the build says so.
    if let Ok(packages) = prepared.packages() {
        sender.send(Message::Packages(packages))?;
    }
    let folder = prepared.folder().to_owned();
    Ok(Message::Built { program: prepared.build()?, folder })
}

/// Writes a line of this program, which differs from lines of the operator by its beginning.
fn say(sentence: &str) {
    terminal::say(&format!("kopf-rs dev: {sentence}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> (Dev, Vec<OsString>) {
        use clap::{CommandFactory, FromArgMatches};
        let typed = format!("kopf-rs dev {line}");
        let matches =
            crate::args::Cli::command().try_get_matches_from(typed.split(' ')).expect("valid flags");
        let (_, matches) = matches.subcommand().expect("a subcommand");
        let args = crate::args::for_program(matches).operator;
        (Dev::from_arg_matches(matches).expect("flags of dev"), args)
    }

    #[test]
    fn operators_get_the_server_or_a_priority_that_pauses_others() {
        for (line, is_local, expected) in [
            (". -n team --embedded=80 --workloads --apply a", true, "--namespace=team --kubeconfig=k"),
            (". --current-context -v", false, "--verbose --dev"),
            (". --context=c", false, "--context=c --dev"),
            (". --context=c --standalone", false, "--context=c --standalone"),
            (". --kubeconfig=f -p 7", false, "--kubeconfig=f --priority=7"),
        ] {
            let (dev, args) = parsed(line);
            assert_eq!(dev.is_on_cluster(), !is_local, "{line}");
            let args = operator_arguments(&dev, args, is_local.then_some(Path::new("k")));
            assert_eq!(args.join(" ".as_ref()), OsString::from(expected), "{line}");
        }
    }

    #[test]
    fn flags_that_end_the_operator_are_refused() {
        for line in [". --once", ". --manifests", ". --why=a/b", ". --apply -"] {
            assert!(check(&parsed(line).0.run).is_err(), "{line}");
        }
        assert!(check(&parsed(". --apply a").0.run).is_ok());
    }
}
