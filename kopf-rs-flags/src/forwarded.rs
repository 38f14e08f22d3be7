//! Turns parsed flags into a command line again, for the program that gets them.
//!
//! The list of flags comes from their declarations, so that a new flag is passed on by itself. This module must not know the effect of a
//! flag.

use std::collections::BTreeSet;
use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command};

use crate::installing::InstallingFlags;
use crate::manifests::ManifestsFlags;
use crate::{ClusterFlags, Flags, OutputFlags, ScopeFlags, SettingsFlags, WhyFlags};

/// The program that gets the flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// An operator that this process becomes. It reads environment variables itself.
    Process,
    /// An operator in a Pod. It does not have the environment of this process, and it has its own connection, settings file and probes. Its
    /// scope is a [`Scope`](crate::Scope), which depends on several flags and variables.
    Pod,
}

/// Returns the given flags that the operator needs, each as one token.
#[must_use]
pub fn forwarded(matches: &ArgMatches, to: Receiver) -> Vec<OsString> {
    let flags = Flags::augment_args(Command::new("operator").disable_help_flag(true));
    let withheld = withheld(to);
    tokens(flags, matches, |id, source| {
        let is_read_there = source == ValueSource::EnvVariable && to == Receiver::Process;
        !is_read_there && !withheld.contains(id)
    })
}

/// Returns the arguments of the command among those that were typed, each as one token. Values of environment variables are not among them.
#[must_use]
pub fn typed(command: Command, matches: &ArgMatches) -> Vec<OsString> {
    tokens(command, matches, |_, source| source == ValueSource::CommandLine)
}

/// Returns the arguments of the command that have a value from the command line or from an environment variable, and that the function selects
/// by their id and by the source of the value.
fn tokens(
    mut command: Command,
    matches: &ArgMatches,
    is_wanted: impl Fn(&str, ValueSource) -> bool,
) -> Vec<OsString> {
    // Decides which arguments take values.
    command.build();
    let mut tokens = Vec::new();
    for arg in command.get_arguments() {
        let id = arg.get_id().as_str();
        let source = matches.value_source(id).filter(|it| *it != ValueSource::DefaultValue);
        if !source.is_some_and(|source| is_wanted(id, source)) {
            continue;
        }
        let (name, mark) = match (arg.get_long(), arg.get_short()) {
            (Some(long), _) => (format!("--{long}"), "="),
            (None, Some(short)) => (format!("-{short}"), ""),
            (None, None) => (String::new(), ""),
        };
        let values = arg.get_num_args().unwrap_or_default();
        if !values.takes_values() {
            // A variable may contain `false`; a flag that counts is repeated.
            let times = match matches.try_get_one::<bool>(id) {
                Ok(is_on) => usize::from(is_on == Some(&true)),
                Err(_) => matches.get_count(id).into(),
            };
            tokens.extend(std::iter::repeat_n(OsString::from(&name), times));
            continue;
        }
        for value in matches.get_raw(id).into_iter().flatten() {
            let mut token = OsString::from(&name);
            if !value.is_empty() || values.min_values() > 0 {
                token.push(mark);
                token.push(value);
            }
            tokens.push(token);
        }
    }
    tokens
}

/// Returns the ids of flags that this program does not get.
fn withheld(from: Receiver) -> BTreeSet<String> {
    match from {
        Receiver::Process => BTreeSet::new(),
        Receiver::Pod => {
            let groups = [
                ids::<ScopeFlags>(),
                ids::<ClusterFlags>(),
                ids::<SettingsFlags>(),
                ids::<ManifestsFlags>(),
                ids::<InstallingFlags>(),
                ids::<WhyFlags>(),
                ids::<OutputFlags>(),
            ];
            groups.into_iter().flatten().chain(["liveness".to_owned()]).collect()
        }
    }
}

fn ids<A: Args>() -> Vec<String> {
    let command = A::augment_args(Command::new("group"));
    command.get_arguments().map(|arg| arg.get_id().to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn for_a_pod(line: &str) -> String {
        let command = Flags::augment_args(Command::new("operator"));
        let matches = command.try_get_matches_from(format!("operator {line}").split(' '));
        let args = forwarded(&matches.expect("a line that clap takes"), Receiver::Pod);
        args.join(" ".as_ref()).into_string().expect("text")
    }

    #[test]
    fn a_pod_gets_what_does_not_concern_this_machine() {
        for (line, expected) in [
            ("--manifests --image a -o b --format helm -n team --kubeconfig c --apply d", ""),
            (
                "--manifests --settings a --liveness http://a:1/b --metrics 0.0.0.0:9090",
                "--metrics=0.0.0.0:9090",
            ),
            ("--lease --manifests", "--lease"),
            ("--lease=a -p -3 --name b -v", "--name=b --priority=-3 --lease=a --verbose"),
            (
                "--kopf-compatible --log-format json --no-log-prefix",
                "--kopf-compatible --log-format=json --no-log-prefix",
            ),
        ] {
            assert_eq!(for_a_pod(line), expected, "{line}");
        }
    }

    #[test]
    fn each_withheld_flag_exists() {
        let all: BTreeSet<String> = ids::<Flags>().into_iter().collect();
        assert!(withheld(Receiver::Pod).is_subset(&all));
    }
}
