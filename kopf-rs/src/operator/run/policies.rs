//! Keeps the policies for an operator's validation rules.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::watch;

use crate::cluster::Cluster;
use crate::operator::admission::driver::Drivers;
use crate::operator::admission::managed::Found;
use crate::operator::admission::policies::{PolicyKeeper, PolicySetup};
use crate::operator::run::CheckedOperator;
use crate::operator::settings::{Settings, host_name};
use crate::state::naming;

/// The number of operators in this process so far that keep policies.
static KEEPERS: AtomicU32 = AtomicU32::new(0);

/// Identifies this process among all others. In a Pod, the identity survives restarts of the container.
fn instance() -> String {
    let host = host_name().filter(|it| !it.is_empty());
    let host = host.as_deref().unwrap_or("operator");
    let number = KEEPERS.fetch_add(1, Ordering::Relaxed);
    format!("{host}:{}-{number}", std::process::id())
}

impl CheckedOperator {
    /// Keeps the policies of validation rules, and removes those of rules that no longer exist.
    pub(super) fn keep_policies(
        &self,
        settings: &Settings,
        cluster: &Cluster,
        found: watch::Receiver<Option<Found>>,
    ) -> Drivers {
        let networking = &settings.networking;
        PolicyKeeper::start(PolicySetup {
            cluster: cluster.clone(),
            rules: self.rules.iter().map(Arc::clone).collect(),
            domain: naming::prefix(&self.name),
            backoff: (networking.first_backoff, networking.longest_backoff),
            found,
            instance: instance(),
            clock: self.clock,
            board: self.board.clone(),
        })
    }
}
