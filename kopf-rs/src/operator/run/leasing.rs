//! Sets up the Lease of an operator, and the fence before all writes.

use std::time::Duration;

use tokio::sync::watch;

use crate::cluster::fence::Fence;
use crate::cluster::watch::WatchPace;
use crate::cluster::{Cluster, ClusterSettings};
use crate::operator::leasing::{LeaseSetup, LeaseTask, Role};
use crate::operator::run::CheckedOperator;
use crate::operator::settings::{Settings, named_host};
use crate::reaction::election::Candidate;
use crate::rt::rng::Rng;

/// The random delay that keeps waiting instances from asking at the same moment.
const SPREAD: Duration = Duration::from_millis(100);

impl CheckedOperator {
    /// Takes part in the election, if it is enabled. Returns the connection for writes that only the leader may make, and the role of this
    /// instance.
    pub(super) fn elect(
        &self,
        settings: &Settings,
        cluster: &Cluster,
        task: &mut Option<LeaseTask>,
    ) -> (Cluster, Option<watch::Receiver<Role>>) {
        if !settings.lease.enabled {
            return (cluster.clone(), None);
        }
        let meter = self.endpoints.meter.clone();
        let fence = Fence::closed(self.clock, meter.clone());
        let started = LeaseTask::start(LeaseSetup {
            cluster: self.cluster_of_lease(settings),
            fence: fence.clone(),
            candidate: self.candidate(settings, cluster),
            pace: WatchPace {
                backoff: (settings.lease.retry_period, settings.lease.retry_period),
                ..WatchPace::default()
            },
            board: self.board.clone(),
            meter,
        });
        let role = started.role.clone();
        *task = Some(started);
        (cluster.fenced(Some(fence)), Some(role))
    }

    /// Returns the connection for renewals, which do not queue behind other requests and have a short timeout.
    fn cluster_of_lease(&self, settings: &Settings) -> Cluster {
        let settings = ClusterSettings {
            operator: self.name.clone(),
            request_timeout: settings.lease.renew_deadline / 2,
            rng: self.rng.clone(),
            meter: self.endpoints.meter.clone(),
            ..ClusterSettings::default()
        };
        Cluster::with_settings(self.client.clone(), &settings)
    }

    /// Returns the namespace and the name of the Lease.
    pub(super) fn lease(&self, settings: &Settings, cluster: &Cluster) -> (String, String) {
        let lease = &settings.lease;
        let name = lease.name.clone().unwrap_or_else(|| self.name.clone());
        let own = || cluster.own_namespace().map(str::to_owned);
        let namespace = lease.namespace.clone().or_else(own);
        let default = || self.client.default_namespace().to_owned();
        (namespace.unwrap_or_else(default), name)
    }

    fn candidate(&self, settings: &Settings, cluster: &Cluster) -> Candidate {
        let (namespace, name) = self.lease(settings, cluster);
        // Unseeded, because instances with the same seed must still have different identities.
        let rng = Rng::new();
        Candidate {
            identity: identity(&rng),
            operator: self.name.clone(),
            name,
            namespace,
            times: settings.lease.times(),
            delay: rng.jitter(SPREAD),
        }
    }
}

/// Returns the name of the Pod or of the host, with a unique suffix.
fn identity(rng: &Rng) -> String {
    let tail: String = (0..10).map(|_| crate::operator::identity::character(rng)).collect();
    format!("{}_{tail}", named_host("operator"))
}
