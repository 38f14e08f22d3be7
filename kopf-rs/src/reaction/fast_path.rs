//! The fast path: recognises from the text, without a tree, that a state requires no action. This holds for most incoming states.
//!
//! Own writes return as responses and as watch events, a start lists handled objects, and other clients write statuses. Guarantees that
//! [`is_already_handled`] is false whenever `plan` would find an action or something to remember; the reverse is not guaranteed.

use std::sync::Arc;

use crate::handler::definition::Handler;
use crate::object::lazy_json::Outline;
use crate::object::path::FieldPath;
use crate::object::raw::Raw;
use crate::object::resource::Resource;
use crate::reaction::memory::ObjectMemory;
use crate::state::Persistence;

/// Returns true if the state requires no call of change handlers, no write, and no change of the memory.
pub(crate) fn is_already_handled(
    raw: &Raw,
    resource: &Resource,
    handlers: &[Arc<Handler>],
    seen: &ObjectMemory,
    persistence: &Persistence,
) -> bool {
    // Secrets would require digests, and a `ReplicaSet` has its Deployment's annotations.
    let special = matches!(resource.kind.as_str(), "Secret" | "ReplicaSet");
    if special || seen.is_unfinished() {
        return false;
    }
    let (Some(outline), Some(held)) = (&Outline::of(raw), is_held(handlers, seen)) else {
        return false;
    };
    !outline.is_deleting()
        && outline.has_finalizer(&persistence.finalizer) == held
        && persistence.is_handled(outline)
}

/// Returns whether a handled object has the finalizer; `None` if that, or the essence, depends on more than the object's text.
fn is_held(handlers: &[Arc<Handler>], seen: &ObjectMemory) -> Option<bool> {
    let mut held = false;
    for handler in handlers {
        if handler.field().is_some_and(is_extra) || is_at_start(handler) && seen.is_initial() {
            return None;
        }
        // Daemons and timers depend on the last planned state, which may differ from the last-handled one.
        if handler.is_background() {
            return None;
        }
        if handler.needs_finalizer() {
            let filters = &handler.filters;
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

/// Returns true if the handler is called at the start of the operator.
fn is_at_start(handler: &Handler) -> bool {
    handler.is_for_resuming() || !handler.owns.is_empty()
}

/// Returns true if the field is not part of the essence by default.
fn is_extra(field: &FieldPath) -> bool {
    let first = field.parts().first().map(String::as_str);
    matches!(first, Some("metadata" | "status" | "apiVersion" | "kind"))
}
