#![allow(unused)]

use kopf_rs::prelude::*;

#[on_event("kopfexamples")]
async fn watch(diff: &Diff) {}

#[on_startup]
async fn begin(spec: Value) {}

#[on_login]
async fn log_in(client: Client) -> HandlerResult<ConnectionInfo> {
    todo!()
}

fn main() {}
