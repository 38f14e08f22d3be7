//! The observer's reaction to a change of the leader.

use crate::operator::leasing::Role;
use crate::operator::observe::Observer;

impl Observer {
    /// Returns whether handlers may be called.
    pub(super) fn is_at_work(&self) -> bool {
        self.leading.leads() && !self.is_paused
    }

    pub(super) fn on_role(&mut self, role: Role) {
        if !self.leading.set(role) {
            return;
        }
        // For a new term, too: other instances may have led in between.
        self.setup.engine.stand_by();
        self.reconcile();
        if self.leading.leads() {
            self.setup.engine.take_over();
        }
    }
}
