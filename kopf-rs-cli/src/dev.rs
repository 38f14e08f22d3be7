//! `kopf-rs dev`: builds an operator and runs it, and builds and starts it again at each change of its sources.
//!
//! The operator and the API server are child processes. `machine` decides; this module starts and ends processes, and reports events.
//! Guarantees that none of its processes is left behind unless it is killed itself. Only the compilers of a build that was started from a
//! terminal may finish their files after a signal that does not come from the terminal.

mod api_server;
mod child;
mod machine;
pub(crate) mod sources;
mod watcher;
mod words;

use std::collections::BTreeSet;
use std::error::Error;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::args::{Dev, Run};
use crate::dev::api_server::ApiServer;
use crate::dev::machine::{Action, Event, Machine, Phase};
use crate::dev::sources::Sources;
use crate::dev::watcher::Watcher;
use crate::processes::{self, End, HANGUP, Handle, INTERRUPT, TERMINATE};
use crate::run::{self, Operator};
use crate::source;
use crate::terminal;

/// The time for an operator to stop before it is killed, and then for the API server.
const PATIENCE: Duration = Duration::from_secs(10);

/// Tells the operator that the API server is on this machine, and calls its webhooks without any settings, as with `--embedded`.
const LOCAL_SERVER: &str = "KOPF_RS_LOCAL_SERVER";

/// Flags that `kopf-rs dev` cannot serve.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DevError {
    #[error(
        "{0} ends the operator, but kopf-rs dev starts operators again at each change of the sources\n  leave out {0}, or run it once: \
         kopf-rs run PATH {0}"
    )]
    EndsOperator(&'static str),
    #[error(
        "--apply -: standard input can be read only once, but kopf-rs dev applies files again when they change\n  name a file or a folder"
    )]
    StandardInput,
    #[error(
        "--data-dir: {} is the folder of the sources, and each change of an object there would start a build
  choose a folder of its own, such as \
         --data-dir cluster",
        .0.display()
    )]
    DataAmongSources(PathBuf),
}

/// News from other threads.
enum Message {
    Event(Event),
    /// These paths have changed.
    Changed(BTreeSet<PathBuf>),
    /// The folders of the packages that the operator is built from.
    Packages(Vec<PathBuf>),
    /// A build has succeeded.
    Built(Operator),
}

/// Everything that `kopf-rs dev` holds while it runs.
struct Session {
    dev: Arc<Dev>,
    /// The arguments of each operator, without files to apply.
    args: Vec<OsString>,
    sources: Sources,
    watcher: Watcher,
    machine: Machine,
    sender: Sender<Message>,
    /// The program of the last successful build.
    built: Option<Operator>,
    operator: Option<Handle>,
    /// When the program of the last operator was written.
    written: Option<SystemTime>,
    phase: Phase,
    since: Instant,
}

/// Runs until a signal ends it.
pub(crate) fn dev(dev: Dev, operator_args: Vec<OsString>) -> Result<ExitCode, Box<dyn Error>> {
    check(&dev)?;
    let (sender, messages) = channel();
    end_on_signals(sender.clone())?;
    terminal::begin_status();
    let ended = serve(dev, operator_args, sender, &messages);
    terminal::end_status();
    match ended {
        Err(_) if processes::are_builds_ended() => Ok(ExitCode::from(130)),
        ended => ended,
    }
}

fn check(dev: &Dev) -> Result<(), Box<dyn Error>> {
    let flags = &dev.run.flags;
    let ends = [
        ("--once", flags.cluster.once),
        ("--manifests", flags.manifests.manifests),
        ("--why", flags.why.why.is_some()),
        ("--install", flags.installing.install),
        ("--upgrade", flags.installing.upgrade),
        ("--uninstall", flags.installing.uninstall),
    ];
    if let Some((flag, _)) = ends.into_iter().find(|(_, is_given)| *is_given) {
        return Err(DevError::EndsOperator(flag).into());
    }
    if flags.cluster.apply.iter().any(|path| path.as_os_str() == "-") {
        return Err(DevError::StandardInput.into());
    }
    let data = dev.data_dir.as_ref().and_then(|it| it.canonicalize().ok());
    for path in run::paths(&dev.run) {
        if Some(source::existing(&path)?) == data {
            return Err(DevError::DataAmongSources(path).into());
        }
    }
    Ok(())
}

/// Reports signals, and ends builds, including that of the API server, which runs before the session begins.
fn end_on_signals(sender: Sender<Message>) -> std::io::Result<()> {
    processes::on_signals(&[HANGUP, INTERRUPT, TERMINATE], move |signal| {
        let signal = u8::try_from(signal).unwrap_or_default();
        // Sent before the builds end, so that their end is not reported as a failure. Fails only if this program is about to end.
        let _sent = sender.send(Message::Event(Event::Interrupted(signal)));
        processes::end_builds();
    })
}

fn serve(
    dev: Dev,
    operator_args: Vec<OsString>,
    sender: Sender<Message>,
    messages: &Receiver<Message>,
) -> Result<ExitCode, Box<dyn Error>> {
    let server = if dev.is_on_cluster() { None } else { Some(start_server(&dev, sender.clone())?) };
    let kubeconfig = server.as_ref().map(ApiServer::kubeconfig);
    let args = operator_arguments(&dev, operator_args, kubeconfig);
    let ended = Session::begin(dev, args, sender).map(|session| session.run(messages));
    if let Some(server) = server {
        let is_hurried = matches!(ended, Ok(code) if code > 1);
        server.stop(if is_hurried { Duration::ZERO } else { PATIENCE });
    }
    Ok(ExitCode::from(ended?))
}

fn start_server(dev: &Dev, sender: Sender<Message>) -> Result<ApiServer, Box<dyn Error>> {
    terminal::show_status("kopf-rs dev: starting the API server");
    ApiServer::start(dev, move || drop(sender.send(Message::Event(Event::ServerEnded))))
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
    args.push(["--kubeconfig".as_ref(), kubeconfig.as_os_str()].join("=".as_ref()));
    args
}

// === impl Session ===

impl Session {
    /// Watches the sources, and begins the first build.
    #[expect(clippy::disallowed_methods, reason = "the status line shows how long its state lasts")]
    fn begin(dev: Dev, args: Vec<OsString>, sender: Sender<Message>) -> Result<Self, Box<dyn Error>> {
        let applied = &dev.run.flags.cluster.apply;
        // The output of this program may be a file among the sources.
        let written = [Path::new("/dev/stdout"), Path::new("/dev/stderr")];
        let mut sources = Sources::new(applied, written.into_iter().chain(dev.data_dir.as_deref()));
        sources.add_code(run::paths(&dev.run).iter().map(PathBuf::as_path));
        let changed = sender.clone();
        let mut watcher = Watcher::start(move |paths| {
            // Fails only if this program is about to end.
            let _sent = changed.send(Message::Changed(paths));
        })?;
        watcher.watch(&sources.folders(), &BTreeSet::new())?;
        if dev.is_on_cluster() {
            say(
                "Deployed operators in the same peering pause while this operator runs. Operators outside of the peering do not pause, and handle \
                 the same objects.",
            );
        }
        Ok(Self {
            machine: Machine::new(applied.clone()),
            dev: Arc::new(dev),
            args,
            sources,
            watcher,
            sender,
            built: None,
            operator: None,
            written: None,
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
            if self.machine.phase() == Phase::Leaving {
                processes::end_builds();
            }
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the status line shows how long its state lasts")]
    fn show(&mut self) {
        let phase = self.machine.phase();
        if phase != self.phase {
            (self.phase, self.since) = (phase, Instant::now());
        }
        terminal::show_status(&words::status(&run::name_of(&self.dev.run), phase, self.since.elapsed()));
    }

    /// Returns what a message means for the machine.
    fn event_of(&mut self, message: Message) -> Option<Event> {
        match message {
            Message::Event(event) => Some(event),
            Message::Changed(paths) => {
                let saved = self.sources.changes(&paths);
                // Ignores files: this program's output may go to one, and each warning about folders would then cause another warning.
                if saved.is_some() || paths.iter().any(|it| it.is_dir()) {
                    self.watch(&paths);
                }
                saved.map(Event::Saved)
            }
            Message::Packages(packages) => {
                self.sources.add_code(packages.iter().map(PathBuf::as_path));
                self.watch(&BTreeSet::new());
                None
            }
            Message::Built(operator) => {
                let is_new = written(&operator.program) != self.written;
                self.built = Some(operator);
                Some(Event::Built { is_new })
            }
        }
    }

    fn watch(&mut self, changed: &BTreeSet<PathBuf>) {
        if let Err(error) = self.watcher.watch(&self.sources.folders(), changed) {
            say(&format!("Changes in some folders will not start a build: {error}"));
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Build => self.build(),
            Action::Start(files) => self.start(&files),
            Action::Stop => {
                self.operator.iter().for_each(|it| it.stop(PATIENCE, || say(&words::overdue(PATIENCE))));
            }
            Action::Kill => self.operator.iter().for_each(|it| it.end(End::AtOnce)),
            Action::Tell(news) => say(&words::sentence(news)),
            Action::Leave(_) => {}
        }
    }

    /// Builds in a thread.
    fn build(&self) {
        say(&format!("Building {}.", run::name_of(&self.dev.run)));
        let (dev, sender) = (self.dev.clone(), self.sender.clone());
        thread::spawn(move || {
            let message = built(&dev.run, &sender).unwrap_or_else(|error| {
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
        let Some(operator) = &self.built else {
            return;
        };
        let files = files.iter().map(|it| ["--apply".as_ref(), it.as_os_str()].join("=".as_ref()));
        let args: Vec<OsString> = self.args.iter().cloned().chain(files).collect();
        let mut command = operator.command(&args);
        command.stdout(terminal::output_of_child());
        if !self.dev.is_on_cluster() {
            command.env(LOCAL_SERVER, "true");
        }
        say("Starting the operator.");
        let sender = self.sender.clone();
        let report = move |code| drop(sender.send(Message::Event(Event::Ended(code))));
        self.written = written(&operator.program);
        match child::start(&mut command, || (), report.clone()) {
            Ok(handle) => self.operator = Some(handle),
            Err(error) => {
                say(&format!("{} cannot be started: {error}", operator.program.display()));
                report(Some(1));
            }
        }
    }
}

/// Finds the sources, reports their packages, and builds.
fn built(run: &Run, sender: &Sender<Message>) -> Result<Message, Box<dyn Error>> {
    let prepared = run::prepare(run)?;
    // The build reports dependencies that cargo cannot resolve.
    if let Ok(packages) = prepared.packages() {
        sender.send(Message::Packages(packages))?;
    }
    Ok(Message::Built(prepared.build()?))
}

/// Returns the time at which a program was written, which differs for each build, even by another process.
fn written(program: &Path) -> Option<SystemTime> {
    program.metadata().ok()?.modified().ok()
}

/// Writes a line of this program, which differs from lines of the operator by its beginning.
fn say(sentence: &str) {
    terminal::say(&format!("kopf-rs dev: {sentence}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn parsed(line: &str) -> (Dev, Vec<OsString>) {
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
        for line in [
            ". --once",
            ". --manifests",
            ". --why=a/b",
            ". --install",
            ". --upgrade",
            ". --uninstall",
            ". --apply -",
        ] {
            assert!(check(&parsed(line).0).is_err(), "{line}");
        }
        assert!(check(&parsed(". --apply a --data-dir src").0).is_ok());
        let refused = check(&parsed("src --data-dir src").0).unwrap_err().to_string();
        assert!(refused.contains("src is the folder of the sources"), "{refused}");
    }

    #[test]
    fn a_program_of_any_build_is_new_until_an_operator_starts_from_it() {
        let program = std::env::temp_dir().join(format!("kopf-rs-built-{}", std::process::id()));
        let file = std::fs::File::create(&program).unwrap();
        let (dev, args) = parsed("src/dev");
        let mut session = Session::begin(dev, args, channel().0).unwrap();
        let mut built = |seconds: Option<u64>, starts: bool| {
            if let Some(seconds) = seconds {
                file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
            }
            let operator = Operator { program: program.clone(), folder: PathBuf::new() };
            let event = session.event_of(Message::Built(operator));
            if starts {
                session.start(&[]);
            }
            event == Some(Event::Built { is_new: true })
        };
        assert!(built(Some(1), true));
        assert!(!built(None, false));
        // Another cargo process, or an earlier build of this one, has built it.
        assert!(built(Some(2), false) && built(None, true));
        assert!(!built(None, false));
        std::fs::remove_file(&program).unwrap();
    }
}
