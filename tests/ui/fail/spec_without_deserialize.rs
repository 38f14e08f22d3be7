#![allow(unused)]

use kopf_rs::prelude::*;

struct MyAppSpec {
    image: String,
}

#[on_create("kopfexamples")]
async fn create_fn(spec: MyAppSpec) {}

fn main() {}
