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
    let mut flags = Flags::augment_args(Command::new("operator").disable_help_flag(true));
    flags.build();
    let withheld = withheld(to);
    let mut forwarded = Vec::new();
    for arg in flags.get_arguments() {
        let (id, Some(long)) = (arg.get_id().as_str(), arg.get_long()) else {
            continue;
        };
        let is_given = match matches.value_source(id) {
            Some(ValueSource::CommandLine) => true,
            Some(ValueSource::EnvVariable) => to == Receiver::Pod,
            _ => false,
        };
        if !is_given || withheld.contains(id) {
            continue;
        }
        let values = arg.get_num_args().unwrap_or_default();
        if !values.takes_values() {
            // A variable may contain `false`.
            let is_on = matches.get_one::<bool>(id) == Some(&true);
            forwarded.extend(is_on.then(|| format!("--{long}").into()));
            continue;
        }
        for value in matches.get_raw(id).into_iter().flatten() {
            let mut token = OsString::from(format!("--{long}"));
            if !value.is_empty() || values.min_values() > 0 {
                token.push("=");
                token.push(value);
            }
            forwarded.push(token);
        }
    }
    forwarded
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
