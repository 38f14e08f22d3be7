//! Detects reconcilers whose calls repeatedly change the state that triggers them: reports the field, and delays the calls increasingly.
//!
//! Must not know how changes are written.

use std::time::Duration;

use serde_json::Value;

use crate::handler::definition::HandlerCall;
use crate::happening::handling::Handling;
use crate::object::body::Body;
use crate::object::diff::Diff;
use crate::object::patch::{Patch, apply};
use crate::object::path::FieldPath;
use crate::reaction::background::{BackgroundMemory, BackgroundRun, is_reconcile, is_same};
use crate::state::Persistence;

/// The number of consecutive calls of this kind without a delay, as for other handlers (row 30 of `docs/coming-from-kopf.md`).
const FREE: u8 = 20;
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

impl BackgroundMemory {
    /// Examines the changes that a call has requested, before it is evaluated. Counts calls of a reconciler whose changes trigger it again.
    pub(crate) fn wanted(
        &mut self,
        call: &HandlerCall,
        patch: &Patch,
        persistence: &Persistence,
        told: &mut Vec<Handling>,
    ) {
        if !is_reconcile(&call.handler) {
            return;
        }
        let own = self.own_change(call.body(), patch, persistence);
        let mut runs = self.runs.iter_mut();
        let run = runs.find(|run| is_same(&run.handler, &call.handler));
        let Some(attempts) = run.and_then(|run| run.attempts.as_mut()) else {
            return;
        };
        let Some((field, essence)) = own else {
            attempts.own_changes = 0;
            return;
        };
        attempts.own_essence = essence;
        attempts.own_changes = attempts.own_changes.saturating_add(1);
        if attempts.own_changes == FREE {
            told.push(Handling::ChangesItself { handler: call.handler.clone(), times: FREE, field });
        }
    }

    /// Returns the first field in which the patch changes the triggering state, and the fingerprint of the requested essence.
    fn own_change(&self, body: &Body, patch: &Patch, persistence: &Persistence) -> Option<(FieldPath, u64)> {
        let fields = || self.runs.iter().filter_map(|run| run.handler.field());
        let is_status = |field: &FieldPath| field.parts().first().is_some_and(|it| it == "status");
        let is_of_status = patch.functions().is_empty()
            && patch.as_value().as_object().is_none_or(|it| it.keys().all(|key| key == "status"));
        if is_of_status && !fields().any(is_status) {
            return None;
        }
        let mut wanted = Value::clone(body);
        apply(&mut wanted, patch.as_value());
        for function in patch.functions() {
            function.to(&mut wanted);
        }
        let before = persistence.essence_of(body, fields());
        let after = persistence.essence_of(&Body::new(wanted), fields());
        let diff = Diff::between(Some(before.value()), Some(after.value()));
        let first = diff.iter().next()?;
        Some((first.field.clone(), after.fingerprint()))
    }
}

impl BackgroundRun {
    /// Returns the number of consecutive calls that have changed their triggering state.
    pub(super) fn own_changes(&self) -> u8 {
        self.attempts.as_ref().map_or(0, |it| it.own_changes)
    }

    /// Returns the delay before a call that its own change has triggered.
    pub(super) fn own_pause(&self) -> Duration {
        let Some(over) = self.own_changes().checked_sub(FREE) else {
            return Duration::ZERO;
        };
        (FIRST_PAUSE * 2_u32.pow(u32::from(over).min(7))).min(LONGEST_PAUSE)
    }
}
