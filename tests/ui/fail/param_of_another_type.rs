#![allow(unused)]

use kopf_rs::prelude::*;

#[on_create("kopfexamples", param = "text")]
async fn create_fn(param: u32) {}

fn main() {}
