//! The operator's record for other operators of the same objects.

use jiff::Timestamp;

use crate::operator::identity::identity;
use crate::operator::run::CheckedOperator;
use crate::operator::settings::Settings;
use crate::reaction::peering::OwnPeer;

impl CheckedOperator {
    /// Returns the identity. Instances that share a Lease are one operator to others, whichever instance leads.
    fn identity_of_peer(&self, settings: &Settings, started: Timestamp) -> String {
        if !settings.lease.enabled {
            return identity(started, &self.rng);
        }
        let name = settings.lease.name.as_ref().unwrap_or(&self.name);
        format!("instances of {name}")
    }

    /// Returns the operator's record; `None` for a standalone operator.
    pub(super) fn peer(&self, settings: &Settings) -> Option<OwnPeer> {
        let peering = &settings.peering;
        let started = self.clock.now();
        (!peering.standalone).then(|| OwnPeer {
            identity: self.identity_of_peer(settings, started),
            priority: peering.priority,
            lifetime: peering.lifetime,
            started,
            is_sharded: !settings.watching.shard_selectors.is_empty(),
            is_shared: settings.lease.enabled,
        })
    }
}
