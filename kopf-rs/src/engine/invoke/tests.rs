//! Calls that wait for a thread when the operator stops.

use std::sync::Mutex;
use std::sync::mpsc::channel;

use futures_util::FutureExt;
use serde_json::json;
use tokio::runtime::Builder;

use super::*;
use crate::handler::definition::Handler;
use crate::handler::error::HandlerResult;
use crate::handler::registry::Registry;
use crate::handler::registry::callback::handler;
use crate::handler::testing::{cause, myapp};

fn called() -> Handler {
    let called = handler("create", |_| async { Ok(()) });
    let handler = {
        let registry = Registry::new().on_create("myapps", called);
        registry.handlers()[0].clone()
    };
    Arc::into_inner(handler).unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_gets_no_thread_before_the_operator_stops_has_not_begun() {
    let mut builder = Builder::new_multi_thread();
    let threads = builder.worker_threads(1).max_blocking_threads(1);
    let threads = threads.build().unwrap();
    // Nobody tells these that they may end.
    let (_open, ends) = channel::<()>();
    let ends = Arc::new(Mutex::new(ends));
    let (first, second) = (ends.clone(), ends);
    threads.spawn(async move { first.lock().map(|ends| ends.recv()).is_ok() });
    threads.spawn_blocking(move || second.lock().map(|ends| ends.recv()).is_ok());
    let blocking = Handler {
        callee: Callee::Fn(Function::Blocking(|_, _| Ok(None))),
        ..called()
    };
    for handler in [called(), blocking] {
        let call = cause(&Arc::new(handler), myapp());
        let invoker = Invoker::new(Clock::start(), 10, Some(threads.handle().clone()));
        let mut patch = Patch::new();
        patch.merge(json!({"spec": {"of": "another call"}}));
        let about = Reference::default();
        let ended = {
            let call = invoker.invoke(&call, &about, &mut patch);
            let stop = async {
                tokio::task::yield_now().await;
                invoker.cancel();
            };
            let ended = async { tokio::join!(call, stop).0 };
            tokio::time::timeout(Duration::from_secs(10), ended).await
        };
        assert!(matches!(ended, Ok(Err(Cancelled))), "{ended:?}");
        assert_eq!(patch["spec"]["of"], "another call");
    }
    threads.shutdown_background();
}

/// What a handler holds, and what panics when it is let go.
struct Fragile;

impl Drop for Fragile {
    fn drop(&mut self) {
        panic!("it breaks");
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_when_it_is_cut_off_has_timed_out() {
    let held = || async {
        let _held = Fragile;
        std::future::pending::<HandlerResult>().await
    };
    let handler = {
        let called = handler("create", move |_| held()).timeout(5);
        let registry = Registry::new().on_create("myapps", called);
        registry.handlers()[0].clone()
    };
    let call = cause(&handler, myapp());
    let invoker = Invoker::new(Clock::start(), 10, None);
    let (mut patch, about) = (Patch::new(), Reference::default());
    let called = AssertUnwindSafe(invoker.invoke(&call, &about, &mut patch));
    let called = called.catch_unwind().await;
    let is_timeout = matches!(called, Ok(Ok(Outcome::TimedOut { .. })));
    assert!(is_timeout, "{:?}", called.map_err(|_| "it has panicked"));
}
