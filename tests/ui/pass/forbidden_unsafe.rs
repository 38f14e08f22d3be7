//! Code that forbids `unsafe`, and every warning, can declare handlers.

#![forbid(unsafe_code)]
#![deny(warnings, missing_docs, clippy::all, clippy::pedantic)]

use kopf_rs::prelude::*;

/// Creates.
///
/// # Errors
/// Never.
#[on_create("kopfexamples")]
pub(crate) async fn create_fn(spec: Value, logger: Logger) -> HandlerResult<Value> {
    std::future::ready(()).await;
    info!(logger, "created with {spec}");
    Ok(spec)
}

#[test]
fn it_is_registered() {
    let registry = kopf_rs::Registry::in_module(module_path!()).unwrap();
    assert_eq!(registry.len(), 1);
}
