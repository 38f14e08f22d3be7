//! The command line flags of every operator built on kopf-rs, as data.
//!
//! This is a separate crate, so that the program `kopf-rs` can parse and check the flags and print their help before
//! the build, without linking the framework. `kopf_rs::cli` defines the effects of the flags. This crate only parses,
//! and must not depend on kopf-rs.

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{BoolishValueParser, OsStringValueParser, TypedValueParser};
use clap::{ArgGroup, Args, Command, ValueEnum, error::ErrorKind};

use crate::installing::{INSTALLS, InstallingFlags, TASKS};
use crate::manifests::ManifestsFlags;
use crate::pause::DEV;

pub use crate::shell::shell_word;

pub mod forwarded;
pub mod installing;
pub mod manifests;
pub mod pause;
mod shell;
pub mod task;
pub mod webhooks;

/// The parsed flags. One field group per heading of the help. No type forms a group of clap (`skip`), because clap would name it after the
/// type, and a program may give that name to the type of its own flags.
#[derive(Args, Clone, Debug, Default)]
#[group(skip)]
#[command(group = ArgGroup::new(INSTALLS).args(TASKS).multiple(true))]
#[command(group = ArgGroup::new(TIMED).args(TASKS).arg("once").multiple(true))]
pub struct Flags {
    /// Selects the objects that the operator serves.
    #[command(flatten)]
    pub scope: ScopeFlags,
    /// Selects the cluster, and objects to apply to it.
    #[command(flatten)]
    pub cluster: ClusterFlags,
    /// Configures the operator's state on objects.
    #[command(flatten)]
    pub state: StateFlags,
    /// Selects the settings.
    #[command(flatten)]
    pub settings: SettingsFlags,
    /// Coordinates several operators of the same objects.
    #[command(flatten)]
    pub peering: PeeringFlags,
    /// Coordinates several instances of this operator.
    #[command(flatten)]
    pub lease: LeaseFlags,
    /// Configures the health endpoints.
    #[command(flatten)]
    pub health: HealthFlags,
    /// Prints manifests instead of running.
    #[command(flatten)]
    pub manifests: ManifestsFlags,
    /// Installs or removes the operator instead of running it.
    #[command(flatten)]
    pub installing: InstallingFlags,
    /// Explains an object instead of running.
    #[command(flatten)]
    pub why: WhyFlags,
    /// Selects the place or the format of printed manifests and explanations.
    #[command(flatten)]
    pub output: OutputFlags,
    /// Selects the verbosity of the log, and the format of its lines.
    #[command(flatten)]
    pub log: LogFlags,
}

/// `-A`, `-n`.
#[derive(Args, Clone, Debug, Default)]
#[group(skip)]
#[command(next_help_heading = "Scope")]
pub struct ScopeFlags {
    /// Serve the whole cluster (the default)
    #[arg(short = 'A', long, env = "KOPF_RUN_CLUSTERWIDE", value_parser = BoolishValueParser::new(), hide_env_values = true)]
    pub all_namespaces: bool,
    /// Serve the namespaces that match the pattern, such as `team-*,!team-test`; repeat for more
    /// [env: `KOPF_RUN_NAMESPACES`, separated by spaces]
    #[arg(short = 'n', long = "namespace", value_name = "PATTERN")]
    pub namespaces: Vec<String>,
}

/// `--kubeconfig`, `--context`.
#[derive(Args, Clone, Debug, Default)]
#[group(skip)]
pub struct ConnectionFlags {
    /// Use this kubeconfig file instead of $KUBECONFIG, ~/.kube/config or the Pod's service account
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Use this context of the kubeconfig instead of its current one
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

/// Selects the cluster.
#[derive(Args, Clone, Debug, Default)]
#[group(skip)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterFlags {
    /// Selects the connection.
    #[command(flatten)]
    pub connection: ConnectionFlags,
    /// Start an empty API server in this process, on 127.0.0.1, and print the kubectl command that reaches it
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "0",
          conflicts_with_all = ["kubeconfig", "context"])]
    pub embedded: Option<u16>,
    /// With --embedded, Deployments create Pods, Pods become ready and Jobs complete, although no container runs
    #[arg(long, requires = "embedded")]
    pub workloads: bool,
    /// Apply the objects of this YAML or JSON file, of all such files in this folder, or of standard input (`-`), before the operator
    /// starts; repeat for more
    #[arg(long, value_name = "FILE|DIR|-")]
    pub apply: Vec<PathBuf>,
    /// Handle all objects, then exit: with 0, or with 1 if a handler has failed permanently, or if a resource that has handlers is not
    /// served (a missing CRD) or not permitted
    #[arg(long)]
    pub once: bool,
    /// With --once, exit with 1 if not everything is handled within this time, such as 90s, 10m or 1h; 0 sets no limit. With --install,
    /// --upgrade or --uninstall, the limit of each wait
    #[arg(long, value_name = "TIME", value_parser = time, requires = TIMED, default_value = "10m")]
    pub timeout: Duration,
}

/// Configures the operator's state on objects.
#[derive(Args, Clone, Debug, Default)]
#[group(skip)]
#[command(next_help_heading = "State on objects")]
pub struct StateFlags {
    /// The operator's name: it keeps its state on objects under NAME.kopf.rs, so operators for the same objects need different names
    /// [default: the name of the package]
    #[arg(long, env = "KOPF_RS_NAME", value_name = "NAME", hide_env_values = true)]
    pub name: Option<String>,
    /// Keep the state under the names and in the formats of Kopf, the Python framework, to continue where a Kopf operator has stopped
    #[arg(long, env = "KOPF_RS_KOPF_COMPATIBLE", value_parser = BoolishValueParser::new(), hide_env_values = true)]
    pub kopf_compatible: bool,
}

/// `--settings`.
#[derive(Args, Clone, Debug, Default)]
#[group(skip)]
#[command(next_help_heading = "Settings")]
pub struct SettingsFlags {
    /// Take settings from this YAML file, such as `queueing: {worker_limit: 10}`; variables such as `KOPF_RS_QUEUEING_WORKER_LIMIT`
    /// override it
    #[arg(
        long,
        env = "KOPF_RS_SETTINGS",
        // Charts set a variable to the empty string for no value.
        value_parser = OsStringValueParser::new().map(PathBuf::from),
        value_name = "FILE",
        hide_env_values = true
    )]
    pub settings: Option<PathBuf>,
}

/// `--standalone` and its siblings.
#[derive(Args, Clone, Debug, Default)]
#[group(skip)]
#[command(next_help_heading = "Several operators for the same objects")]
pub struct PeeringFlags {
    /// Ignore other operators, and do not announce this one
    #[arg(long, env = "KOPF_RUN_STANDALONE", value_parser = BoolishValueParser::new(), hide_env_values = true)]
    pub standalone: bool,
    /// Join the peering of this name, and pause while it does not exist [default: the peering `default`, where it exists]
    #[arg(
        short = 'P',
        long,
        env = "KOPF_RUN_PEERING",
        value_name = "NAME",
        conflicts_with = "standalone",
        hide_env_values = true
    )]
    pub peering: Option<String>,
    /// Operators with a lower priority are paused while this one runs [default: 0]
    #[arg(
        short = 'p',
        long,
        env = "KOPF_RUN_PRIORITY",
        value_name = "NUMBER",
        allow_negative_numbers = true,
        hide_env_values = true
    )]
    pub priority: Option<i64>,
    /// Pause the deployed operators while this one runs on your machine: the same as --priority 666
    #[arg(long, env = "KOPF_RUN_DEV", value_parser = BoolishValueParser::new(), hide_env_values = true)]
    pub dev: bool,
}

impl PeeringFlags {
    /// Returns the priority from the command line.
    #[must_use]
    pub fn priority(&self) -> Option<i64> {
        self.dev.then_some(DEV).or(self.priority)
    }
}

/// `--lease`.
#[derive(Args, Clone, Debug, Default)]
#[group(skip)]
#[command(next_help_heading = "Several instances of this operator")]
pub struct LeaseFlags {
    /// Work only while this instance holds the Lease of this name, and be a standby otherwise: for a Deployment with several replicas
    /// [default: the operator's name]
    #[arg(
        long,
        env = "KOPF_RS_LEASE",
        value_name = "NAME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        hide_env_values = true
    )]
    pub lease: Option<String>,
}

/// Configures the health endpoints.
#[derive(Args, Clone, Debug, Default)]
#[group(skip)]
#[command(next_help_heading = "Health")]
pub struct HealthFlags {
    /// Answer probes at this URL, such as `http://0.0.0.0:8080/healthz`, and at /livez, /readyz, /readyz/webhooks and /statusz of the same port; with --why, ask
    /// the running operator there
    #[arg(short = 'L', long, env = "KOPF_RUN_LIVENESS_ENDPOINT", value_name = "URL", hide_env_values = true)]
    pub liveness: Option<String>,
    /// Serve metrics for Prometheus at /metrics of this address, such as `0.0.0.0:9090`; it may be the address of --liveness;
    /// `https://HOST:PORT` serves them over TLS
    #[arg(long, env = "KOPF_RS_METRICS", value_name = "HOST:PORT", hide_env_values = true)]
    pub metrics: Option<String>,
    /// Serve a web page at this port of 127.0.0.1: kinds, watches, the queue, handlers, errors, and why an object waits. In a cluster,
    /// `kubectl port-forward` reaches it [default port: 8090]
    #[arg(
        long,
        env = "KOPF_RS_WEB",
        value_name = "PORT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "8090",
        hide_env_values = true
    )]
    pub web: Option<u16>,
}

/// The argument group of everything that ends by itself and has a time limit.
const TIMED: &str = "timed";

/// The argument group of the object to explain: `--why`, and the last argument of `kopf-rs why`. Arguments that shape
/// the explanation require one of them.
pub const EXPLAINED: &str = "explained";

/// `--why`.
#[derive(Args, Clone, Debug, Default)]
#[group(skip)]
#[command(next_help_heading = "Explaining an object")]
pub struct WhyFlags {
    /// Explain the state of this object, the event that it waits for, and the filters that exclude it, and exit without calls or writes.
    /// -n is its namespace. For an operator that serves some namespaces only, write KIND/NAMESPACE/NAME: then -n selects the namespaces
    /// that the operator serves
    #[arg(long, value_name = "KIND/NAME", value_parser = object, group = EXPLAINED,
          conflicts_with_all = ["embedded", "apply", "once", "manifests", "install", "upgrade", "uninstall"])]
    pub why: Option<String>,
    /// With --why, list the handlers that a change of the object would call, such as spec.size=3; repeat for more
    #[arg(long = "if", value_name = "FIELD=VALUE", value_parser = change, requires = EXPLAINED)]
    pub changes: Vec<String>,
    /// The format of `-o`, which [`Flags::checked`] fills in.
    #[arg(skip)]
    pub format: Output,
}

/// `-o`.
#[derive(Args, Clone, Debug, Default)]
#[group(skip)]
#[command(next_help_heading = "Printing")]
pub struct OutputFlags {
    /// With --manifests, write files into this folder instead of printing; with --why, the format: text (the default) or json
    #[arg(short = 'o', long, value_name = "DIR|FORMAT")]
    pub output: Option<PathBuf>,
}

/// The format of `--why`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
}

/// `-v`, `-d`, `-q`, `--log-format` and its siblings.
#[derive(Args, Clone, Debug, Default)]
#[group(skip)]
#[command(next_help_heading = "Logging (to stderr)")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct LogFlags {
    /// Log the operator's actions in detail
    #[arg(short, long, env = "KOPF_RUN_VERBOSE", value_parser = BoolishValueParser::new(), hide_env_values = true)]
    pub verbose: bool,
    /// Also log details of libraries
    #[arg(short, long, env = "KOPF_RUN_DEBUG", value_parser = BoolishValueParser::new(), hide_env_values = true)]
    pub debug: bool,
    /// Log warnings and errors only
    #[arg(short, long, env = "KOPF_RUN_QUIET", value_parser = BoolishValueParser::new(), hide_env_values = true)]
    pub quiet: bool,
    /// The format of log lines
    #[arg(
        long,
        env = "KOPF_RUN_LOG_FORMAT",
        value_enum,
        ignore_case = true,
        default_value_t,
        hide_env_values = true
    )]
    pub log_format: LogFormat,
    /// The key of the object reference in JSON lines
    #[arg(
        long,
        env = "KOPF_RUN_LOG_REFKEY",
        value_name = "KEY",
        default_value = "object",
        hide_env_values = true
    )]
    pub log_refkey: String,
    /// Begin lines about an object with `[namespace/name]` (the default, except in JSON)
    #[arg(long, env = "KOPF_RUN_LOG_PREFIX", value_parser = BoolishValueParser::new(), overrides_with = "no_log_prefix",
          num_args = 0, default_missing_value = "true", hide_env_values = true)]
    pub log_prefix: Option<bool>,
    /// Begin no line with `[namespace/name]`
    #[arg(long, overrides_with = "log_prefix")]
    pub no_log_prefix: bool,
}

/// `--log-format`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// The message only
    Plain,
    /// Time, source, level and message
    #[default]
    Full,
    /// One JSON object per line
    Json,
}

/// The namespaces that the operator serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// No flag was given: the whole cluster.
    Unsaid,
    /// `-A`: the whole cluster.
    Cluster,
    /// `-n`: the namespaces that match one of the patterns.
    Namespaces(Vec<String>),
}

// === impl Flags ===

impl Flags {
    /// Returns the flags with the scope, after checks that clap cannot express. With `--why KIND/NAME`, `-n` is the
    /// object's namespace: `why` becomes `KIND/NAMESPACE/NAME`, and the scope comes from the environment alone.
    ///
    /// # Errors
    ///
    /// Returns a usage error (exit code 2) if flags contradict each other.
    pub fn checked(
        mut self,
        env: &dyn Fn(&str) -> Option<OsString>,
        command: &mut Command,
    ) -> Result<(Self, Scope), clap::Error> {
        if let Some(object) = &mut self.why.why
            && let [kind, name] = object.split('/').collect::<Vec<_>>()[..]
        {
            match &self.scope.namespaces[..] {
                [] => {}
                [namespace] if is_plain(namespace) => {
                    *object = format!("{kind}/{namespace}/{name}");
                }
                patterns => {
                    let message = format!(
                        "-n/--namespace is the namespace of {object}: expected one name, found {}. To say which namespaces the operator \
                         serves, name the object with its namespace: {kind}/NAMESPACE/{name}",
                        patterns.join(" and ")
                    );
                    return Err(command.error(ErrorKind::ValueValidation, message));
                }
            }
            self.scope.namespaces.clear();
        }
        let scope = self.scope.scope(env, command)?;
        self.interpret_output().map_err(|problem| command.error(ErrorKind::ValueValidation, problem))?;
        let installs = self.installing.task().is_some();
        if let Some(problem) = self.manifests.problem(installs, &self.cluster.connection, &self.health) {
            return Err(command.error(ErrorKind::MissingRequiredArgument, problem));
        }
        Ok((self, scope))
    }

    /// Stores the value of `-o` in the flags that it belongs to.
    fn interpret_output(&mut self) -> Result<(), String> {
        let Some(output) = self.output.output.take() else {
            return Ok(());
        };
        if self.manifests.manifests {
            self.manifests.folder = Some(output);
        } else if self.why.why.is_some() {
            let format = Output::from_str(&output.to_string_lossy(), true);
            let format = format.map_err(|_| {
                format!("-o/--output is {}: with --why, expected text or json", output.display())
            })?;
            self.why.format = format;
        } else {
            return Err(
                "-o/--output is the folder of --manifests, or the format of --why: expected one of these flags"
                    .to_owned(),
            );
        }
        Ok(())
    }
}

/// Returns whether this is a name rather than a pattern.
fn is_plain(namespace: &str) -> bool {
    let is_of_a_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    !namespace.is_empty() && namespace.chars().all(is_of_a_name)
}

/// Validates `KIND/NAME` or `KIND/NAMESPACE/NAME`.
fn object(text: &str) -> Result<String, String> {
    let parts: Vec<&str> = text.split('/').collect();
    let is_kind = parts[0].starts_with(|first: char| first.is_ascii_alphabetic());
    if is_kind && matches!(parts.len(), 2 | 3) && parts.iter().all(|part| !part.is_empty()) {
        return Ok(text.to_owned());
    }
    Err("expected KIND/NAME, such as widgets/mine, or KIND/NAMESPACE/NAME".to_owned())
}

/// Validates `FIELD=VALUE`.
fn change(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((field, _)) if !field.is_empty() => Ok(text.to_owned()),
        _ => Err("expected FIELD=VALUE, such as spec.size=3".to_owned()),
    }
}

// === impl ConnectionFlags ===

impl ConnectionFlags {
    /// Returns whether a flag selects the cluster.
    #[must_use]
    pub fn is_given(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some()
    }
}

// === impl ScopeFlags ===

impl ScopeFlags {
    /// Returns the scope; Kopf's two environment variables apply if `-n` is absent.
    ///
    /// # Errors
    ///
    /// Returns a usage error (exit code 2) if both the cluster and namespaces are selected.
    pub fn scope(
        &self,
        env: &dyn Fn(&str) -> Option<OsString>,
        command: &mut Command,
    ) -> Result<Scope, clap::Error> {
        let patterns =
            if self.namespaces.is_empty() { patterns_of_environment(env) } else { self.namespaces.clone() };
        match (self.all_namespaces, patterns.is_empty()) {
            (true, true) => Ok(Scope::Cluster),
            (false, true) => Ok(Scope::Unsaid),
            (false, false) => Ok(Scope::Namespaces(patterns)),
            (true, false) => Err(command.error(
                ErrorKind::ArgumentConflict,
                "-A/--all-namespaces (or KOPF_RUN_CLUSTERWIDE) serves all namespaces, -n/--namespace (or KOPF_RUN_NAMESPACES) \
                 some of them: give one of the two",
            )),
        }
    }
}

fn patterns_of_environment(env: &dyn Fn(&str) -> Option<OsString>) -> Vec<String> {
    let value = |key| env(key).and_then(|value| value.into_string().ok()).unwrap_or_default();
    let several = value("KOPF_RUN_NAMESPACES");
    let one = value("KOPF_RUN_NAMESPACE");
    let patterns = several.split_whitespace().chain([one.trim()]);
    patterns.filter(|pattern| !pattern.is_empty()).map(str::to_owned).collect()
}

/// Parses seconds, or a whole number with a unit.
fn time(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.char_indices().next_back() {
        Some((at, 's')) => (&text[..at], 1),
        Some((at, 'm')) => (&text[..at], 60),
        Some((at, 'h')) => (&text[..at], 3600),
        _ => (text, 1),
    };
    let seconds = number.parse().ok().and_then(|it: u64| it.checked_mul(unit));
    let seconds = seconds.ok_or("expected seconds, or a time such as 90s, 10m or 1h")?;
    Ok(Duration::from_secs(seconds))
}

// === impl LogFlags ===

impl LogFlags {
    /// Returns whether lines start with the object's name.
    #[must_use]
    pub fn prefixed(&self) -> bool {
        let default = self.log_format != LogFormat::Json;
        !self.no_log_prefix && self.log_prefix.unwrap_or(default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::installing::Task;
    use clap::Parser;

    #[derive(Parser)]
    struct Any {
        #[command(flatten)]
        flags: Flags,
    }

    fn parse(args: &[&str]) -> Result<Flags, clap::Error> {
        Any::try_parse_from([&["any"], args].concat()).map(|any| any.flags)
    }

    fn scope(args: &[&str], env: &[(&str, &str)]) -> Result<Scope, clap::Error> {
        let lookup = |key: &str| env.iter().find(|(name, _)| *name == key).map(|(_, value)| value.into());
        parse(args)?.scope.scope(&lookup, &mut <Any as clap::CommandFactory>::command())
    }

    #[test]
    fn namespaces_come_from_flags_else_from_the_environment() {
        let env = [("KOPF_RUN_NAMESPACES", "a b*"), ("KOPF_RUN_NAMESPACE", "old")];
        let given = |patterns: &[&str]| Scope::Namespaces(patterns.iter().map(ToString::to_string).collect());
        assert_eq!(scope(&[], &[]).unwrap(), Scope::Unsaid);
        assert_eq!(scope(&["-A"], &[]).unwrap(), Scope::Cluster);
        assert_eq!(scope(&[], &env).unwrap(), given(&["a", "b*", "old"]));
        assert_eq!(scope(&["-n", "x, y", "-n", "z"], &env).unwrap(), given(&["x, y", "z"]));
        assert_eq!(scope(&["-A"], &env).unwrap_err().kind(), ErrorKind::ArgumentConflict);
    }

    #[test]
    fn embedded_takes_an_optional_port() {
        assert_eq!(parse(&["--embedded"]).unwrap().cluster.embedded, Some(0));
        assert_eq!(parse(&["--embedded=6443"]).unwrap().cluster.embedded, Some(6443));
        assert!(parse(&["--embedded=many"]).is_err());
        assert!(parse(&["--embedded", "--context", "x"]).is_err());
        assert!(parse(&["--embedded", "--workloads"]).unwrap().cluster.workloads);
        assert!(parse(&["--workloads"]).is_err());
    }

    #[test]
    fn the_web_page_takes_an_optional_port_and_no_host() {
        let web = |args: &[&str]| parse(args).map(|flags| flags.health.web);
        assert_eq!(web(&[]).unwrap(), None);
        assert_eq!(web(&["--web"]).unwrap(), Some(8090));
        assert_eq!(web(&["--web=0"]).unwrap(), Some(0));
        for wrong in ["--web=0.0.0.0:8090", "--web=many", "--web=65536"] {
            assert!(web(&[wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_timeout_belongs_to_once() {
        let timeout = |args: &[&str]| parse(args).map(|flags| flags.cluster.timeout.as_secs());
        assert_eq!(timeout(&["--once"]).unwrap(), 600);
        for (text, seconds) in [("0", 0), ("7", 7), ("90s", 90), ("5m", 300), ("2h", 7200)] {
            assert_eq!(timeout(&["--once", "--timeout", text]).unwrap(), seconds);
        }
        for text in ["", "s", "-1", "1d", "1.5h", "99999999999999999h"] {
            assert!(timeout(&["--once", "--timeout", text]).is_err(), "{text}");
        }
        assert!(timeout(&["--timeout", "7"]).is_err());
    }

    #[test]
    fn flags_of_an_installation_need_a_task() {
        for (line, task) in [
            ("--install --dry-run --image x --timeout 5m", Task::Install),
            ("--upgrade --replicas 2 --adopt", Task::Upgrade),
            ("--upgrade --install", Task::UpgradeOrInstall),
            (
                "--uninstall --crds --delete-objects --remove-finalizers --install-namespace a",
                Task::Uninstall,
            ),
        ] {
            let args: Vec<_> = line.split(' ').collect();
            let mut command = <Any as clap::CommandFactory>::command();
            let (flags, _) = parse(&args).unwrap().checked(&|_| None, &mut command).unwrap();
            assert_eq!(flags.installing.task(), Some(task), "{line}");
        }
        for line in [
            "--dry-run",
            "--adopt",
            "--crds",
            "--install --crds",
            "--uninstall --adopt",
            "--install --uninstall",
            "--install --manifests",
            "--upgrade --once",
            "--uninstall --embedded",
            "--install --why a/b",
        ] {
            let args: Vec<_> = line.split(' ').collect();
            assert!(parse(&args).is_err(), "{line}");
        }
    }

    #[test]
    fn flags_that_shape_an_explanation_need_why() {
        for line in [
            "--if spec.size=3",
            "--why widgets/mine --if =3",
            "--why widgets/mine --if spec.size",
            "--why ./myapp",
            "--why widgets",
            "--why /a",
            "--why a/",
            "--why a/b/c/d",
            "--why widgets/mine --once",
        ] {
            let args: Vec<_> = line.split(' ').collect();
            assert!(parse(&args).is_err(), "{line}");
        }
        assert!(parse(&["--why", "widgets/mine", "--if", "spec.size=3", "-o", "json"]).is_ok());
    }

    #[test]
    fn the_output_is_a_folder_or_a_format() {
        let checked = |line: &str| {
            let args: Vec<_> = line.split(' ').collect();
            let mut command = <Any as clap::CommandFactory>::command();
            Ok::<_, clap::Error>(parse(&args)?.checked(&|_| None, &mut command)?.0)
        };
        let explained = checked("--why a/b -o json").unwrap();
        assert_eq!((explained.why.format, explained.manifests.folder), (Output::Json, None));
        let written = checked("--manifests --format helm -o json").unwrap();
        assert_eq!(written.manifests.folder, Some("json".into()));
        for (line, expected) in [
            ("-o json", "expected one of these flags"),
            ("--why a/b -o xml", "expected text or json"),
            ("--manifests --format kustomize", "expected -o DIR"),
            ("--format yaml", "expected --manifests"),
            ("--check -o a", "expected one of these flags"),
            ("--manifests --pod-monitor", "expected --metrics"),
            ("--manifests --limits memory", "expected NAME=QUANTITY"),
            ("--manifests --check", "expected -o DIR, --kubeconfig or --context"),
            ("--manifests --format helm -o a --install-namespace b", "helm install --namespace b"),
        ] {
            let refused = checked(line).unwrap_err().to_string();
            assert!(refused.contains(expected), "{line}: {refused}");
        }
    }

    #[test]
    fn the_object_to_explain_has_a_namespace_of_its_own() {
        let checked = |line: &str, env: &'static str| {
            let args: Vec<_> = line.split(' ').collect();
            let lookup = |key: &str| (key == "KOPF_RUN_NAMESPACES").then(|| env.into());
            let mut command = <Any as clap::CommandFactory>::command();
            let (flags, scope) = parse(&args)?.checked(&lookup, &mut command)?;
            Ok::<_, clap::Error>((flags.why.why.unwrap_or_default(), scope))
        };
        let served = |pattern: &str| Scope::Namespaces(vec![pattern.to_owned()]);
        for (line, env, object, scope) in [
            ("--why a/b", "", "a/b", Scope::Unsaid),
            ("--why a/b -n team", "", "a/team/b", Scope::Unsaid),
            ("--why a/b -n team", "x", "a/team/b", served("x")),
            ("--why a/team/b -n x-*", "y", "a/team/b", served("x-*")),
            ("--why a/team/b -A", "", "a/team/b", Scope::Cluster),
        ] {
            assert_eq!(checked(line, env).unwrap(), (object.to_owned(), scope), "{line}");
        }
        for line in ["--why a/b -n x -n y", "--why a/b -n x-*", "--why a/b -n x,y"] {
            let refused = checked(line, "").unwrap_err().to_string();
            assert!(refused.contains("a/NAMESPACE/b"), "{line}: {refused}");
        }
    }

    #[test]
    fn prefix_follows_the_format_unless_said() {
        let prefixed = |args: &[&str]| parse(args).unwrap().log.prefixed();
        assert!(prefixed(&[]));
        assert!(!prefixed(&["--log-format", "JSON"]));
        assert!(prefixed(&["--log-format", "json", "--log-prefix"]));
        assert!(!prefixed(&["--no-log-prefix"]));
    }
}
