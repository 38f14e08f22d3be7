//! What can be typed: the command, the flags of the build, and those that are handed on to the operator.
//!
//! The operator's flags are `kopf_rs_flags`: checked here, before anything is built, and forwarded as they were typed.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::{Arg, ArgAction, Args, Command, CommandFactory, Parser, Subcommand as Subcommands};
use kopf_rs_flags::Flags;
use kopf_rs_flags::pause::{Freeze, Resume};

const ABOUT: &str = "Run Kubernetes operators written as annotated Rust functions";

const EXAMPLES: &str = "\
Examples:
  kopf-rs run                                   the crate in this folder, on the cluster of kubectl
  kopf-rs run ./myapp -n default --verbose      a handler crate: a library with annotated functions
  kopf-rs run op.rs --embedded                  one single file, on an API server of its own
  kopf-rs run ./myapp --embedded --apply ./myapp --once
                                                apply the objects in ./myapp, handle them, exit

Exit codes: 0 stopped as asked, or with --once everything is handled; 1 failed, or with --once
not everything is handled; 2 flags or handlers are wrong, such as handlers that do not compile, or
objects to apply cannot be read, and nothing was started; 130 and 143 ended by a second SIGINT or SIGTERM.";

const MANIFESTS_EXAMPLES: &str = "\
Examples:
  kopf-rs manifests ./myapp --settings settings.yaml | kubectl apply -f -
                                                where settings.yaml has `admission: {server: \"service:NAMESPACE/NAME\"}`

Exit codes: 0 printed; 1 failed; 2 flags or handlers are wrong.";

const WHY_EXAMPLES: &str = "\
Examples:
  kopf-rs why widgets/mine -n team              by the handlers of the crate in this folder
  kopf-rs why ./myapp myapps/mine -o json       by those of ./myapp, for programs
  kopf-rs why ./myapp myapps/mine --if spec.size=3
                                                and which handlers that change would call

The last argument is the object. Nothing is called or written.

Exit codes: 0 explained; 1 there is no such object or kind, or it must not be read; 2 flags or handlers are wrong.";

const FREEZE_EXAMPLES: &str = "\
Examples:
  kopf-rs freeze -P default -t 10m -n team -m 'the database moves'
                                                operators for the namespace team pause for ten minutes
  kopf-rs resume -P default -n team             or until this is said, by the same user on the same machine

Operators of Kopf are asked as well. The operators must take part in a peering of this name: see --peering of `kopf-rs run`.

Exit codes: 0 they are asked; 1 there is no such peering, or it cannot be written; 2 flags are wrong.";

const SERVER_EXAMPLES: &str = "\
Examples:
  kopf-rs apiserver                             in memory, on a free port; prints the line for kubectl
  kopf-rs apiserver --data-dir cluster          the same cluster in every run
  kopf-rs apiserver --port 8443 --kubeconfig-out kubeconfig
  kopf-rs apiserver --workloads                 with Deployments that make Pods and Pods that become ready

Exit codes: 0 stopped as asked; 1 failed; 2 wrong usage; 130 and 143 ended by a second SIGINT or SIGTERM.";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(name = "kopf-rs", version, about = ABOUT, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Subcommand,
}

/// The commands.
#[derive(Debug, Subcommands)]
pub(crate) enum Subcommand {
    /// Build handlers into an operator and run it
    #[command(after_help = EXAMPLES)]
    Run(Box<Run>),
    /// Build handlers, and print the webhook configurations of those that the API server asks (`--manifests` of the operator)
    #[command(after_help = MANIFESTS_EXAMPLES)]
    Manifests(Box<Run>),
    /// Build handlers, and say why an object is as it is: `kopf-rs why [PATH] KIND/NAME` (`--why` of the operator)
    #[command(after_help = WHY_EXAMPLES)]
    Why(Box<Run>),
    /// Ask running operators to pause, as Kopf's command does
    #[command(after_help = FREEZE_EXAMPLES)]
    Freeze(Freeze),
    /// Take back what `kopf-rs freeze` has asked for
    #[command(after_help = FREEZE_EXAMPLES)]
    Resume(Resume),
    /// Run a Kubernetes API server of its own: no nodes, ready at once
    #[command(name = "apiserver", after_help = SERVER_EXAMPLES)]
    ApiServer(ApiServerFlags),
}

/// `kopf-rs apiserver`: the flags of the program `kopf-rs-apiserver`, checked here before that is built.
#[derive(Args, Debug)]
pub(crate) struct ApiServerFlags {
    /// The port of 127.0.0.1 to listen on; 0 is any free one. Default: where the data directory was served last, else a free one
    #[arg(long, value_name = "N")]
    pub(crate) port: Option<u16>,
    /// Write the kubeconfig to this file, which only you can read. Default: a file in the data directory, else a temporary file
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig_out: Option<PathBuf>,
    /// Keep all objects in this directory between runs. By default they are lost when the server ends
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Do what controllers and nodes do, without running anything: Deployments make Pods, Pods become ready, Jobs complete
    #[arg(long)]
    pub(crate) workloads: bool,
}

/// `kopf-rs run`
#[derive(Args, Debug)]
pub(crate) struct Run {
    /// Folders of crates (a library with annotated functions, or a program whose main is `kopf_rs::main!()`), or single .rs files;
    /// the crate in this folder where none is given.
    ///
    /// A single file may begin with a part of a Cargo.toml for dependencies of its own, in lines `//!` between "//! ```cargo" and
    /// "//! ```".
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) build: BuildFlags,
    #[command(flatten)]
    pub(crate) flags: Flags,
}

/// The flags of the build: everything else is the operator's.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Building")]
pub(crate) struct BuildFlags {
    /// Build with optimisations
    #[arg(long)]
    pub(crate) release: bool,
    /// The package to run, where PATH is a workspace with several
    #[arg(long, value_name = "NAME")]
    pub(crate) package: Option<String>,
    #[command(flatten)]
    pub(crate) features: Features,
    #[command(flatten)]
    pub(crate) network: Network,
    /// The folder of the kopf-rs library that single files are built with, instead of the version of this program
    #[arg(long, value_name = "DIR", env = "KOPF_RS_PATH", hide_env_values = true)]
    pub(crate) kopf_path: Option<PathBuf>,
}

/// Which features of the user's crates are built.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Building")]
pub(crate) struct Features {
    /// Features of the crate, separated by commas
    #[arg(long, value_name = "FEATURES", value_delimiter = ',')]
    pub(crate) features: Vec<String>,
    /// Without the crate's default features
    #[arg(long)]
    pub(crate) no_default_features: bool,
}

/// Cargo's flags about the network and the lock file.
#[derive(Args, Clone, Copy, Debug, Default)]
#[command(next_help_heading = "Building")]
pub(crate) struct Network {
    /// Build without the network
    #[arg(long)]
    pub(crate) offline: bool,
    /// Demand that Cargo.lock is there and up to date
    #[arg(long)]
    pub(crate) locked: bool,
    /// Both --locked and --offline
    #[arg(long)]
    pub(crate) frozen: bool,
}

// === impl Run ===

impl Run {
    /// Refuse what cannot be meant.
    pub(crate) fn check(&self) -> Result<(), clap::Error> {
        let mut command = Cli::command();
        command.build();
        let run = command
            .find_subcommand_mut("run")
            .expect("the derive above declares it");
        self.flags.scope.scope(&|key| std::env::var_os(key), run)?;
        Ok(())
    }
}

// === impl Network ===

impl Network {
    /// Whether a resolved, current lock file is demanded.
    pub(crate) fn wants_lock(self) -> bool {
        self.locked || self.frozen
    }

    /// Whether the network is forbidden.
    pub(crate) fn is_offline(self) -> bool {
        self.offline || self.frozen
    }
}

/// The operator's part of `kopf-rs run ...`, in the order it was typed: neither paths nor flags of the build.
pub(crate) fn forwarded(typed: &[OsString]) -> Vec<OsString> {
    let run = Run::augment_args(Command::new("run"));
    let build = BuildFlags::augment_args(Command::new("build"));
    let is_build = |arg: &Arg| {
        build
            .get_arguments()
            .any(|own| own.get_id() == arg.get_id())
    };
    let mut forwarded = Vec::new();
    let mut rest = typed.iter().skip(2);
    while let Some(token) = rest.next() {
        if token == "--" {
            break;
        }
        let Some(arg) = flag_of(&run, token) else {
            continue;
        };
        let value = if wants_next(arg, token) {
            rest.next()
        } else {
            None
        };
        if !is_build(arg) {
            forwarded.push(token.clone());
            forwarded.extend(value.cloned());
        }
    }
    forwarded
}

/// The flag a token holds; of `-vqn` the last one, or the first that takes a value. `None` for a path.
fn flag_of<'a>(command: &'a Command, token: &OsStr) -> Option<&'a Arg> {
    let token = token.to_str()?;
    if let Some(long) = token.strip_prefix("--") {
        let name = long.split_once('=').map_or(long, |(name, _)| name);
        return command
            .get_arguments()
            .find(|arg| arg.get_long() == Some(name));
    }
    let mut last = None;
    for letter in token.strip_prefix('-')?.chars() {
        last = command
            .get_arguments()
            .find(|arg| arg.get_short() == Some(letter));
        if last.is_some_and(takes_value) {
            break;
        }
    }
    last
}

fn takes_value(arg: &Arg) -> bool {
    let optional = arg
        .get_num_args()
        .is_some_and(|range| range.min_values() == 0);
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append) && !optional
}

/// Whether the value of `arg` is the next token rather than a part of this one.
fn wants_next(arg: &Arg, token: &OsStr) -> bool {
    let token = token.to_string_lossy();
    let inside = if token.starts_with("--") {
        token.contains('=')
    } else {
        arg.get_short()
            .is_some_and(|letter| !token.ends_with(letter))
    };
    takes_value(arg) && !inside
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> String {
        let typed: Vec<OsString> = format!("kopf-rs run {line}")
            .split(' ')
            .map(OsString::from)
            .collect();
        Cli::try_parse_from(&typed).expect("a line clap takes");
        let kept: Vec<String> = forwarded(&typed)
            .iter()
            .map(|token| token.to_string_lossy().into_owned())
            .collect();
        kept.join(" ")
    }

    #[test]
    fn the_derive_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn operator_flags_are_told_from_paths_and_build_flags() {
        assert_eq!(split("a --release b"), "");
        assert_eq!(split("-n default a"), "-n default");
        assert_eq!(split("-ndefault a"), "-ndefault");
        assert_eq!(split("-vn default a"), "-vn default");
        assert_eq!(
            split("a --features x,y --namespace=x --once"),
            "--namespace=x --once"
        );
        assert_eq!(
            split("--embedded a --apply a --kopf-path k"),
            "--embedded --apply a"
        );
        assert_eq!(split("--apply - a --once"), "--apply - --once");
        assert_eq!(split("--once --timeout 3s a"), "--once --timeout 3s");
        assert_eq!(split("--embedded=80 -A -- -strange"), "--embedded=80 -A");
        assert_eq!(
            split("--log-prefix a --log-format json"),
            "--log-prefix --log-format json"
        );
    }
}
