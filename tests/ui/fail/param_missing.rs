#![allow(unused)]

use kopf_rs::prelude::*;

#[on_create("kopfexamples", param = 1)]
#[on_resume("kopfexamples")]
async fn create_fn(param: u32) {}

fn main() {}
