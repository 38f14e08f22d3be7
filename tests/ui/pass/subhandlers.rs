//! Sub-handlers that are functions, and closures with what they keep.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kopf_rs::Registry;
use kopf_rs::prelude::*;

#[derive(Clone)]
struct Item {
    size: u64,
}

#[on_create("kopfexamples")]
async fn create_fn(spec: Vec<Value>, subs: Subhandlers) -> HandlerResult {
    let made = Arc::new(AtomicUsize::new(0));
    for item in spec.iter().filter_map(Value::as_str) {
        subs.add(handle::id(item).param(item));
        subs.add(owned::id(format!("{item}-owned")).param(item.to_owned()));
        subs.add(handler_with(
            format!("{item}-closure"),
            (item.to_owned(), made.clone()),
            async |cause, (item, made)| {
                if cause.retry() == 0 {
                    retry!(5, "{item} is not ready");
                }
                made.fetch_add(1, Ordering::Relaxed);
                Ok(())
            },
        ));
    }
    subs.add(sized::id(1).param(Item { size: 1 }).timeout(30));
    subs.add(counted::handler().param(7));
    subs.add(tidy::handler());
    subs.add(deep::named::handler());
    subs.execute().await
}

#[subhandler(retries = 3)]
async fn handle(item: &str, logger: Logger) -> HandlerResult {
    if item.is_empty() {
        return Err(PermanentError::new("an item cannot be empty"));
    }
    info!(logger, "handling {item}");
    Ok(())
}

#[subhandler]
fn owned(item: String, name: &str) -> HandlerResult<String> {
    Ok(format!("{name} has {item}"))
}

#[subhandler(backoff = 5)]
async fn sized(item: &Item, subs: Subhandlers) {
    subs.add(counted::id("deeper").param(item.size));
}

#[subhandler(id = "count")]
async fn counted(size: u64) -> HandlerResult<u64> {
    Ok(size)
}

#[subhandler(when = |cause| cause.labels().get("tier") == Some("gold"), param = Item { size: 5 })]
async fn tidy(item: Option<&Item>) {
    let _ = item;
}

/// A function may be a handler of its own, too.
#[on_update("kopfexamples", param = 5)]
#[subhandler]
async fn both(param: u64) {
    let _ = param;
}

mod deep {
    use kopf_rs::prelude::*;

    #[subhandler]
    pub(super) async fn named(cause: &Cause) {
        let _ = cause;
    }

    pub(super) fn named_again() -> Callback {
        // A function of that name is in the way of nothing.
        let named = named::id("again");
        named.retries(2)
    }
}

#[test]
fn sub_handlers_are_no_handlers_of_their_own() {
    let registry = Registry::in_module(module_path!()).unwrap();
    assert_eq!(registry.len(), 2);
}

#[tokio::test]
async fn parents_register_them() {
    let subs = Subhandlers::new();
    create_fn(vec![json!("a")], subs.clone()).await.unwrap();
    // Executing them has taken them all: nobody runs them in a unit test.
    assert!(subs.ids().is_empty());
    subs.add(handle::id("a").param("a"));
    subs.add(counted::handler().param(1));
    subs.add(tidy::handler());
    subs.add(both::handler().param(1));
    subs.add(deep::named_again());
    assert_eq!(subs.ids(), ["a", "count", "tidy", "both", "again"]);
}

#[tokio::test]
async fn functions_stay_functions() {
    assert!(handle("", Logger::new()).await.is_err());
    assert_eq!(owned("x".into(), "one").unwrap(), "one has x");
    sized(&Item { size: 1 }, Subhandlers::new()).await;
    assert_eq!(counted(5).await.unwrap(), 5);
    tidy(None).await;
    both(5).await;
    deep::named(&Cause::of(json!({}))).await;
}
