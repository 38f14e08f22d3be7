//! Hands calls over to the runtime of handlers, and their results back, in batches.
//!
//! Waking a thread costs more than most calls do. Hence neither a call nor its end wakes the other runtime by itself: a task, the ferry,
//! hands over all calls and all ends that have accumulated since its last turn. It runs after all tasks that were ready before it.
//! Guarantees that a call is cut off when its caller stops waiting for it. Must not know handlers.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};

use futures_util::FutureExt;
use futures_util::future::{AbortHandle, BoxFuture, abortable};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio_util::task::AbortOnDropHandle;

use crate::handler::outcome::panic_text;
use crate::rt::task;

/// The way to the runtime of handlers.
pub(super) struct Handover {
    crossing: Arc<Crossing>,
    /// Started by the first call.
    ferry: OnceLock<AbortOnDropHandle<()>>,
}

struct Crossing {
    handlers: Handle,
    calls: Mutex<Vec<BoxFuture<'static, ()>>>,
    ends: Mutex<Vec<Delivery>>,
    /// Notified when there is something to hand over.
    news: Notify,
}

/// Notifies the caller that waits for the end of a call. Runs on the thread of the ferry, so that it wakes no other thread.
type Delivery = Box<dyn FnOnce() + Send>;

/// The result of a call; the error is a panic of the framework's own code. `None` if the runtime ended before.
type End<T> = Option<Result<T, String>>;

impl Handover {
    pub(super) fn to(handlers: Handle) -> Self {
        Self {
            crossing: Arc::new(Crossing {
                handlers,
                calls: Mutex::default(),
                ends: Mutex::default(),
                news: Notify::new(),
            }),
            ferry: OnceLock::new(),
        }
    }

    pub(super) fn handlers(&self) -> &Handle {
        &self.crossing.handlers
    }

    /// Runs `call` on the runtime of handlers. Dropping this future drops the call there.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        call: impl Future<Output = T> + Send + 'static,
    ) -> End<T> {
        let (end, ended) = oneshot::channel();
        let (call, cut_off) = abortable(AssertUnwindSafe(call).catch_unwind());
        let _cut_off = CutOffOnDrop(cut_off);
        let crossing = self.crossing.clone();
        let call = async move {
            let Ok(called) = call.await else {
                return;
            };
            let deliver = move || drop(end.send(called));
            crossing.put(&crossing.ends, Box::new(deliver));
        };
        self.crossing.put(&self.crossing.calls, call.boxed());
        self.ferry.get_or_init(|| {
            let ferry = self.crossing.clone().ferry();
            AbortOnDropHandle::new(task::spawn(ferry))
        });
        let called = ended.await.ok()?;
        Some(called.map_err(|panic| {
            let text = panic_text(panic.as_ref()).unwrap_or("a value that is no text");
            format!("the call has panicked: {text}")
        }))
    }
}

impl Drop for Handover {
    /// Clears the waiting calls to break a reference cycle: calls that were not handed over hold the crossing, and it holds them.
    fn drop(&mut self) {
        taken(&self.crossing.calls);
    }
}

impl Crossing {
    fn put<T>(&self, to: &Mutex<Vec<T>>, what: T) {
        to.lock().push(what);
        self.news.notify_one();
    }

    async fn ferry(self: Arc<Self>) {
        loop {
            self.news.notified().await;
            for call in taken(&self.calls) {
                self.handlers.spawn(call);
            }
            for deliver in taken(&self.ends) {
                deliver();
            }
        }
    }
}

fn taken<T>(from: &Mutex<Vec<T>>) -> Vec<T> {
    std::mem::take(&mut *from.lock())
}

/// Cuts the call off when it is dropped.
struct CutOffOnDrop(AbortHandle);

impl Drop for CutOffOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake, Waker};

    use tokio::runtime::Builder;

    use super::*;

    /// Counts how often it is woken.
    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Polls the ferry by hand instead of running its task, to count its turns.
    #[tokio::test]
    async fn many_calls_and_their_ends_take_one_turn_of_the_ferry_each_way() {
        let handlers = Builder::new_multi_thread().worker_threads(1).build();
        let handlers = handlers.unwrap();
        let handover = Handover::to(handlers.handle().clone());
        let idle = AbortOnDropHandle::new(tokio::spawn(std::future::pending()));
        assert!(handover.ferry.set(idle).is_ok());
        let woken = Arc::new(Woken::default());
        let turns = || woken.0.load(Ordering::Relaxed);
        let waker = Waker::from(woken.clone());
        let mut context = Context::from_waker(&waker);
        let mut ferry = Box::pin(handover.crossing.clone().ferry());
        assert!(ferry.poll_unpin(&mut context).is_pending());
        let mut calls: Vec<_> =
            (0..50).map(|number| Box::pin(handover.call(async move { number }))).collect();
        for call in &mut calls {
            assert!(call.now_or_never().is_none());
        }
        assert_eq!(turns(), 1, "the ferry is woken once for all calls");
        assert!(ferry.poll_unpin(&mut context).is_pending());
        // All calls have ended, and no caller has been notified yet.
        while handover.crossing.ends.lock().len() < calls.len() {
            tokio::task::yield_now().await;
        }
        assert_eq!(turns(), 2, "and once for all ends");
        assert!(ferry.poll_unpin(&mut context).is_pending());
        for (number, call) in calls.into_iter().enumerate() {
            assert_eq!(call.now_or_never(), Some(Some(Ok(number))));
        }
        handlers.shutdown_background();
    }

    #[tokio::test]
    async fn a_call_that_nobody_waits_for_is_cut_off_and_a_panic_is_told() {
        let handlers = Builder::new_multi_thread().worker_threads(1).build();
        let handlers = handlers.unwrap();
        let handover = Handover::to(handlers.handle().clone());
        let (held, dropped) = oneshot::channel::<()>();
        let (begun, has_begun) = oneshot::channel();
        let endless = async move {
            let _held = held;
            begun.send(()).unwrap();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            _ = handover.call(endless) => unreachable!("it does not end"),
            begun = has_begun => begun.unwrap(),
        }
        assert!(dropped.await.is_err(), "it was dropped");
        let panics = handover.call(async { panic!("it breaks") }).await;
        let panics: Result<(), String> = panics.unwrap();
        assert_eq!(panics.unwrap_err(), "the call has panicked: it breaks");
        handlers.shutdown_background();
    }
}
