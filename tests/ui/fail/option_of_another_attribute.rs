#![allow(unused)]

use kopf_rs::prelude::*;

#[on_create("kopfexamples", old = 1, optional, deleted)]
#[on_event("kopfexamples", retries = 3)]
async fn create_fn() {}

fn main() {}
