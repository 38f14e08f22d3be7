//! Starts to post the Kubernetes Events of an operator's handlers.

use crate::cluster::Cluster;
use crate::engine::posting::PosterSetup;
use crate::operator::run::CheckedOperator;
use crate::operator::settings::Settings;

impl CheckedOperator {
    /// Accepts Events of handlers from now on.
    pub(super) fn post_events(&self, settings: &Settings, cluster: &Cluster) {
        let posting = &settings.posting;
        if let Some(gates) = posting.gates() {
            let setup = PosterSetup {
                cluster: cluster.clone(),
                reporter: posting.reporter(&self.name),
                prefix: posting.event_name_prefix.clone(),
                backoff: settings.networking.backoff(),
            };
            self.posting.start(gates, setup);
        }
    }
}
