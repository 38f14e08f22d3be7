//! The command line: the command, the flags of the build, and the flags that are forwarded to the operator.
//!
//! The operator's flags are defined in `kopf_rs_flags`. They are checked here, before the build, and forwarded in the
//! form that clap has parsed.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgMatches, Args, Command, FromArgMatches, Parser, Subcommand as Subcommands};
use kopf_rs_flags::forwarded::{Receiver, forwarded};
use kopf_rs_flags::task::Task;
use kopf_rs_flags::{EXPLAINED, Flags};

use crate::new::names::Kind;

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

const NEW_EXAMPLES: &str = "\
Examples:
  kopf-rs new demo                              a crate in the folder demo, for the kind example.com/v1/Demo
  kopf-rs new demo --kind shop.example.org/v1alpha1/Order --reconcile
  kopf-rs new demo --single-file                the file demo.rs

Exit codes: 0 created; 1 failed, and the created files are removed; 2 a name or a kind is invalid, or the folder or file exists
already.";

const ADD_EXAMPLES: &str = "\
Examples:
  kopf-rs add kind shop.example.org/v1/Order    src/order.rs with the kind, a handler and tests, and order.yaml
  kopf-rs add webhook --kind Order              src/order_webhook.rs with a webhook that validates
  kopf-rs add conversion v2 --kind Order        src/order/v2.rs with another version, converted from and to the first

Exit codes: 0 added; 1 failed, and nothing is changed; 2 a name is wrong, something is there, or the folder is no crate with kopf-rs.";

const MANIFESTS_EXAMPLES: &str = "\
Examples:
  kopf-rs manifests ./myapp --image myapp:1.0 | kubectl apply -f -
  kopf-rs manifests op.rs --apply crd.yaml      kinds that no Rust type defines
  kopf-rs manifests . -n team-a --lease         for one namespace, with a standby
  kopf-rs manifests . --observe                 which requests of the tests need a `requires` that is missing
  kopf-rs manifests . --format helm -o chart    a chart for `helm install demo ./chart`

Exit codes: 0 printed; 1 failed, or with --check the files differ or a definition breaks stored objects, or with --observe a request is
not permitted; 2 flags or handlers are wrong.";

const INSTALL_EXAMPLES: &str = "\
Examples:
  kopf-rs install ./myapp --image registry.example.com/myapp:1.0 --dry-run
                                                the objects that would be created
  kopf-rs install ./myapp --image registry.example.com/myapp:1.0
                                                apply them, and wait until the operator runs

Repeat the command after an interruption: it continues.

Exit codes: 0 installed and running, or --dry-run has printed the differences; 1 failed, such as a permission that you lack, an operator that
is installed already and differs, or Pods that do not start within --timeout; 2 flags or handlers are wrong.";

const UPGRADE_EXAMPLES: &str = "\
Examples:
  kopf-rs upgrade ./myapp --image registry.example.com/myapp:1.1 --dry-run
  kopf-rs upgrade ./myapp --image registry.example.com/myapp:1.1
  kopf-rs upgrade --install ./myapp --image registry.example.com/myapp:1.1
                                                for scripts: whether it is installed or not

Repeat the command after an interruption: it continues.

Exit codes: 0 upgraded and running, or --dry-run has printed the differences; 1 failed, such as a permission that you lack, an operator that
is not installed, or Pods that do not start within --timeout; 2 flags or handlers are wrong.";

const UNINSTALL_EXAMPLES: &str = "\
Examples:
  kopf-rs uninstall ./myapp --dry-run           what would be removed, and what would be kept
  kopf-rs uninstall ./myapp                     the operator; its definitions and all objects stay
  kopf-rs uninstall ./myapp --remove-finalizers the objects can be deleted without the operator
  kopf-rs uninstall ./myapp --delete-objects --crds
                                                everything, and the operator handles the deletions before it ends

Repeat the command after an interruption: it continues.

Exit codes: 0 removed, or there was nothing; 1 failed or refused, such as deletions that are not finished within --timeout, or --crds while
there are objects; 2 flags or handlers are wrong.";

const WHY_USAGE: &str = "kopf-rs why [OPTIONS] [PATH]... <KIND/NAME>";

const WHY_EXAMPLES: &str = "\
Examples:
  kopf-rs why widgets/mine -n team              by the handlers of the crate in this folder
  kopf-rs why ./myapp myapps/mine -o json       by those of ./myapp, for programs
  kopf-rs why ./myapp myapps/mine --if spec.size=3
                                                and which handlers that change would call

The last argument is the object. Nothing is called or written.

Exit codes: 0 explained; 1 there is no such object or kind, or it must not be read; 2 flags or handlers are wrong.";

const SERVER_EXAMPLES: &str = "\
Examples:
  kopf-rs apiserver                             in memory, on a free port; prints the line for kubectl
  kopf-rs apiserver --data-dir cluster          the same cluster in every run
  kopf-rs apiserver --port 8443 --kubeconfig-out kubeconfig
  kopf-rs apiserver --workloads                 with Deployments that make Pods and Pods that become ready

Exit codes: 0 stopped as asked; 1 failed; 2 wrong usage; 130 and 143 ended by a second SIGINT or SIGTERM.";

const DEV_EXAMPLES: &str = "\
Examples:
  kopf-rs dev                                   the crate in this folder, on an API server of its own
  kopf-rs dev op.rs --apply sample.yaml         a single file; sample.yaml is applied again when it is saved
  kopf-rs dev ./myapp --embedded=8443 --workloads --data-dir cluster
                                                on this port, with Pods that become ready, and the same objects in every run
  kopf-rs dev ./myapp --current-context         on the cluster of kubectl, where operators in the peering pause meanwhile

Saving a source file, or a file of a dependency on this machine, starts a build. The running operator is replaced only if the build
succeeds; the API server and its objects stay. Ctrl+C stops everything.

Exit codes: 0 stopped as asked; 1 failed, such as an API server that cannot start; 2 flags are wrong; 130 and 143 ended by a second SIGINT
or SIGTERM.";

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
    /// Create the crate of a new operator, or a single file: `kopf-rs new demo --kind example.com/v1/Demo`
    #[command(after_help = NEW_EXAMPLES)]
    New(New),
    /// Add a kind, a webhook or a conversion to the crate of an operator: `kopf-rs add kind example.com/v1/Order`
    #[command(after_help = ADD_EXAMPLES)]
    Add(Add),
    /// Build handlers into an operator and run it
    #[command(after_help = EXAMPLES)]
    Run(Box<Run>),
    /// Build handlers into an operator, run it, and do so again at each change of the sources
    #[command(after_help = DEV_EXAMPLES)]
    Dev(Box<Dev>),
    /// Build handlers, and print everything that installs the operator, without a cluster (`--manifests` of the operator)
    #[command(after_help = MANIFESTS_EXAMPLES)]
    Manifests(Box<Manifests>),
    /// Build handlers, and install the operator in the cluster of kubectl (`--install` of the operator)
    #[command(after_help = INSTALL_EXAMPLES)]
    Install(Box<Run>),
    /// Build handlers, and upgrade the operator in the cluster of kubectl (`--upgrade` of the operator)
    #[command(after_help = UPGRADE_EXAMPLES)]
    Upgrade(Box<Run>),
    /// Build handlers, and remove the operator from the cluster of kubectl (`--uninstall` of the operator)
    #[command(after_help = UNINSTALL_EXAMPLES)]
    Uninstall(Box<Run>),
    /// Build handlers, and explain the state of an object and what it waits for: `kopf-rs why [PATH] KIND/NAME` (`--why` of the operator)
    #[command(after_help = WHY_EXAMPLES, override_usage = WHY_USAGE)]
    Why(Box<Why>),
    /// Tasks that need no handlers
    #[command(flatten)]
    Task(Task),
    /// Run a Kubernetes API server on this machine, without nodes and without an operator
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

/// `kopf-rs new`
#[derive(Args, Debug)]
pub(crate) struct New {
    /// The folder to create; or `.`, or another empty folder. Its last part is the name of the operator
    #[arg(value_name = "NAME")]
    pub(crate) path: PathBuf,
    /// The kind of the operator's objects. Default: example.com/v1 and the operator's name
    #[arg(long, value_name = "GROUP/VERSION/KIND")]
    pub(crate) kind: Option<Kind>,
    /// A level-triggered function that keeps a child object, in place of a handler of events
    #[arg(long)]
    pub(crate) reconcile: bool,
    /// One file NAME.rs for `kopf-rs run`, in place of a crate
    #[arg(long)]
    pub(crate) single_file: bool,
    /// The name of the operator, where it is not that of the folder
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// The folder of the kopf-rs library that the crate depends on, instead of the version of this program
    #[arg(long, value_name = "DIR", env = "KOPF_RS_PATH", hide_env_values = true)]
    pub(crate) kopf_path: Option<PathBuf>,
}

/// `kopf-rs add`
#[derive(Args, Debug)]
pub(crate) struct Add {
    #[command(subcommand)]
    pub(crate) what: AddWhat,
    /// The folder of the crate
    #[arg(long, value_name = "DIR", default_value = ".", global = true)]
    pub(crate) path: PathBuf,
}

/// The addition to the crate.
#[derive(Debug, Subcommands)]
pub(crate) enum AddWhat {
    /// A module with a typed kind, a handler and tests
    Kind {
        /// The kind of the objects
        #[arg(value_name = "GROUP/VERSION/KIND")]
        kind: Kind,
        /// A level-triggered function that keeps a child object, in place of a handler of events
        #[arg(long)]
        reconcile: bool,
    },
    /// A module with a webhook that validates the objects of a kind
    Webhook {
        /// The kind, where the crate has several
        #[arg(long, value_name = "KIND")]
        kind: Option<String>,
    },
    /// A module with another version of a kind, and the conversion between both
    Conversion {
        /// The version to add. Default: the one that follows, such as v2 after v1
        #[arg(value_name = "VERSION")]
        version: Option<String>,
        /// The kind, where the crate has several
        #[arg(long, value_name = "KIND")]
        kind: Option<String>,
    },
}

/// The id of the arguments after `--`.
const PROGRAM_ARGS: &str = "program_args";

/// The arguments for the operator's program.
#[derive(Debug)]
pub(crate) struct Forwarded {
    /// Flags of every operator.
    pub(crate) operator: Vec<OsString>,
    /// Flags of this program.
    pub(crate) program: Vec<OsString>,
}

/// Adds the operator's flag of the same name to a subcommand that is a task of an operator, because other flags require it.
pub(crate) fn with_task(mut typed: Vec<OsString>) -> Vec<OsString> {
    let tasks = ["manifests", "install", "upgrade", "uninstall"];
    if let Some(task) = typed.get(1).and_then(|it| it.to_str()).filter(|it| tasks.contains(it)) {
        let flag = OsString::from(format!("--{task}"));
        if !typed.iter().take_while(|it| *it != "--").any(|it| *it == flag) {
            typed.insert(2, flag);
        }
    }
    typed
}

impl Forwarded {
    /// Returns all arguments, after a check of those that every operator has: ends this program if the operator would refuse them. `name` is
    /// the subcommand.
    pub(crate) fn checked(self, name: &str) -> Vec<OsString> {
        if let Err(usage) = check(name, &self.operator) {
            usage.exit();
        }
        [self.operator, self.program].concat()
    }
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
    /// Arguments for the program's own flags, as declared by `kopf_rs::main!(flags = ..)`
    #[arg(last = true, value_name = "PROGRAM'S FLAGS")]
    pub(crate) program_args: Vec<OsString>,
    #[command(flatten)]
    pub(crate) build: BuildFlags,
    #[command(flatten)]
    pub(crate) flags: Flags,
}

/// `kopf-rs manifests`
#[derive(Args, Debug)]
pub(crate) struct Manifests {
    #[command(flatten)]
    pub(crate) run: Run,
    /// Run the tests of the crates first. Instead of the manifests, print the requests that handlers have sent in the tests and that the
    /// permissions do not include, with the names of the tests and the `requires` to add
    #[arg(long, conflicts_with_all = ["check", "format", "output"])]
    pub(crate) observe: bool,
}

/// `kopf-rs dev`
#[derive(Args, Debug)]
pub(crate) struct Dev {
    #[command(flatten)]
    pub(crate) run: Run,
    /// Run on the cluster of kubectl rather than on an API server of its own, as --kubeconfig and --context do. Deployed operators in the
    /// same peering pause meanwhile (--dev)
    #[arg(long, conflicts_with_all = ["embedded", "data_dir"], help_heading = "Cluster")]
    pub(crate) current_context: bool,
    /// Keep all objects of the API server in this directory between runs. By default they are lost when kopf-rs dev ends
    #[arg(long, value_name = "DIR", conflicts_with_all = ["kubeconfig", "context"], help_heading = "Cluster")]
    pub(crate) data_dir: Option<PathBuf>,
}

/// `kopf-rs why`
#[derive(Args, Debug)]
pub(crate) struct Why {
    /// Folders of crates or single .rs files, as for `kopf-rs run`, and last the object: KIND/NAME, or KIND/NAMESPACE/NAME where -n says
    /// which namespaces the operator serves
    #[arg(value_name = "PATH]... [KIND/NAME", required = true, num_args = 1.., group = EXPLAINED)]
    pub(crate) paths_and_object: Vec<OsString>,
    /// Arguments for the program's own flags, as declared by `kopf_rs::main!(flags = ..)`
    #[arg(last = true, value_name = "PROGRAM'S FLAGS")]
    pub(crate) program_args: Vec<OsString>,
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
#[derive(Args, Clone, Debug, Default, Hash)]
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

// === impl Dev ===

impl Dev {
    /// Returns whether the operator runs on a cluster of the user's, rather than on an API server of its own.
    pub(crate) fn is_on_cluster(&self) -> bool {
        let connection = &self.run.flags.cluster.connection;
        self.current_context || connection.kubeconfig.is_some() || connection.context.is_some()
    }
}

// === impl Why ===

impl Why {
    /// Splits the command line into the operator to build and the object to explain.
    pub(crate) fn split(self) -> (Run, OsString) {
        let mut words = self.paths_and_object;
        let object = words.pop().unwrap_or_default();
        let run = Run {
            paths: words.into_iter().map(PathBuf::from).collect(),
            program_args: self.program_args,
            build: self.build,
            flags: self.flags,
        };
        (run, object)
    }
}

// === impl Network ===

impl Network {
    /// Returns whether a resolved, current lock file is required.
    pub(crate) fn wants_lock(self) -> bool {
        self.locked || self.frozen
    }

    /// Returns whether the network is forbidden.
    pub(crate) fn is_offline(self) -> bool {
        self.offline || self.frozen
    }
}

/// Returns the arguments for the operator's program: the operator's flags among the given ones, and what follows `--`, which only that program
/// can check.
pub(crate) fn for_program(matches: &ArgMatches) -> Forwarded {
    let program = matches.get_many::<OsString>(PROGRAM_ARGS).into_iter().flatten().cloned();
    Forwarded { operator: forwarded(matches, Receiver::Process), program: program.collect() }
}

/// Rejects, before the build, flags that the operator would reject after it. `name` is the subcommand.
pub(crate) fn check(name: &str, operator_args: &[OsString]) -> Result<(), clap::Error> {
    let name = format!("kopf-rs {name}");
    let command = Command::new("operator").bin_name(name).no_binary_name(true);
    let mut command = Flags::augment_args(command);
    let matches = command.try_get_matches_from_mut(operator_args)?;
    let env = |key: &str| std::env::var_os(key);
    Flags::from_arg_matches(&matches)?.checked(&env, &mut command)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::{ArgMatches, CommandFactory};

    use super::*;

    fn parse(line: &str) -> Result<ArgMatches, clap::Error> {
        let typed = format!("kopf-rs {line}");
        let matches = Cli::command().try_get_matches_from(typed.split(' '))?;
        Ok(matches.subcommand().expect("a subcommand").1.clone())
    }

    fn split(line: &str) -> (Vec<PathBuf>, String) {
        let matches = parse(&format!("run {line}")).expect("a line that clap takes");
        let Forwarded { operator, program } = for_program(&matches);
        let args = [operator, program].concat().join(" ".as_ref());
        let run = Run::from_arg_matches(&matches).expect("the flags of a run");
        (run.paths, args.into_string().expect("text"))
    }

    #[test]
    fn tasks_take_the_flags_that_shape_them() {
        for line in [
            "install . --image a:1 --dry-run --timeout 2s --adopt",
            "upgrade . --install --timeout 2s",
            "uninstall . --crds --delete-objects --remove-finalizers --dry-run --timeout 2s",
            "manifests . --format helm -o chart --check",
            "install . -- --install",
        ] {
            let typed = ["kopf-rs"].into_iter().chain(line.split(' ')).map(OsString::from);
            let parsed = Cli::command().try_get_matches_from(with_task(typed.collect()));
            assert_eq!(parsed.err().map(|it| it.to_string()), None, "{line}");
        }
    }

    #[test]
    fn the_derive_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn operator_flags_are_told_from_paths_and_build_flags() {
        for (line, paths, args) in [
            ("a --release b", &["a", "b"][..], ""),
            ("-n default a", &["a"], "--namespace=default"),
            ("-ndefault a", &["a"], "--namespace=default"),
            ("-nproduction ./app", &["./app"], "--namespace=production"),
            ("-vn default a", &["a"], "--namespace=default --verbose"),
            ("-n a -n b", &[], "--namespace=a --namespace=b"),
            ("a --features x,y --namespace=x --once", &["a"], "--namespace=x --once"),
            ("--embedded a --apply a --kopf-path k", &["a"], "--embedded=0 --apply=a"),
            ("--apply - a --once", &["a"], "--apply=- --once"),
            ("--once --timeout 3s a", &["a"], "--once --timeout=3s"),
            ("--embedded=80 -A ./-strange", &["./-strange"], "--all-namespaces --embedded=80"),
            ("a --once -- --db-url x b", &["a"], "--once --db-url x b"),
            ("-- --once", &[], "--once"),
            ("--log-prefix a --log-format json", &["a"], "--log-format=json --log-prefix"),
            ("--lease a", &["a"], "--lease"),
        ] {
            let expected: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
            assert_eq!(split(line), (expected, args.to_owned()), "{line}");
        }
    }

    #[test]
    fn flags_of_an_explanation_need_an_object() {
        for line in [
            "why",
            "why -n team",
            "why -o json --if spec.size=3",
            "run --if spec.size=3",
            "manifests --if spec.size=3",
            "why widgets/mine --why widgets/other",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
        let matches = parse("why ./app -n team widgets/mine --if spec.size=3 -- -x 1").expect("an object");
        assert_eq!(for_program(&matches).program, ["-x", "1"]);
        let why = Why::from_arg_matches(&matches).expect("the flags of why");
        let (run, object) = why.split();
        assert_eq!(run.paths, [PathBuf::from("./app")]);
        assert_eq!(object, "widgets/mine");
    }

    #[test]
    fn observed_tests_print_no_manifests() {
        for line in ["--check", "-o folder", "--format yaml"] {
            assert!(parse(&format!("manifests . --observe {line}")).is_err(), "{line}");
        }
        assert!(parse("manifests . --observe --offline").is_ok());
    }

    #[test]
    fn what_the_operator_would_refuse_is_refused_before_the_build() {
        let check = |args: &[&str]| {
            let args: Vec<OsString> = args.iter().map(OsString::from).collect();
            check("why", &args)
        };
        for args in [
            &["--why=./app"][..],
            &["--why=widgets/mine", "--once"],
            &["--why=widgets/mine", "--embedded=0"],
            &["--manifests", "--once"],
            &["--observed=folder"],
            &["--output=json"],
            &["--manifests", "--format=helm"],
            &["--install", "--uninstall"],
            &["--upgrade", "--crds"],
            &["--manifests", "--observed=folder", "--check"],
            &["--manifests", "--observed=folder", "--output=folder"],
            &["--manifests", "--observed=folder", "--format=yaml"],
            &["--all-namespaces", "--namespace=a"],
        ] {
            assert!(check(args).is_err(), "{args:?}");
        }
        assert!(check(&["--why=widgets/mine", "--namespace=a"]).is_ok());
        assert!(check(&["--embedded=0", "--lease="]).is_ok());
    }
}
