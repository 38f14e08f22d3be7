//! Runs one call of a daemon or timer as a task of its own, and posts its end to the mailbox of the object.
//!
//! Guarantees that the message is posted however the call ends. Must not know what the outcome means.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use kopf_rs_schedule::HandlerKind;

use crate::engine::attempt::report_while_running;
use crate::engine::mailbox::{Message, ReturnedCall, Snapshot};
use crate::engine::report::report;
use crate::engine::resource_handlers::ResourceHandlers;
use crate::engine::running_calls::RunningCall;
use crate::engine::shared::Shared;
use crate::handler::definition::HandlerCall;
use crate::handler::outcome::{Outcome, panic_text};
use crate::happening::calls::CallHappening;
use crate::object::key::Key;
use crate::object::patch::Patch;
use crate::object::raw::Raw;
use crate::object::reference::Reference;

/// The time for which a crash note suspects a daemon. Without a limit, every crash would accuse all daemons, which run all the
/// time.
const SUSPICIOUS: Duration = Duration::from_secs(10);

/// One call, and the object that its outcome belongs to.
pub(super) struct BackgroundCall {
    pub(super) shared: Arc<Shared>,
    pub(super) key: Key,
    pub(super) about: Arc<Reference>,
    pub(super) kind: Arc<ResourceHandlers>,
    pub(super) cause: HandlerCall,
    pub(super) call: Arc<RunningCall>,
}

impl BackgroundCall {
    pub(super) async fn run(self) {
        let mut patch = Patch::new();
        let invoked = AssertUnwindSafe(self.invoke(&mut patch)).catch_unwind();
        let outcome = invoked.await.unwrap_or_else(|panic| {
            // A panic of the operator: panics of the handler are outcomes.
            let text = panic_text(&*panic).unwrap_or("a value that is no text");
            let message = format!("the operator panicked while it was calling the handler: {text}");
            Some(Outcome::Arbitrary { message })
        });
        let Self { shared, key, kind, cause, call, .. } = self;
        shared.running.end(&call);
        let known = call.live.text();
        // Falls back to the object as the call began, if no newer state has arrived since.
        let known = known.or_else(|| Raw::parse(&cause.body().to_string()).ok());
        let Some(raw) = known else { return };
        let returned =
            ReturnedCall { number: call.number, call: cause, outcome, patch, origin: Snapshot { raw, kind } };
        shared.queue.post(&key, Message::Returned(vec![returned]));
    }

    /// Returns the outcome of the call; `None` if the call was cut off.
    async fn invoke(&self, patch: &mut Patch) -> Option<Outcome> {
        let Self { shared, about, cause, call, .. } = self;
        let handler = cause.handler.clone();
        report(cause.logger(), &CallHappening::Invoked { handler });
        let setup = &shared.setup;
        let noted = setup.notes.begin(cause, about, &setup.persistence);
        let returns_soon = cause.handler.kind != HandlerKind::Daemon;
        let outcome = {
            // Boxed because thousands of daemons may run, and a future that is moved into another one is stored twice.
            let mut invoked =
                Box::pin(shared.invoker.invoke_in_background(cause, about, patch, &call.cancelled));
            let abandoned = call.abandoned.cancelled();
            if returns_soon {
                let told = report_while_running(cause, setup.clock, || false, invoked);
                let called = unless(abandoned, Box::pin(told)).await;
                noted.end(called.is_some());
                called
            } else {
                let mut abandoned = pin!(abandoned);
                let soon = unless(&mut abandoned, &mut invoked);
                if let Ok(called) = Box::pin(tokio::time::timeout(SUSPICIOUS, soon)).await {
                    noted.end(called.is_some());
                    called
                } else {
                    // A daemon may run without a limit, so its duration is not reported.
                    noted.end(true);
                    unless(abandoned, invoked).await
                }
            }
        };
        patch.sign(&cause.handler.id);
        outcome?.ok()
    }
}

/// Returns the output of `called`, unless it is abandoned before.
async fn unless<T>(abandoned: impl Future<Output = ()>, called: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        called = called => Some(called),
        () = abandoned => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the size of the value that the function returns.
    fn size_made<A, F>(_: impl FnOnce(A) -> F) -> usize {
        size_of::<F>()
    }

    /// Guards memory: each running daemon holds one of these futures.
    #[test]
    fn a_call_that_runs_is_small() {
        let size = size_made(BackgroundCall::run);
        assert!(size <= 1056, "{size} bytes");
    }
}
