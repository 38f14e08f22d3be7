//! `--install`, `--upgrade` and `--uninstall`: the flags that install an operator in a cluster, and remove it.
//!
//! This module must not know which objects an operator needs.

use clap::Args;

/// The argument group of the tasks. Flags that shape them require one of them.
pub(crate) const INSTALLS: &str = "installs";

/// The ids of the tasks.
pub(crate) const TASKS: [&str; 3] = ["install", "upgrade", "uninstall"];

/// `--install` and its siblings.
#[derive(Args, Clone, Copy, Debug, Default)]
#[group(skip)]
#[command(next_help_heading = "Installing the operator")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct InstallingFlags {
    /// Apply everything that --manifests prints to the cluster, wait until the operator runs there, and exit. Checks your permissions first.
    /// Repeat it after an interruption
    #[arg(long, conflicts_with_all = ["embedded", "once", "manifests", "uninstall"])]
    pub install: bool,
    /// Upgrade an installed operator in the same way; also remove objects that this version does not contain any more, except for definitions
    /// and namespaces. With --install, also install it where it is missing
    #[arg(long, conflicts_with_all = ["embedded", "once", "manifests", "uninstall"])]
    pub upgrade: bool,
    /// Remove the operator from the cluster, and exit: webhook configurations first, then the Deployment, roles and the account. Lets deletions
    /// that have begun finish. Definitions and objects stay. Repeat it after an interruption
    #[arg(long, conflicts_with_all = ["embedded", "once", "manifests"])]
    pub uninstall: bool,
    /// With --install or --upgrade, print the differences and change nothing; with --uninstall, print what would be removed
    #[arg(long, requires = INSTALLS)]
    pub dry_run: bool,
    /// With --install or --upgrade, take over objects that exist and belong to no installation, such as those of `kubectl apply`
    #[arg(long, requires = INSTALLS, conflicts_with = "uninstall")]
    pub adopt: bool,
    /// With --uninstall, delete all objects of the operator's definitions, while it still runs
    #[arg(long, requires = "uninstall", conflicts_with_all = ["install", "upgrade"])]
    pub delete_objects: bool,
    /// With --uninstall, remove the operator's finalizer from all objects, so that they can be deleted without it
    #[arg(long, requires = "uninstall", conflicts_with_all = ["install", "upgrade"])]
    pub remove_finalizers: bool,
    /// With --uninstall, delete the operator's definitions at the end; refused while there are objects, unless --delete-objects is given
    #[arg(long, requires = "uninstall", conflicts_with_all = ["install", "upgrade"])]
    pub crds: bool,
}

/// The task of an installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// `--install`
    Install,
    /// `--upgrade`
    Upgrade,
    /// `--upgrade --install`
    UpgradeOrInstall,
    /// `--uninstall`
    Uninstall,
}

impl InstallingFlags {
    /// Returns the task, if there is one.
    #[must_use]
    pub fn task(&self) -> Option<Task> {
        match (self.install, self.upgrade, self.uninstall) {
            (_, _, true) => Some(Task::Uninstall),
            (true, true, _) => Some(Task::UpgradeOrInstall),
            (_, true, _) => Some(Task::Upgrade),
            (true, _, _) => Some(Task::Install),
            (false, false, false) => None,
        }
    }
}
