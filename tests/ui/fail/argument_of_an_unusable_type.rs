#![allow(unused)]

use kopf_rs::prelude::*;

#[on_create("kopfexamples")]
async fn create_fn(name: u64, retry: &str, logger: String) {}

fn main() {}
