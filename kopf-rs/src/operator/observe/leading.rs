//! Whether this instance is at work, where the instances of an operator share a Lease.
//!
//! Promises that a term which ends and another one which begins are told apart, however fast they follow each other. Must not know how an
//! instance comes to its role.

use tokio::sync::watch;

use crate::engine::Engine;
use crate::operator::leasing::{Role, changed};

/// What is known of the own role.
pub(super) struct Leading {
    told: Option<watch::Receiver<Role>>,
    /// `None`: nobody else can be at work.
    role: Option<Role>,
}

impl Leading {
    /// Where there are several instances, this one stands by at first.
    pub(super) fn new(told: Option<watch::Receiver<Role>>, engine: &Engine) -> Self {
        let role = told.as_ref().map(|_| Role::StandsBy);
        if role.is_some() {
            engine.stand_by();
        }
        // What has been told by now is news as well.
        let told = told.map(|mut told| {
            told.mark_changed();
            told
        });
        Self { told, role }
    }

    /// Wait until the role may be another one. Cancel-safe.
    pub(super) async fn changed(&mut self) -> Role {
        changed(&mut self.told).await
    }

    pub(super) fn leads(&self) -> bool {
        self.role != Some(Role::StandsBy)
    }

    /// The role is this one from now on; whether that is news.
    pub(super) fn set(&mut self, role: Role) -> bool {
        self.role.replace(role) != Some(role)
    }
}
