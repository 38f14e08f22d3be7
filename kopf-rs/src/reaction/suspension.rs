//! Handlers that are suspended for an object, because each call of them has ended the process. A change of the object ends the suspension.
//!
//! Must not know how crashes are detected.

use std::sync::Arc;

use crate::handler::definition::Handler;
use crate::object::body::Body;
use crate::state::Persistence;

/// One handler that is suspended for one object while the object is in `state`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Suspension {
    /// The handler's id.
    pub(crate) handler: Arc<str>,
    pub(crate) state: String,
}

/// Returns a digest of the object's state that may have crashed functions on the operator's own thread, without calling any users' storages.
/// Deletion is excluded, because the same functions run for it.
pub(crate) fn state_for_functions(persistence: &Persistence, body: &Body) -> String {
    persistence.plain_essence_of(body).digest().to_owned()
}

/// Returns a digest of the object's state that may have crashed a handler: its essence, and whether it is being deleted.
pub(crate) fn state_for(persistence: &Persistence, handler: &Handler, body: &Body) -> String {
    let essence = persistence.essence_of(body, handler.field());
    let deletion = if body.is_deleting() { "-deleting" } else { "" };
    format!("{}{deletion}", essence.digest())
}
