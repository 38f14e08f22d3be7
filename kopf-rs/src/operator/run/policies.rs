//! The validation rules of an operator: who writes their policies.

use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::cluster::Cluster;
use crate::operator::admission::managed::Found;
use crate::operator::admission::policies::{PolicyKeeper, PolicySetup};
use crate::operator::run::CheckedOperator;
use crate::operator::settings::Settings;
use crate::state::naming;

impl CheckedOperator {
    /// Keep the policies of validation rules, if there are any. Dropping it ends that.
    pub(super) fn keep_policies(
        &self,
        settings: &Settings,
        cluster: &Cluster,
        found: watch::Receiver<Option<Found>>,
    ) -> Option<AbortOnDropHandle<()>> {
        if self.rules.is_empty() {
            return None;
        }
        let networking = &settings.networking;
        let keeper = PolicyKeeper::new(PolicySetup {
            cluster: cluster.clone(),
            rules: self.rules.iter().map(Arc::clone).collect(),
            domain: naming::prefix(&self.name),
            backoff: (networking.first_backoff, networking.longest_backoff),
            found,
        });
        Some(AbortOnDropHandle::new(tokio::spawn(keeper.run())))
    }
}
