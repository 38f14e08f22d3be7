#![allow(unused)]

use kopf_rs::prelude::*;

#[on_create("kopfexamples", retries = 3, timeout = 1, retries = 4)]
async fn create_fn() {}

fn main() {}
