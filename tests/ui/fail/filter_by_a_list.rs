#![allow(unused)]

use kopf_rs::prelude::*;

#[on_create("kopfexamples", labels = {"a": ["x", "y"]})]
async fn create_fn() {}

fn main() {}
