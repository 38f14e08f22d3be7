//! Makes one attempt of a handler, and reports its start, its cancellation and a long duration.

use crate::engine::invoke::{Cancelled, Invoker};
use crate::engine::overdue::told_while_running;
use crate::engine::report::report;
use crate::handler::definition::HandlerCall;
use crate::handler::outcome::Outcome;
use crate::happening::calls::CallHappening;
use crate::object::patch::Patch;
use crate::object::reference::Reference;

/// Calls a handler. `deletion` returns whether a deletion of the object waits for the call.
pub(crate) async fn attempt(
    invoker: &Invoker,
    about: &Reference,
    cause: &HandlerCall,
    patch: &mut Patch,
    deletion: impl Fn() -> bool,
) -> Result<Outcome, Cancelled> {
    let handler = || cause.handler.clone();
    report(cause.logger(), &CallHappening::Invoked { handler: handler() });
    let call = invoker.invoke(cause, about, patch);
    let outcome = told_while_running(cause, invoker.clock, deletion, call).await;
    patch.sign(&cause.handler.id);
    if outcome.is_err() {
        report(cause.logger(), &CallHappening::Cancelled { handler: handler() });
    }
    outcome
}
