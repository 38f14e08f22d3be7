//! Calling user code: in its span, within its time, panics caught, blocking functions on their own threads.
//!
//! Async handlers run on a runtime of their own where one is given, so that those that block stop only each other; else on the
//! caller's. Must not know what follows from an outcome.

mod begin;

use std::any::Any;
use std::cell::RefCell;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::{Instrument, Span, dispatcher};

use crate::engine::invoke::begin::Begin;
use crate::engine::metered::MeteredCall;
use crate::engine::report::report;
use crate::engine::watchdog::Watched;
use crate::handler::callee::{Callee, Calling, Function, Returned};
use crate::handler::cause::Cause;
use crate::handler::current;
use crate::handler::definition::{Handler, HandlerCall};
use crate::handler::error::HandlerError;
use crate::handler::named_panic::NamedPanic;
use crate::handler::outcome::{Outcome, panic_text};
use crate::handler::subject::Activity;
use crate::handler::timing::BackgroundKind;
use crate::happening::meter::{Meter, SharedMeter};
use crate::happening::{EndOfCall, Happening};
use crate::object::patch::Patch;
use crate::object::reference::Reference;
use crate::rt::clock::Clock;
use crate::rt::printed::drop_if_lost;

/// Calls handlers.
pub(crate) struct Invoker {
    clock: Clock,
    blocking: Arc<Semaphore>,
    /// The runtime of handlers, where they have one of their own.
    handlers: Option<Handle>,
    cancelled: CancellationToken,
    meter: SharedMeter,
}

/// The operator stops: the attempt was cut off, and nothing is known of it.
#[derive(Debug)]
pub(crate) struct Cancelled;

/// For so long an async attempt that is cut off may run on before it is told that it does.
const GRACE: Duration = Duration::from_millis(50);

impl Invoker {
    pub(crate) fn new(clock: Clock, blocking: usize, handlers: Option<Handle>) -> Self {
        Self {
            clock,
            blocking: Arc::new(Semaphore::new(blocking.clamp(1, Semaphore::MAX_PERMITS))),
            handlers,
            cancelled: CancellationToken::new(),
            meter: None,
        }
    }

    /// Tell somebody of each call, for figures.
    pub(crate) fn metered(mut self, meter: SharedMeter) -> Self {
        self.meter = meter;
        self
    }

    /// Who is told of calls.
    pub(crate) fn meter(&self) -> Option<&dyn Meter> {
        self.meter.as_deref()
    }

    /// Cut off all async attempts, now and from now on.
    pub(crate) fn cancel(&self) {
        self.cancelled.cancel();
    }

    /// One attempt. What the handler puts into `patch` stays there, however it ends.
    pub(crate) async fn invoke(
        &self,
        cause: &HandlerCall,
        about: &Reference,
        patch: &mut Patch,
    ) -> Result<Outcome, Cancelled> {
        let stop = CutOff {
            cancelled: &self.cancelled,
            end: EndOfCall::Stop,
        };
        self.invoke_until(cause, about, patch, stop).await
    }

    /// One attempt of a daemon or timer, which is cut off by itself.
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
        let called = self.called(cause, about, patch, stop);
        let called = called.instrument(metered.span()).await;
        metered.end(called.as_ref().ok());
        called
    }

    async fn called(
        &self,
        cause: &HandlerCall,
        about: &Reference,
        patch: &mut Patch,
        stop: CutOff<'_>,
    ) -> Result<Outcome, Cancelled> {
        let span = span(cause, about);
        match &cause.handler.callee {
            Callee::Fn(Function::Async(function)) => {
                self.call(*function, cause, span, (patch, stop)).await
            }
            Callee::Closure(function) => {
                let function = function.clone();
                self.call(
                    move |cause, patch| function(cause, patch),
                    cause,
                    span,
                    (patch, stop),
                )
                .await
            }
            Callee::Fn(Function::Blocking(function)) => {
                // Boxed, as is the next one: async calls are many, and store what the largest of these needs.
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
    }

    async fn call(
        &self,
        call: impl for<'a> FnOnce(&'a Cause, &'a mut Patch) -> Calling<'a> + Send + 'static,
        cause: &HandlerCall,
        span: Span,
        (patch, stop): (&mut Patch, CutOff<'_>),
    ) -> Result<Outcome, Cancelled> {
        if let Some(runtime) = self.other_runtime() {
            let called = self.on_runtime(runtime, call, cause, span, (patch, stop));
            return Box::pin(called).await;
        }
        let left = self.left(cause);
        let called = attempt(call, cause, left, stop.cancelled, patch);
        called.instrument(span).await
    }

    /// The runtime of handlers, unless the caller is on it: a sub-handler runs where its parent does.
    fn other_runtime(&self) -> Option<&Handle> {
        let handlers = self.handlers.as_ref()?;
        let is_here = Handle::try_current().is_ok_and(|here| here.id() == handlers.id());
        (!is_here).then_some(handlers)
    }

    /// An attempt that does not give its thread back cannot be cut off: the operator's stop waits for it, and that is said.
    async fn on_runtime(
        &self,
        runtime: &Handle,
        call: impl for<'a> FnOnce(&'a Cause, &'a mut Patch) -> Calling<'a> + Send + 'static,
        cause: &HandlerCall,
        span: Span,
        (patch, stop): (&mut Patch, CutOff<'_>),
    ) -> Result<Outcome, Cancelled> {
        let (left, cancelled) = (self.left(cause), stop.cancelled.clone());
        let (attempted, begin) = (cause.clone(), Begin::new(std::mem::take(patch)));
        let of_task = begin.clone();
        let task = async move {
            let mut taken = of_task.begin()?;
            let called = attempt(call, &attempted, left, &cancelled, &mut taken).await;
            Some((called, taken))
        };
        let mut task = AbortOnDropHandle::new(runtime.spawn(task.instrument(span)));
        let ended = tokio::select! {
            biased;
            ended = &mut task => ended,
            () = stop.is_past(GRACE) => {
                if let Some(untouched) = begin.call_off() {
                    *patch = untouched;
                    return Err(Cancelled);
                }
                report_overdue(cause, stop.end);
                task.await
            }
        };
        match ended {
            Ok(Some((called, changed))) => {
                *patch = changed;
                called
            }
            Ok(None) => Err(Cancelled),
            Err(error) if error.is_cancelled() => Err(Cancelled),
            Err(error) => Ok(Outcome::Arbitrary {
                message: error.to_string(),
            }),
        }
    }

    /// A thread cannot be interrupted: it is waited for, past its timeout and past the operator's stop, and that is said.
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
        let (attempt, begin) = (cause.clone(), Begin::new(std::mem::take(patch)));
        let (span, of_thread) = (Span::current(), begin.clone());
        let work = move || {
            let _place = place;
            let mut taken = of_thread.begin()?;
            let current = Arc::new(attempt.cause.clone());
            let called = || {
                let _current = current::enter(&current);
                function(&attempt, &mut taken)
            };
            let returned = span.in_scope(|| caught(called));
            Some((returned, taken))
        };
        let runtime = self.handlers.clone().unwrap_or_else(Handle::current);
        let thread: Thread<_> = if needs_no_place {
            on_its_own_thread(runtime, work)
        } else {
            let thread = runtime.spawn_blocking(work);
            Box::pin(async move { thread.await.map_err(|error| error.to_string()) })
        };
        match self.patiently(cause, (&begin, patch), thread, stop).await {
            Ok(Some((returned, changed))) => {
                *patch = changed;
                Ok(ended(returned))
            }
            Ok(None) => Err(Cancelled),
            Err(message) => Ok(Outcome::Arbitrary { message }),
        }
    }

    /// Wait for the thread of a blocking handler, and report when the handler should have ended. `None` where the operator stops before
    /// the call has begun: other blocking handlers may have taken all threads.
    async fn patiently<T>(
        &self,
        cause: &HandlerCall,
        (begin, patch): (&Begin, &mut Patch),
        mut thread: Thread<T>,
        stop: CutOff<'_>,
    ) -> Result<Option<T>, String> {
        if let (Some(limit), Some(left)) = (cause.handler.timeout(), self.left(cause)) {
            tokio::select! {
                biased;
                ended = &mut thread => return ended,
                () = stop.cancelled.cancelled() => {}
                () = tokio::time::sleep(left) => if begin.has_begun() {
                    report_overdue(cause, EndOfCall::Timeout(limit));
                }
            }
        }
        tokio::select! {
            biased;
            ended = &mut thread => return ended,
            () = stop.cancelled.cancelled() => {}
        }
        if let Some(untouched) = begin.call_off() {
            *patch = untouched;
            return Ok(None);
        }
        report_overdue(cause, stop.end);
        thread.await
    }

    /// The rest of the handler's timeout.
    fn left(&self, cause: &HandlerCall) -> Option<Duration> {
        let limit = cause.handler.timeout()?;
        if cause.attempt.is_first {
            return Some(limit);
        }
        let spent = self.clock.now().duration_since(cause.attempt.started);
        Some(limit.saturating_sub(Duration::try_from(spent).unwrap_or_default()))
    }
}

/// The reasons that cut a call off.
#[derive(Clone, Copy)]
struct CutOff<'a> {
    cancelled: &'a CancellationToken,
    /// Why, as it is said.
    end: EndOfCall,
}

impl CutOff<'_> {
    /// Until it has been so for so long.
    async fn is_past(&self, grace: Duration) {
        self.cancelled.cancelled().await;
        tokio::time::sleep(grace).await;
    }
}

/// A daemon has its thread for as long as its object is there: it would keep others from theirs. A login has its own, too, since those that have
/// the threads may wait for the login.
fn has_its_own_thread(handler: &Handler) -> bool {
    let is_daemon = |(kind, _)| kind == BackgroundKind::Daemon;
    handler.background().is_some_and(is_daemon) || handler.activity() == Some(Activity::Login)
}

/// The outcome of a call on a thread of its own; `None` where the call was cancelled before it began.
type Thread<T> = Pin<Box<dyn Future<Output = Result<Option<T>, String>> + Send>>;

/// Run `work` on a thread that is no one else's.
fn on_its_own_thread<T: Send + 'static>(
    runtime: Handle,
    work: impl FnOnce() -> Option<T> + Send + 'static,
) -> Thread<T> {
    let (done, waits) = oneshot::channel();
    let listener = dispatcher::get_default(Clone::clone);
    let begun = std::thread::Builder::new()
        .name("kopf-handler".to_owned())
        .spawn(move || {
            let _runtime = runtime.enter();
            let worked = dispatcher::with_default(&listener, work);
            // Nobody may wait for it any more.
            drop(done.send(worked));
        });
    Box::pin(async move {
        begun.map_err(|error| format!("there is no thread for it: {error}"))?;
        waits.await.map_err(|_| "its thread has ended".to_owned())
    })
}

fn report_overdue(cause: &HandlerCall, end: EndOfCall) {
    let handler = cause.handler.clone();
    report(cause.logger(), &Happening::RunsOn { handler, end });
}

/// An async attempt, on whichever runtime this is polled.
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
            return ended(calling.await);
        };
        match tokio::time::timeout(left, calling).await {
            Ok(returned) => ended(returned),
            Err(_) => Outcome::TimedOut {
                after: cause.handler.timeout().unwrap_or(left),
            },
        }
    };
    tokio::select! {
        biased;
        outcome = outcome => Ok(outcome),
        () = cancelled.cancelled() => Err(Cancelled),
    }
}

/// One attempt of a plain function that must not block, at once and on this thread.
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
    ended(span(cause, about).in_scope(|| caught(called)))
}

fn ended(returned: Result<Returned, Panicked>) -> Outcome {
    returned.map_or_else(|Panicked(message)| Outcome::Panicked { message }, outcome)
}

/// A handler's return value as an outcome.
pub(super) fn outcome(returned: Returned) -> Outcome {
    match returned {
        Ok(result) => Outcome::Succeeded(result),
        Err(HandlerError::Temporary(error)) => Outcome::Temporary {
            message: error.to_string(),
            delay: error.delay_wanted(),
            child: error.child(),
        },
        Err(HandlerError::Permanent(error)) => Outcome::Permanent {
            message: error.to_string(),
            child: error.child(),
        },
        Err(HandlerError::Admission(error)) => Outcome::Denied {
            message: error.to_string(),
            denial: error.into_denial(),
        },
        Err(error) if error.is_unfinished() => Outcome::Waiting,
        Err(error) => Outcome::Arbitrary {
            message: error.to_string(),
        },
    }
}

/// The span that attributes lines of plain `tracing` macros to the handler's object. Without a subscriber, none is made.
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

/// The state of a call on a thread.
#[derive(Default)]
enum Running {
    #[default]
    Ours,
    /// User code, and where it panicked, if it did and the process is the operator's own.
    Users(Option<String>),
}

thread_local! {
    static RUNNING: RefCell<Running> = const { RefCell::new(Running::Ours) };
}

/// From now on panics of handlers are reported as their errors only, place included. Only for programs that are nothing but an operator: the
/// panic hook is the process's.
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

/// Runs `user` code; the error is its panic, with the place.
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

/// A call whose panics are values, and that is watched while it runs.
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
        Self {
            cause,
            calling: watched.poll(|| caught(called)).map_err(Some),
            watched,
            current,
        }
    }
}

impl Future for Caught<'_> {
    type Output = Result<Returned, Panicked>;

    fn poll(mut self: std::pin::Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self {
            calling,
            watched,
            current,
            ..
        } = &mut *self;
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
    /// What a call holds that is cut off is dropped now, by code of the user: as any part of the call.
    fn drop(&mut self) {
        let Ok(calling) = std::mem::replace(&mut self.calling, Err(None)) else {
            return;
        };
        let dropped = self.watched.poll(|| caught(|| drop(calling)));
        if let Err(Panicked(panic)) = dropped {
            let handler = self.cause.handler.clone();
            let happening = Happening::PanickedWhenCutOff { handler, panic };
            report(self.cause.logger(), &happening);
        }
    }
}

#[cfg(test)]
mod tests;
