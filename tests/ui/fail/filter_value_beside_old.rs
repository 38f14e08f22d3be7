#![allow(unused)]

use kopf_rs::prelude::*;

#[on_update("kopfexamples", field = "spec.size", value = 1, old = 2)]
async fn update_fn() {}

fn main() {}
