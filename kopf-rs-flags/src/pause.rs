//! The flags of `kopf-rs freeze` and `kopf-rs resume`: Kopf's commands of these names.

use std::time::Duration;

use clap::{Args, Subcommand};

use crate::{ConnectionFlags, LogFlags, time};

const EXAMPLES: &str = "\
Examples:
  kopf-rs freeze -P default -t 10m -n team -m 'the database moves'
                                                operators for the namespace team pause for ten minutes
  kopf-rs resume -P default -n team             or until this is said, by the same user on the same machine

Operators of Kopf are asked as well. The operators must take part in a peering of this name: see their flag --peering.

Exit codes: 0 they are asked; 1 there is no such peering, or it cannot be written; 2 flags are wrong.";

/// The priority of `--dev`, as in Kopf.
pub(crate) const DEV: i64 = 666;

/// The request to running operators.
#[derive(Clone, Debug, Subcommand)]
pub enum Pause {
    /// Ask running operators to pause, as Kopf's command does
    #[command(after_help = EXAMPLES)]
    Freeze(Freeze),
    /// End a pause that `kopf-rs freeze` has requested
    #[command(after_help = EXAMPLES)]
    Resume(Resume),
}

/// `freeze`
#[derive(Args, Clone, Debug)]
pub struct Freeze {
    /// The operators to ask, and the sender.
    #[command(flatten)]
    pub who: Who,
    /// The peering of the operators
    #[arg(short = 'P', long, env = "KOPF_FREEZE_PEERING", value_name = "NAME", hide_env_values = true)]
    pub peering: String,
    /// Operators up to this priority pause
    #[arg(short = 'p', long, value_name = "NUMBER", default_value_t = 100, allow_negative_numbers = true)]
    pub priority: i64,
    /// The same as --priority 666: above operators that run with --dev
    #[arg(long, conflicts_with = "priority")]
    pub dev: bool,
    /// The longest pause, such as 90s, 10m or 1h; without a unit, in seconds
    #[arg(short = 't', long, value_name = "TIME", value_parser = time)]
    pub lifetime: Duration,
    /// The reason, which the logs of the operators show
    #[arg(short = 'm', long, value_name = "TEXT")]
    pub message: Option<String>,
}

/// `resume`
#[derive(Args, Clone, Debug)]
pub struct Resume {
    /// The operators to ask, and the sender.
    #[command(flatten)]
    pub who: Who,
    /// The peering of the operators
    #[arg(short = 'P', long, env = "KOPF_RESUME_PEERING", value_name = "NAME", hide_env_values = true)]
    pub peering: String,
}

/// The flags of both commands.
#[derive(Args, Clone, Debug)]
pub struct Who {
    /// Ask the operators that serve the whole cluster (the default)
    #[arg(short = 'A', long, conflicts_with = "namespaces")]
    pub all_namespaces: bool,
    /// Ask the operators that serve the namespaces which match the pattern, such as `team-*,!team-test`; repeat for more
    #[arg(short = 'n', long = "namespace", value_name = "PATTERN")]
    pub namespaces: Vec<String>,
    /// The requester: `resume` ends only pauses that `freeze` has requested under the same name (default: `$POD_ID`, else user@host)
    #[arg(short = 'i', long, value_name = "NAME")]
    pub id: Option<String>,
    /// Selects the connection.
    #[command(flatten)]
    pub connection: ConnectionFlags,
    /// Selects the verbosity of the log, and the format of its lines.
    #[command(flatten)]
    pub log: LogFlags,
}

// === impl Freeze ===

impl Freeze {
    /// Returns the priority from the command line.
    #[must_use]
    pub fn priority(&self) -> i64 {
        if self.dev { DEV } else { self.priority }
    }
}

// === impl Pause ===

impl Pause {
    /// Returns the operators to ask, and the sender.
    #[must_use]
    pub fn who(&self) -> &Who {
        match self {
            Self::Freeze(it) => &it.who,
            Self::Resume(it) => &it.who,
        }
    }

    /// Returns the name of the peering.
    #[must_use]
    pub fn peering(&self) -> &str {
        match self {
            Self::Freeze(it) => &it.peering,
            Self::Resume(it) => &it.peering,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::task::{Task, TaskCommand};

    fn parse(line: &str) -> Result<Pause, clap::Error> {
        let typed = std::iter::once("kopf-rs").chain(line.split(' '));
        match TaskCommand::try_parse_from(typed)?.task {
            Task::Pause(pause) => Ok(pause),
            other @ Task::Webhooks(_) => panic!("{other:?}"),
        }
    }

    fn freeze(line: &str) -> Freeze {
        match parse(line) {
            Ok(Pause::Freeze(freeze)) => freeze,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn kopfs_options_are_taken() {
        let given = freeze("freeze -n a -n b -i me -P default -p 7 -t 60 -m why -v");
        assert_eq!(given.who.namespaces, ["a", "b"]);
        assert_eq!(given.who.id.as_deref(), Some("me"));
        assert_eq!((given.priority(), given.lifetime.as_secs()), (7, 60));
        assert_eq!(given.message.as_deref(), Some("why"));
        let defaults = freeze("freeze -A --peering=default --lifetime=5m");
        assert_eq!((defaults.priority(), defaults.lifetime.as_secs()), (100, 300));
        assert_eq!(freeze("freeze -P x -t 1 --dev").priority(), 666);
        assert!(parse("resume -P x --id me -n a").is_ok());
    }

    #[test]
    fn missing_and_contradictory_flags_are_refused() {
        for line in [
            "freeze -P x",
            "freeze -t 6",
            "freeze -P x -t soon",
            "freeze -P x -t 6 --dev -p 7",
            "freeze -P x -t 6 -A -n a",
            "resume",
            "resume -P x -t 6",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
