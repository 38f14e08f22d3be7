//! The flags of `kopf-rs webhooks`.

use clap::{Args, Subcommand};

use crate::{ConnectionFlags, LogFlags};

pub(crate) const EXAMPLES: &str = "\
Examples:
  kopf-rs webhooks clean --name my-operator --dry-run
                                                what the operator has left in the cluster of kubectl
  kopf-rs webhooks clean --name my-operator     remove it, once the operator does not run any more

Exit codes: 0 it is removed, or there is nothing; 1 something cannot be looked for or removed; 2 flags are wrong.";

/// `webhooks`
#[derive(Args, Clone, Debug)]
pub struct Webhooks {
    /// The task to run.
    #[command(subcommand)]
    pub task: WebhooksTask,
}

/// The commands for webhooks.
#[derive(Clone, Debug, Subcommand)]
pub enum WebhooksTask {
    /// Remove what an operator leaves in the cluster for the API server: webhook configurations, policies, and conversions
    Clean(Clean),
}

/// `clean`
#[derive(Args, Clone, Debug)]
pub struct Clean {
    /// The name of the uninstalled operator, as for its own flag --name
    #[arg(long, env = "KOPF_RS_NAME", value_name = "NAME", hide_env_values = true)]
    pub name: String,
    /// Only print the objects that would be removed
    #[arg(long)]
    pub dry_run: bool,
    /// Selects the connection.
    #[command(flatten)]
    pub connection: ConnectionFlags,
    /// Selects the verbosity of the log, and the format of its lines.
    #[command(flatten)]
    pub log: LogFlags,
}

impl Webhooks {
    /// Returns the only task.
    #[must_use]
    pub fn clean(&self) -> &Clean {
        let WebhooksTask::Clean(clean) = &self.task;
        clean
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use crate::task::{Task, TaskCommand};

    #[test]
    fn the_operator_must_be_named() {
        let parse = |line: &str| {
            let typed = std::iter::once("kopf-rs").chain(line.split(' '));
            TaskCommand::try_parse_from(typed).map(|it| it.task)
        };
        let Ok(Task::Webhooks(webhooks)) = parse("webhooks clean --name op --dry-run --context c") else {
            panic!("it is a command");
        };
        let clean = webhooks.clean();
        assert_eq!((clean.name.as_str(), clean.dry_run), ("op", true));
        for line in ["webhooks", "webhooks clean --dry-run", "webhooks clean op", "webhooks wipe --name op"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
