#![allow(unused)]

use kopf_rs::prelude::*;

#[on_startup]
fn begin(owner: Owner) {}

#[on_cleanup]
async fn end(owner: kopf_rs::Owner, logger: Logger) {}

#[on_event("kopfexamples")]
fn seen(owner: Owner) {}

fn main() {}
