//! Handlers that are not called for an object: each time they were, the process has ended. They are called again once the object is changed.
//!
//! Must not know how that was found out.

use std::sync::Arc;

use crate::handler::definition::Handler;
use crate::object::body::Body;
use crate::state::Persistence;

/// One handler that is not called for one object, as long as the object is in `state`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Suspension {
    /// The handler's id.
    pub(crate) handler: Arc<str>,
    pub(crate) state: String,
}

/// What of an object functions on the operator's own thread may have stumbled over, as a digest that asks none of them. A deletion makes
/// no difference: the same functions run for it.
pub(crate) fn state_for_functions(persistence: &Persistence, body: &Body) -> String {
    persistence.plain_essence_of(body).digest().to_owned()
}

/// What of an object a handler may have stumbled over, as a digest: its essence, and whether it is being deleted.
pub(crate) fn state_for(persistence: &Persistence, handler: &Handler, body: &Body) -> String {
    let essence = persistence.essence_of(body, handler.field());
    let deletion = if body.is_deleting() { "-deleting" } else { "" };
    format!("{}{deletion}", essence.digest())
}
