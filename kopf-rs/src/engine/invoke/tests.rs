//! Tests calls that wait for a thread when the operator stops, that are cut off, and that ask for their current object.

use std::sync::mpsc::channel;

use futures_util::FutureExt;
use parking_lot::Mutex;
use serde_json::json;
use tokio::runtime::Builder;

use super::*;
use crate::handler::definition::Handler;
use crate::handler::error::HandlerResult;
use crate::handler::owner::Owner;
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
    // These occupy all threads: they never receive anything.
    let (_open, ends) = channel::<()>();
    let ends = Arc::new(Mutex::new(ends));
    let (first, second) = (ends.clone(), ends);
    threads.spawn(async move { first.lock().recv() });
    threads.spawn_blocking(move || second.lock().recv());
    let blocking = Handler { callee: Callee::Fn(Function::Blocking(|_, _| Ok(None))), ..called() };
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

/// Panics when it is dropped; held by a handler.
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

/// Returns the name of the current object; an error in tasks and threads that the handler has spawned.
fn current_name() -> Result<String, String> {
    let owner = Owner::current().map_err(|error| error.to_string())?;
    let mut named = json!({});
    owner.strict().harmonize_naming(&mut named).unwrap();
    Ok(named["metadata"]["name"].to_string())
}

#[tokio::test(start_paused = true)]
async fn the_object_of_a_call_is_the_current_one_while_it_is_made() {
    let ask = |_| {
        // Asks before the future exists, between its polls, and in a spawned task.
        let first = current_name();
        async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let elsewhere = tokio::spawn(async { current_name() }).await;
            assert!(elsewhere.unwrap().is_err());
            assert_eq!(first, current_name());
            Ok(json!(first?))
        }
    };
    let asking = {
        let registry = Registry::new().on_create("myapps", handler("create", ask));
        registry.handlers()[0].clone()
    };
    let blocking = Arc::new(Handler {
        callee: Callee::Fn(Function::Blocking(|_, _| Ok(Some(json!(current_name()?))))),
        ..called()
    });
    let invoker = Invoker::new(Clock::start(), 10, None);
    for handler in [asking, blocking] {
        let (first, second) = (
            cause(&handler, myapp()),
            cause(&handler, {
                let mut other = myapp();
                other["metadata"]["name"] = json!("other");
                other
            }),
        );
        let (mut one, mut two) = (Patch::new(), Patch::new());
        let about = Reference::default();
        let both =
            tokio::join!(invoker.invoke(&first, &about, &mut one), invoker.invoke(&second, &about, &mut two));
        let (Ok(Outcome::Succeeded(first)), Ok(Outcome::Succeeded(second))) = both else {
            panic!("{both:?}");
        };
        assert_eq!(first, Some(json!("\"example-app\"")));
        assert_eq!(second, Some(json!("\"other\"")));
    }
    assert!(current_name().is_err());
}
