//! The fast path: most states that come in ask for nothing, and that can be told from their text, without a tree.
//!
//! Own writes come back as replies and as watch lines, a start lists what was handled before, and others write statuses. Promises that
//! [`FastPath::is_already_handled`] never holds where `plan` would find something to do or to remember; that it fails to hold means nothing.

use std::sync::Arc;

use crate::handler::definition::Handler;
use crate::object::outline::Outline;
use crate::object::path::FieldPath;
use crate::object::raw::Raw;
use crate::object::resource::Resource;
use crate::reaction::memory::ObjectMemory;
use crate::state::Persistence;

/// The facts beside a state that decide what it means.
pub(crate) struct FastPath<'a> {
    pub(crate) handlers: &'a [Arc<Handler>],
    pub(crate) persistence: &'a Persistence,
    pub(crate) resource: &'a Resource,
    pub(crate) seen: &'a ObjectMemory,
}

impl FastPath<'_> {
    /// Whether no handler of changes is to be called for this state, nothing to be written, and nothing to be remembered.
    pub(crate) fn is_already_handled(&self, raw: &Raw) -> bool {
        Outline::of(raw).is_some_and(|outline| self.is_already_handled_as(&outline))
    }

    /// The same for a text that is taken apart already.
    pub(crate) fn is_already_handled_as(&self, outline: &Outline<'_>) -> bool {
        // A digest would have to be made of Secrets; annotations of Deployments are not those of their ReplicaSets.
        let special = matches!(self.resource.kind.as_str(), "Secret" | "ReplicaSet");
        if special || self.seen.in_progress.is_some() || self.seen.drift.is_any() {
            return false;
        }
        let Some(held) = self.held() else {
            return false;
        };
        !outline.is_deleting()
            && outline.has_finalizer(&self.persistence.finalizer) == held
            && self.persistence.is_handled(outline)
    }

    /// Whether an object that was handled carries the finalizer; `None` where that, or the essence, depends on more than its text tells.
    fn held(&self) -> Option<bool> {
        let mut held = false;
        for handler in self.handlers {
            if handler.field().is_some_and(is_extra)
                || is_at_start(handler) && self.seen.is_initial()
            {
                return None;
            }
            // Daemons and timers go by the last state that was planned for, which need not be the one that was handled last.
            if handler.background().is_some() {
                return None;
            }
            if handler.needs_finalizer() {
                let filters = handler.filters();
                let filtered = handler.field().is_some()
                    || filters.when.is_some()
                    || !(filters.labels.is_empty() && filters.annotations.is_empty());
                if filtered {
                    return None;
                }
                held = true;
            }
        }
        Some(held)
    }
}

/// Whether it is called when the operator starts.
fn is_at_start(handler: &Handler) -> bool {
    handler.is_for_resuming() || !handler.owns().is_empty()
}

/// Whether the field is no part of the essence by itself.
fn is_extra(field: &FieldPath) -> bool {
    let first = field.parts().first().map(String::as_str);
    matches!(first, Some("metadata" | "status" | "apiVersion" | "kind"))
}
