//! Tracks the role of this instance if the instances of an operator share a Lease.
//!
//! Guarantees that two successive terms are distinguished, however close they are. Must not know how leaders are elected.

use tokio::sync::watch;

use crate::engine::Engine;
use crate::operator::leasing::{Role, changed};

/// The role as far as it is known.
pub(super) struct Leading {
    roles: Option<watch::Receiver<Role>>,
    /// `None` without a Lease, where no other instance can lead.
    role: Option<Role>,
}

impl Leading {
    /// Starts in standby if there are several instances.
    pub(super) fn new(roles: Option<watch::Receiver<Role>>, engine: &Engine) -> Self {
        let role = roles.as_ref().map(|_| Role::StandsBy);
        if role.is_some() {
            engine.stand_by();
        }
        // A role that was published before counts as a change, too.
        let roles = roles.map(|mut roles| {
            roles.mark_changed();
            roles
        });
        Self { roles, role }
    }

    /// Waits until the role may have changed, and returns it. Cancel-safe.
    pub(super) async fn changed(&mut self) -> Role {
        changed(&mut self.roles).await
    }

    pub(super) fn leads(&self) -> bool {
        self.role != Some(Role::StandsBy)
    }

    /// Sets the role. Returns whether it is new.
    pub(super) fn set(&mut self, role: Role) -> bool {
        self.role.replace(role) != Some(role)
    }
}
