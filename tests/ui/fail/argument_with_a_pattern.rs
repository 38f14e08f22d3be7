#![allow(unused)]

use kopf_rs::prelude::*;

#[on_create("kopfexamples")]
async fn create_fn((a, b): (u8, u8), _: Value) {}

fn main() {}
