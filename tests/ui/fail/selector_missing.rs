#![allow(unused)]

use kopf_rs::prelude::*;

#[on_create]
async fn create_fn() {}

#[on_create(group = "kopf.dev")]
async fn grouped() {}

fn main() {}
