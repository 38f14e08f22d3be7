#![allow(unused)]

use kopf_rs::prelude::*;

#[on_create("kopfexamples", labels = {"app": None, "tier": 5})]
async fn create_fn() {}

fn main() {}
