#![allow(unused)]

use kopf_rs::prelude::*;

#[on_create("kopfexamples")]
async fn create_fn() -> HandlerResult {
    let pod = json!({"kind": "Pod"});
    adopt(pod)?;
    Ok(())
}

fn main() {}
