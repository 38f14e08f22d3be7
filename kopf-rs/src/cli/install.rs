//! `--install`, `--upgrade` and `--uninstall`: applies or removes everything that an operator needs, shows the progress, and exits.
//!
//! Every step is idempotent: the same command continues after an interruption. This module does not know which objects an operator needs.

mod applying;
mod comparing;
mod removing;
mod site;
mod starting;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::io::Write as _;
use std::process::ExitCode;

use kopf_rs_flags::installing::Task;

use crate::cli::connecting::{checked_connection, complete, options};
use crate::cli::install::site::Site;
use crate::cli::printing::Printing;

/// Does what the flags ask for.
pub(super) fn run(printing: &Printing<'_>, task: Task) -> Result<ExitCode, Box<dyn Error>> {
    let flags = printing.flags;
    let operator = (printing.operator)(printing.scope)?;
    let name = operator.check()?;
    let objects = match task {
        Task::Uninstall => Vec::new(),
        Task::Install | Task::Upgrade | Task::UpgradeOrInstall => printing.objects()?,
    };
    complete(async {
        let client = checked_connection(&options(&flags.cluster.connection)).await?.client;
        let site = Site::new(client.clone(), &say, flags.cluster.timeout).await?;
        if task == Task::Uninstall {
            let footprint = operator.footprint(client).await?;
            let namespace = flags.manifests.install_namespace.as_deref();
            return removing::remove(&site, &footprint, flags.installing, namespace).await;
        }
        applying::apply(&site, &name, flags.installing, objects).await
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a line of progress. A reader that has gone away must not interrupt the task.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
