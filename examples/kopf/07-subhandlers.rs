//! A sub-handler for each item of the object. Each is retried on its own.
//!
//! ```sh
//! kopf-rs run examples/kopf/07-subhandlers.rs --embedded --apply examples/kopf --verbose
//! ```

use kopf_rs::prelude::*;

#[on_create("kopfexamples")]
async fn create_fn(#[from(spec.items)] items: Option<Vec<String>>, subs: Subhandlers) -> HandlerResult {
    for item in items.unwrap_or_default() {
        subs.add(create_item_fn::id(&item).param(item));
    }
    subs.execute().await?;
    Ok(())
}

#[subhandler]
async fn create_item_fn(item: &str) {
    info!("=== Handling creation for {item}. ===");
}
