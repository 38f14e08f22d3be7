#![allow(unused)]

use kopf_rs::prelude::*;

#[on_create("kopfexamples", colour = "red")]
async fn create_fn() {}

fn main() {}
