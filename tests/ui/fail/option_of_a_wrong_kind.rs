#![allow(unused)]

use kopf_rs::prelude::*;

#[on_delete(
    "kopfexamples",
    id = 5,
    errors = permament,
    timeout = "soon",
    retries = 1.5,
    backoff = -1,
    field = "spec..size",
    optional = 3,
    labels = "app",
)]
async fn delete_fn() {}

fn main() {}
