//! What an operator says of itself to other operators for the same objects.

use crate::operator::identity::identity;
use crate::operator::run::CheckedOperator;
use crate::operator::settings::Settings;
use crate::reaction::peering::OwnPeer;

impl CheckedOperator {
    /// What it says of itself to other operators.
    pub(super) fn peer(&self, settings: &Settings) -> Option<OwnPeer> {
        let peering = &settings.peering;
        let started = self.clock.now();
        (!peering.standalone).then(|| OwnPeer {
            identity: identity(started, &self.rng),
            priority: peering.priority,
            lifetime: peering.lifetime,
            started,
            is_sharded: !settings.watching.shard_selectors.is_empty(),
        })
    }
}
