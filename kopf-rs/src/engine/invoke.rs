//! Calls user code: inside its span, within its timeout, with panics caught, blocking functions on threads of their own.
//!
//! Async handlers run on a separate runtime if one is given, so that a handler that blocks delays only other handlers; else on the caller's
//! runtime. Must not know what follows from an outcome.

mod handover;

use std::any::Any;
use std::cell::RefCell;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use kopf_rs_schedule::HandlerKind;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span, dispatcher};

use crate::engine::invoke::handover::Handover;
use crate::engine::metered::MeteredCall;
use crate::engine::report::report;
use crate::engine::watchdog::Watched;
use crate::handler::callee::{Callee, Calling, Function, Returned};
use crate::handler::cause::{Cause, CauseContext};
use crate::handler::current;
use crate::handler::definition::{Handler, HandlerCall};
use crate::handler::error::{HandlerError, PermanentError};
use crate::handler::named_panic::NamedPanic;
use crate::handler::outcome::{Outcome, panic_text};
use crate::handler::subhandlers::is_unfinished;
use crate::handler::subject::Reason;
use crate::happening::calls::{CallHappening, EndOfCall};
use crate::happening::meter::{Meter, SharedMeter};
use crate::object::patch::Patch;
use crate::object::reference::Reference;
use crate::rt::broken_pipe::drop_if_lost;
use crate::rt::clock::Clock;

/// Handlers that are called apart from the workers, and the context of their calls.
pub(crate) struct HandlerGroup {
    /// In the order of their declaration.
    pub(crate) handlers: Vec<Arc<Handler>>,
    pub(crate) invoker: Arc<Invoker>,
    pub(crate) context: CauseContext,
}

/// Calls handlers.
pub(crate) struct Invoker {
    pub(crate) clock: Clock,
    blocking: Arc<Semaphore>,
    /// The separate runtime of handlers, if there is one.
    handlers: Option<Handover>,
    cancelled: CancellationToken,
    meter: SharedMeter,
}

/// The attempt was cut off because the operator stops; its outcome is unknown.
#[derive(Debug)]
pub(crate) struct Cancelled;

/// The time for which an async attempt that is cut off may run on before a line reports it.
const GRACE: Duration = Duration::from_millis(50);

impl Invoker {
    pub(crate) fn new(clock: Clock, blocking: usize, handlers: Option<Handle>) -> Self {
        Self {
            clock,
            blocking: Arc::new(Semaphore::new(blocking.clamp(1, Semaphore::MAX_PERMITS))),
            handlers: handlers.map(Handover::to),
            cancelled: CancellationToken::new(),
            meter: None,
        }
    }

    /// Reports each call to `meter`, for metrics.
    pub(crate) fn metered(mut self, meter: SharedMeter) -> Self {
        self.meter = meter;
        self
    }

    /// Returns the meter.
    pub(crate) fn meter(&self) -> Option<&dyn Meter> {
        self.meter.as_deref()
    }

    /// Cuts off all async attempts, present and future ones.
    pub(crate) fn cancel(&self) {
        self.cancelled.cancel();
    }

    /// Makes one attempt. Changes that the handler puts into `patch` stay there, however the attempt ends.
    pub(crate) async fn invoke(
        &self,
        cause: &HandlerCall,
        about: &Reference,
        patch: &mut Patch,
    ) -> Result<Outcome, Cancelled> {
        let stop = CutOff { cancelled: &self.cancelled, end: EndOfCall::Stop };
        self.invoke_until(cause, about, patch, stop).await
    }

    /// Makes one attempt of a daemon or timer, which has a cancellation token of its own.
    pub(crate) async fn invoke_in_background(
        &self,
        cause: &HandlerCall,
        about: &Reference,
        patch: &mut Patch,
        cancelled: &CancellationToken,
    ) -> Result<Outcome, Cancelled> {
        let end = EndOfCall::CutOff;
        let stop = CutOff { cancelled, end };
        self.invoke_until(cause, about, patch, stop).await
    }

    async fn invoke_until(
        &self,
        cause: &HandlerCall,
        about: &Reference,
        patch: &mut Patch,
        stop: CutOff<'_>,
    ) -> Result<Outcome, Cancelled> {
        let metered = MeteredCall::begin(&self.meter, cause);
        let called = async {
            // Created here, so that it lies within the span of the metered call.
            let span = span(cause, about);
            match &cause.handler.callee {
                Callee::Fn(Function::Async(function)) => {
                    self.call(*function, cause, span, (patch, stop)).await
                }
                Callee::Closure(function) => {
                    let function = function.clone();
                    self.call(move |cause, patch| function(cause, patch), cause, span, (patch, stop)).await
                }
                Callee::Fn(Function::Blocking(function)) => {
                    // Boxed, as is the next one: a future is as large as its largest branch, and async calls, of which there are many, need
                    // less.
                    let called = Box::pin(self.on_a_thread(*function, cause, patch, stop));
                    called.instrument(span).await
                }
                Callee::BlockingClosure(function) => {
                    let function = function.clone();
                    let call = move |cause: &Cause, patch: &mut Patch| function(cause, patch);
                    let called = Box::pin(self.on_a_thread(call, cause, patch, stop));
                    called.instrument(span).await
                }
            }
        };
        let called = called.instrument(metered.span()).await;
        metered.end(called.as_ref().ok());
        called
    }

    async fn call(
        &self,
        call: impl for<'a> FnOnce(&'a Cause, &'a mut Patch) -> Calling<'a> + Send + 'static,
        cause: &HandlerCall,
        span: Span,
        (patch, stop): (&mut Patch, CutOff<'_>),
    ) -> Result<Outcome, Cancelled> {
        if let Some(handover) = self.other_runtime() {
            let called = self.on_runtime(handover, call, cause, span, (patch, stop));
            return Box::pin(called).await;
        }
        let left = self.left(cause);
        let called = attempt(call, cause, left, stop.cancelled, patch);
        called.instrument(span).await
    }

    /// Returns the runtime of handlers, unless the caller is on it: a sub-handler runs where its parent does.
    fn other_runtime(&self) -> Option<&Handover> {
        let handover = self.handlers.as_ref()?;
        let handlers = handover.handlers().id();
        let is_here = Handle::try_current().is_ok_and(|here| here.id() == handlers);
        (!is_here).then_some(handover)
    }

    /// Runs an async attempt on the runtime of handlers. An attempt that blocks its thread cannot be cut off, so the stop of the operator
    /// waits for it and a line reports that.
    async fn on_runtime(
        &self,
        handover: &Handover,
        call: impl for<'a> FnOnce(&'a Cause, &'a mut Patch) -> Calling<'a> + Send + 'static,
        cause: &HandlerCall,
        span: Span,
        (patch, stop): (&mut Patch, CutOff<'_>),
    ) -> Result<Outcome, Cancelled> {
        let (left, cancelled) = (self.left(cause), stop.cancelled.clone());
        let (attempted, begin) = (cause.clone(), NotBegun::new(Mutex::new(Some(std::mem::take(patch)))));
        let of_task = begin.clone();
        let task = async move {
            let mut taken = of_task.lock().take()?;
            let called = attempt(call, &attempted, left, &cancelled, &mut taken).await;
            Some((called, taken))
        };
        let mut task = Box::pin(handover.call(task.instrument(span)));
        let ended = tokio::select! {
            biased;
            ended = &mut task => ended,
            () = stop.is_past(GRACE) => {
                if let Some(untouched) = begin.lock().take() {
                    *patch = untouched;
                    return Err(Cancelled);
                }
                report_overdue(cause, stop.end);
                task.await
            }
        };
        match ended {
            Some(Ok(Some((called, changed)))) => {
                *patch = changed;
                called
            }
            // The attempt was called off, or the runtime of handlers has shut down.
            Some(Ok(None)) | None => Err(Cancelled),
            Some(Err(message)) => Ok(Outcome::Arbitrary { message }),
        }
    }

    /// Runs a blocking function on a thread. A thread cannot be interrupted, so the call is awaited beyond its timeout and beyond the stop
    /// of the operator, and a line reports that.
    async fn on_a_thread(
        &self,
        function: impl FnOnce(&Cause, &mut Patch) -> Returned + Send + 'static,
        cause: &HandlerCall,
        patch: &mut Patch,
        stop: CutOff<'_>,
    ) -> Result<Outcome, Cancelled> {
        let needs_no_place = has_its_own_thread(&cause.handler);
        let place = tokio::select! {
            biased;
            () = stop.cancelled.cancelled() => return Err(Cancelled),
            place = self.blocking.clone().acquire_owned(), if !needs_no_place => place.ok(),
            () = std::future::ready(()), if needs_no_place => None,
        };
        let (attempt, begin) = (cause.clone(), NotBegun::new(Mutex::new(Some(std::mem::take(patch)))));
        let (span, of_thread) = (Span::current(), begin.clone());
        let work = move || {
            let _place = place;
            let mut taken = of_thread.lock().take()?;
            let current = Arc::new(attempt.cause.clone());
            let called = || {
                let _current = current::enter(&current);
                function(&attempt, &mut taken)
            };
            let returned = span.in_scope(|| caught(called));
            Some((returned, taken))
        };
        let handlers = self.handlers.as_ref().map(Handover::handlers);
        let runtime = handlers.cloned().unwrap_or_else(Handle::current);
        let thread: Thread<_> = if needs_no_place {
            on_its_own_thread(runtime, work)
        } else {
            let thread = runtime.spawn_blocking(work);
            Box::pin(async move { thread.await.map_err(|error| error.to_string()) })
        };
        match self.patiently(cause, (&begin, patch), thread, stop).await {
            Ok(Some((returned, changed))) => {
                *patch = changed;
                Ok(ended(cause, returned))
            }
            Ok(None) => Err(Cancelled),
            Err(message) => Ok(Outcome::Arbitrary { message }),
        }
    }

    /// Waits for the thread of a blocking handler, and reports when the handler should have ended. Returns `None` if the operator stops
    /// before the call has begun, since other blocking handlers may occupy all threads.
    async fn patiently<T>(
        &self,
        cause: &HandlerCall,
        (begin, patch): (&NotBegun, &mut Patch),
        mut thread: Thread<T>,
        stop: CutOff<'_>,
    ) -> Result<Option<T>, String> {
        if let (Some(limit), Some(left)) = (cause.handler.retry.timeout, self.left(cause)) {
            tokio::select! {
                biased;
                ended = &mut thread => return ended,
                () = stop.cancelled.cancelled() => {}
                () = tokio::time::sleep(left) => if begin.lock().is_none() {
                    report_overdue(cause, EndOfCall::Timeout(limit));
                }
            }
        }
        tokio::select! {
            biased;
            ended = &mut thread => return ended,
            () = stop.cancelled.cancelled() => {}
        }
        if let Some(untouched) = begin.lock().take() {
            *patch = untouched;
            return Ok(None);
        }
        report_overdue(cause, stop.end);
        thread.await
    }

    /// Returns the rest of the handler's timeout.
    fn left(&self, cause: &HandlerCall) -> Option<Duration> {
        let limit = cause.handler.retry.timeout?;
        if cause.attempt.is_first {
            return Some(limit);
        }
        let spent = self.clock.now().duration_since(cause.attempt.started);
        Some(limit.saturating_sub(Duration::try_from(spent).unwrap_or_default()))
    }
}

/// The conditions that cut a call off.
#[derive(Clone, Copy)]
struct CutOff<'a> {
    cancelled: &'a CancellationToken,
    /// The reason, for the log.
    end: EndOfCall,
}

impl CutOff<'_> {
    /// Waits until the call has been cut off for `grace`.
    async fn is_past(&self, grace: Duration) {
        self.cancelled.cancelled().await;
        tokio::time::sleep(grace).await;
    }
}

/// Returns whether the handler gets a thread outside the limit on blocking threads. A daemon would occupy a thread for the lifetime of its
/// object. A login may be awaited by the handlers that occupy the threads, which would be a deadlock.
fn has_its_own_thread(handler: &Handler) -> bool {
    matches!(handler.kind, HandlerKind::Daemon | HandlerKind::OnLogin)
}

/// The patch of a call that waits for a thread. A thread takes the patch to begin the call, and a cancellation takes it to prevent the call,
/// so only one of the two can succeed.
type NotBegun = Arc<Mutex<Option<Patch>>>;

/// The outcome of a call on a thread; `None` if the call was cancelled before it began.
type Thread<T> = Pin<Box<dyn Future<Output = Result<Option<T>, String>> + Send>>;

/// Runs `work` on a new thread.
fn on_its_own_thread<T: Send + 'static>(
    runtime: Handle,
    work: impl FnOnce() -> Option<T> + Send + 'static,
) -> Thread<T> {
    let (done, waits) = oneshot::channel();
    let listener = dispatcher::get_default(Clone::clone);
    let begun = std::thread::Builder::new().name("kopf-handler".to_owned()).spawn(move || {
        let _runtime = runtime.enter();
        let worked = dispatcher::with_default(&listener, work);
        // The receiver may be gone already.
        drop(done.send(worked));
    });
    Box::pin(async move {
        begun.map_err(|error| format!("there is no thread for it: {error}"))?;
        waits.await.map_err(|_| "its thread has ended".to_owned())
    })
}

fn report_overdue(cause: &HandlerCall, end: EndOfCall) {
    let handler = cause.handler.clone();
    report(cause.logger(), &CallHappening::RunsOn { handler, end });
}

/// Makes an async attempt on the runtime that polls this future.
async fn attempt(
    call: impl for<'a> FnOnce(&'a Cause, &'a mut Patch) -> Calling<'a>,
    cause: &HandlerCall,
    left: Option<Duration>,
    cancelled: &CancellationToken,
    patch: &mut Patch,
) -> Result<Outcome, Cancelled> {
    let watched = Watched::new(cause, &Span::current());
    let calling = Caught::new(cause, watched, || call(cause, patch));
    let outcome = async {
        let Some(left) = left else {
            return ended(cause, calling.await);
        };
        match tokio::time::timeout(left, calling).await {
            Ok(returned) => ended(cause, returned),
            Err(_) => Outcome::TimedOut { after: cause.handler.retry.timeout.unwrap_or(left) },
        }
    };
    tokio::select! {
        biased;
        outcome = outcome => Ok(outcome),
        () = cancelled.cancelled() => Err(Cancelled),
    }
}

/// Makes one attempt of a synchronous function that must not block, at once and on this thread.
pub(crate) fn invoke_at_once(cause: &HandlerCall, about: &Reference) -> Outcome {
    let current = Arc::new(cause.cause.clone());
    let mut none = Patch::new();
    let called = || {
        let _current = current::enter(&current);
        match &cause.handler.callee {
            Callee::Fn(Function::Blocking(function)) => function(cause, &mut none),
            Callee::BlockingClosure(function) => function(cause, &mut none),
            Callee::Fn(Function::Async(_)) | Callee::Closure(_) => Ok(None),
        }
    };
    ended(cause, span(cause, about).in_scope(|| caught(called)))
}

fn ended(cause: &Cause, returned: Result<Returned, Panicked>) -> Outcome {
    match returned {
        Ok(Err(HandlerError::Permanent(error))) if error.is_unfit() && is_deletion(cause) => {
            Outcome::Arbitrary { message: kept(&error) }
        }
        Ok(returned) => outcome(returned),
        Err(Panicked(message)) => Outcome::Panicked { message },
    }
}

fn is_deletion(cause: &Cause) -> bool {
    cause.reason() == Some(Reason::Delete)
}

/// Words the error of a deletion handler whose argument does not fit the present object. Such an error is retried like any other and the
/// finalizer stays, so that a changed field or type does not leave resources behind that the handler has created.
fn kept(error: &PermanentError) -> String {
    format!(
        "{error}. The object is not of the type that the handler asks for, and the handler has not cleaned up: correct the object, or let the handler take \
         what is there, such as `spec: &Value`"
    )
}

/// Converts a handler's return value to an outcome.
pub(super) fn outcome(returned: Returned) -> Outcome {
    match returned {
        Ok(result) => Outcome::Succeeded(result),
        Err(HandlerError::Temporary(error)) => Outcome::Temporary {
            message: error.to_string(),
            delay: error.delay_wanted(),
            child: error.child(),
        },
        Err(HandlerError::Permanent(error)) => {
            Outcome::Permanent { message: error.to_string(), child: error.child() }
        }
        Err(HandlerError::Admission(error)) => {
            Outcome::Denied { message: error.to_string(), denial: error.into_denial() }
        }
        Err(error) if is_unfinished(&error) => Outcome::Waiting,
        Err(error) => Outcome::Arbitrary { message: error.to_string() },
    }
}

/// Returns the span that attributes events of plain `tracing` macros to the handler's object. Costs nothing without a subscriber.
fn span(cause: &HandlerCall, about: &Reference) -> Span {
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

/// The kind of code that the present thread runs.
#[derive(Default)]
enum Running {
    #[default]
    Ours,
    /// User code; with the location of its panic, if it panicked and `take_over_panics` was called.
    Users(Option<String>),
}

thread_local! {
    static RUNNING: RefCell<Running> = const { RefCell::new(Running::Ours) };
}

/// Installs a panic hook that leaves panics of handlers to their error reports, which include the location. Only for programs that are
/// nothing but an operator, because the hook is global.
#[cfg(feature = "cli")]
pub(crate) fn take_over_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let former = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic: &std::panic::PanicHookInfo<'_>| {
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

/// Runs `user` code and catches panics.
fn caught<T>(user: impl FnOnce() -> T) -> Result<T, Panicked> {
    // Restored afterwards, because a sub-handler runs within its parent.
    let outer = RUNNING.replace(Running::Users(None));
    let result = std::panic::catch_unwind(AssertUnwindSafe(user));
    let ran = RUNNING.replace(outer);
    result.map_err(|payload| match ran {
        Running::Users(place) => Panicked::new(payload.as_ref(), place.as_deref()),
        Running::Ours => Panicked::new(payload.as_ref(), None),
    })
}

/// Runs `user` code.
///
/// # Errors
///
/// Returns the message of a panic, with its location.
pub(crate) fn guarded<T>(user: impl FnOnce() -> T) -> Result<T, String> {
    caught(user).map_err(|Panicked(message)| message)
}

impl Panicked {
    fn new(payload: &(dyn Any + Send), place: Option<&str>) -> Self {
        let named = payload.downcast_ref::<NamedPanic>();
        let function = named.map_or_else(String::new, |named| format!("{} ", named.function));
        let text = named.map_or_else(|| panic_text(payload), |named| named.text.as_deref());
        let text = text.unwrap_or("a value that is no text");
        if let Some(text) = drop_if_lost(text) {
            return Self(text);
        }
        Self(match place {
            Some(place) => format!("{function}panicked at {place}: {text}"),
            None => format!("{function}panicked: {text}"),
        })
    }
}

/// A call that catches panics and that the watchdog observes while it runs.
struct Caught<'a> {
    cause: &'a HandlerCall,
    current: Arc<Cause>,
    calling: Result<Calling<'a>, Option<Panicked>>,
    watched: Watched,
}

impl<'a> Caught<'a> {
    fn new(cause: &'a HandlerCall, watched: Watched, call: impl FnOnce() -> Calling<'a>) -> Self {
        let current = Arc::new(cause.cause.clone());
        let called = || {
            let _current = current::enter(&current);
            call()
        };
        Self { cause, calling: watched.poll(|| caught(called)).map_err(Some), watched, current }
    }
}

impl Future for Caught<'_> {
    type Output = Result<Returned, Panicked>;

    fn poll(mut self: std::pin::Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { calling, watched, current, .. } = &mut *self;
        let mut polled = |calling: &mut Calling<'_>| {
            let _current = current::enter(current);
            calling.as_mut().poll(context)
        };
        match calling {
            Ok(calling) => match watched.poll(|| caught(|| polled(calling))) {
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

impl Drop for Caught<'_> {
    /// Drops a call that is cut off. Dropping may run user code, so it is guarded like the call itself.
    fn drop(&mut self) {
        let Ok(calling) = std::mem::replace(&mut self.calling, Err(None)) else {
            return;
        };
        let dropped = self.watched.poll(|| caught(|| drop(calling)));
        if let Err(Panicked(panic)) = dropped {
            let handler = self.cause.handler.clone();
            let happening = CallHappening::PanickedWhenCutOff { handler, panic };
            report(self.cause.logger(), &happening);
        }
    }
}

#[cfg(test)]
mod tests;
