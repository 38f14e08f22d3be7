//! Makes one attempt of a handler, and reports its start, its cancellation and a long duration.

use crate::engine::invoke::{Cancelled, Invoker};
use crate::engine::overdue::told_while_running;
use crate::engine::report::report;
use crate::handler::definition::HandlerCall;
use crate::handler::outcome::Outcome;
use crate::happening::Happening;
use crate::object::patch::Patch;
use crate::object::reference::Reference;
use crate::rt::clock::Clock;

/// Calls a handler. `deletion` returns whether a deletion of the object waits for the call.
pub(crate) async fn attempt(
    invoker: &Invoker,
    clock: Clock,
    about: &Reference,
    cause: &HandlerCall,
    patch: &mut Patch,
    deletion: impl Fn() -> bool,
) -> Result<Outcome, Cancelled> {
    let handler = || cause.handler.clone();
    report(cause.logger(), &Happening::Invoked { handler: handler() });
    let call = invoker.invoke(cause, about, patch);
    let outcome = told_while_running(cause, clock, deletion, call).await;
    patch.sign(&cause.handler.id);
    if outcome.is_err() {
        report(cause.logger(), &Happening::Cancelled { handler: handler() });
    }
    outcome
}
