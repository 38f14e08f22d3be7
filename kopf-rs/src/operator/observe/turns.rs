//! What the observer does when another instance is at work from now on, or this one.

use crate::operator::leasing::Role;
use crate::operator::observe::Observer;

impl Observer {
    /// Whether handlers may be called.
    pub(super) fn is_at_work(&self) -> bool {
        self.leading.leads() && !self.is_paused
    }

    pub(super) fn on_role(&mut self, role: Role) {
        if !self.leading.set(role) {
            return;
        }
        // Another term, too: others may have been at work in between.
        self.setup.engine.stand_by();
        self.reconcile();
        if self.leading.leads() {
            self.setup.engine.take_over();
        }
    }
}
