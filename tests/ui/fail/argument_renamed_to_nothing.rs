#![allow(unused)]

use kopf_rs::prelude::*;

#[on_create("kopfexamples")]
async fn create_fn(#[from(spce)] s: Value, #[from] t: Value) {}

fn main() {}
