//! Calling user code: in its span, within its time, panics caught, blocking functions on their own threads.
//!
//! Must not know what an outcome leads to.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, PanicHookInfo};
use std::sync::{Arc, Once};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Level, Span};

use crate::handler::cause::Cause;
use crate::handler::decl::{Call, Callee, Calling, Returned};
use crate::handler::error::HandlerError;
use crate::handler::outcome::{Outcome, panic_text};
use crate::object::patch::Patch;
use crate::object::reference::Reference;
use crate::rt::clock::Clock;

/// Calls handlers.
pub(crate) struct Invoker {
    clock: Clock,
    blocking: Arc<Semaphore>,
    cancelled: CancellationToken,
}

/// The operator stops: the attempt was cut off, and nothing is known of it.
#[derive(Debug)]
pub(crate) struct Cancelled;

impl Invoker {
    pub(crate) fn new(clock: Clock, blocking: usize) -> Self {
        record_panics();
        Self {
            clock,
            blocking: Arc::new(Semaphore::new(blocking.max(1))),
            cancelled: CancellationToken::new(),
        }
    }

    /// Cut off all async attempts, now and from now on.
    pub(crate) fn cancel(&self) {
        self.cancelled.cancel();
    }

    /// One attempt. What the handler puts into `patch` stays there, however it ends.
    pub(crate) async fn invoke(
        &self,
        cause: &Cause,
        about: &Reference,
        patch: &mut Patch,
    ) -> Result<Outcome, Cancelled> {
        let called = async {
            match &cause.handler.callee {
                Callee::Fn(Call::Async(function)) => {
                    self.timed(cause, |patch| function(cause, patch), patch)
                        .await
                }
                Callee::Closure(function) => {
                    self.timed(cause, |patch| function(cause, patch), patch)
                        .await
                }
                Callee::Fn(Call::Blocking(function)) => {
                    self.on_a_thread(*function, cause, patch).await
                }
            }
        };
        called.instrument(span(cause, about)).await
    }

    async fn timed<'a>(
        &self,
        cause: &Cause,
        call: impl FnOnce(&'a mut Patch) -> Calling<'a>,
        patch: &'a mut Patch,
    ) -> Result<Outcome, Cancelled> {
        let calling = Caught::new(|| call(patch));
        let limit = cause.handler.timeout();
        let outcome = async {
            let Some(limit) = limit else {
                return ended(calling.await);
            };
            match tokio::time::timeout(self.left(cause, limit), calling).await {
                Ok(returned) => ended(returned),
                Err(_) => Outcome::TimedOut { after: limit },
            }
        };
        tokio::select! {
            biased;
            outcome = outcome => Ok(outcome),
            () = self.cancelled.cancelled() => Err(Cancelled),
        }
    }

    /// A thread cannot be interrupted: it is waited for, past its timeout and past the operator's stop, and that is said.
    async fn on_a_thread(
        &self,
        function: fn(&Cause, &mut Patch) -> Returned,
        cause: &Cause,
        patch: &mut Patch,
    ) -> Result<Outcome, Cancelled> {
        let place = tokio::select! {
            biased;
            () = self.cancelled.cancelled() => return Err(Cancelled),
            place = self.blocking.clone().acquire_owned() => place,
        };
        let (attempt, mut taken) = (cause.clone(), std::mem::take(patch));
        let span = Span::current();
        let thread = tokio::task::spawn_blocking(move || {
            let _place = place;
            let returned = span.in_scope(|| caught(|| function(&attempt, &mut taken)));
            (returned, taken)
        });
        Ok(match self.patiently(cause, thread).await {
            Ok((returned, changed)) => {
                *patch = changed;
                ended(returned)
            }
            Err(error) => Outcome::Arbitrary {
                message: error.to_string(),
            },
        })
    }

    /// Wait for a thread; tell when it should have ended.
    async fn patiently<T>(&self, cause: &Cause, thread: JoinHandle<T>) -> Result<T, JoinError> {
        let mut thread = std::pin::pin!(thread);
        let complain = |why: std::fmt::Arguments<'_>| {
            let id = &cause.handler.id;
            let text =
                format_args!("Handler '{id}' {why}: a blocking function cannot be interrupted.");
            cause.context.logger.log(Level::WARN, text);
        };
        if let Some(limit) = cause.handler.timeout() {
            tokio::select! {
                biased;
                ended = &mut thread => return ended,
                () = self.cancelled.cancelled() => {}
                () = tokio::time::sleep(self.left(cause, limit)) => complain(format_args!(
                    "runs past its timeout of {} seconds",
                    limit.as_secs_f64()
                )),
            }
        }
        tokio::select! {
            biased;
            ended = &mut thread => return ended,
            () = self.cancelled.cancelled() => {
                complain(format_args!("still runs although the operator stops"));
            }
        }
        thread.await
    }

    fn left(&self, cause: &Cause, limit: Duration) -> Duration {
        let spent = self.clock.now().duration_since(cause.attempt.started);
        limit.saturating_sub(Duration::try_from(spent).unwrap_or_default())
    }
}

fn ended(returned: Result<Returned, Panicked>) -> Outcome {
    returned.map_or_else(|Panicked(message)| Outcome::Arbitrary { message }, outcome)
}

/// What a handler has returned, as an outcome.
pub(super) fn outcome(returned: Returned) -> Outcome {
    match returned {
        Ok(result) => Outcome::Succeeded(result),
        Err(HandlerError::Temporary(error)) => Outcome::Temporary {
            message: error.to_string(),
            delay: error.delay_wanted(),
        },
        Err(HandlerError::Permanent(error)) => Outcome::Permanent {
            message: error.to_string(),
        },
        Err(error) if error.is_unfinished() => Outcome::Waiting,
        Err(error) => Outcome::Arbitrary {
            message: error.to_string(),
        },
    }
}

/// What the handler logs by plain `tracing` macros is attributed to its object through this span.
fn span(cause: &Cause, about: &Reference) -> Span {
    if !tracing::enabled!(target: "kopf.objects", Level::ERROR) {
        return Span::none();
    }
    tracing::error_span!(
        target: "kopf.objects",
        "handler",
        handler = %cause.handler.id,
        namespace = about.namespace.as_deref(),
        name = about.name,
        kind = about.kind,
        api_version = about.api_version,
        uid = about.uid,
    )
}

// === panics ===

struct Panicked(String);

/// What runs on a thread.
#[derive(Default)]
enum Running {
    #[default]
    Ours,
    /// User code, and where it panicked, if it did.
    Users(Option<String>),
}

thread_local! {
    static RUNNING: RefCell<Running> = const { RefCell::new(Running::Ours) };
}

/// Panics of handlers are reported as their errors, place included, instead of on standard error.
fn record_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let former = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic: &PanicHookInfo<'_>| {
            let ours = RUNNING.with_borrow_mut(|running| match running {
                Running::Ours => true,
                Running::Users(place) => {
                    *place = panic.location().map(ToString::to_string);
                    false
                }
            });
            if ours {
                former(panic);
            }
        }));
    });
}

/// Run `user` code; a panic is a value.
fn caught<T>(user: impl FnOnce() -> T) -> Result<T, Panicked> {
    // A sub-handler runs within its parent.
    let outer = RUNNING.replace(Running::Users(None));
    let result = std::panic::catch_unwind(AssertUnwindSafe(user));
    let ran = RUNNING.replace(outer);
    result.map_err(|payload| match ran {
        Running::Users(place) => Panicked::new(payload.as_ref(), place.as_deref()),
        Running::Ours => Panicked::new(payload.as_ref(), None),
    })
}

/// What `user` code panicked with, place included.
pub(crate) fn guarded<T>(user: impl FnOnce() -> T) -> Result<T, String> {
    caught(user).map_err(|Panicked(message)| message)
}

impl Panicked {
    fn new(payload: &(dyn Any + Send), place: Option<&str>) -> Self {
        let text = panic_text(payload).unwrap_or("a value that is no text");
        Self(match place {
            Some(place) => format!("panicked at {place}: {text}"),
            None => format!("panicked: {text}"),
        })
    }
}

/// A call whose panics are values.
struct Caught<'a>(Result<Calling<'a>, Option<Panicked>>);

impl<'a> Caught<'a> {
    fn new(call: impl FnOnce() -> Calling<'a>) -> Self {
        Self(caught(call).map_err(Some))
    }
}

impl Future for Caught<'_> {
    type Output = Result<Returned, Panicked>;

    fn poll(mut self: std::pin::Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Ok(calling) => match caught(|| calling.as_mut().poll(context)) {
                Ok(Poll::Pending) => Poll::Pending,
                Ok(Poll::Ready(returned)) => Poll::Ready(Ok(returned)),
                Err(panicked) => Poll::Ready(Err(panicked)),
            },
            Err(panicked) => match panicked.take() {
                Some(panicked) => Poll::Ready(Err(panicked)),
                None => Poll::Pending,
            },
        }
    }
}
