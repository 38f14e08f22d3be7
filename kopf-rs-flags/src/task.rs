//! Tasks on a cluster that need no handlers: `kopf-rs freeze`, `kopf-rs resume` and `kopf-rs webhooks`. Programs of operators have the same
//! commands.

use clap::{Parser, Subcommand};

use crate::LogFlags;
use crate::pause::Pause;
use crate::webhooks::{self, Webhooks};

/// One of these commands, with its flags.
#[derive(Clone, Debug, Parser)]
#[command(name = "kopf-rs", version)]
pub struct TaskCommand {
    /// The task to run.
    #[command(subcommand)]
    pub task: Task,
}

/// The command.
#[derive(Clone, Debug, Subcommand)]
pub enum Task {
    /// Sends a request to running operators.
    #[command(flatten)]
    Pause(Pause),
    /// Remove what an uninstalled operator has left in the API server: `kopf-rs webhooks clean`
    #[command(after_help = webhooks::EXAMPLES)]
    Webhooks(Webhooks),
}

impl Task {
    /// Returns the verbosity and the format of the log.
    #[must_use]
    pub fn logging(&self) -> &LogFlags {
        match self {
            Self::Pause(pause) => &pause.who().log,
            Self::Webhooks(webhooks) => &webhooks.clean().log,
        }
    }
}
