#![allow(unused)]

use kopf_rs::prelude::*;

#[on_create("kopfexamples")]
async fn create_fn<T, const N: usize>(spec: Value) {}

#[on_create("kopfexamples")]
async fn update_fn(spec: impl Into<String>) {}

fn main() {}
