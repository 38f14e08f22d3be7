//! A sub-handler for each item.

use kopf_rs::prelude::*;

#[on_create("shops.example.com")]
#[on_update("shops.example.com", field = "spec.items")]
async fn stock(#[from(spec.items)] items: Vec<String>, subs: Subhandlers) -> HandlerResult<usize> {
    subs.extend(items.iter().map(|item| fill::id(item).param(item)));
    subs.execute().await?;
    Ok(items.len())
}

#[subhandler(retries = 3)]
async fn fill(item: &str, retry: u32) -> HandlerResult<Value> {
    if item == "rare" && retry < 2 {
        retry!(30, "{item} has not come yet");
    }
    info!("{item} is in stock");
    Ok(json!({"filled": true}))
}
