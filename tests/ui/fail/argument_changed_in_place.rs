#![allow(unused)]

use kopf_rs::prelude::*;

#[on_create("kopfexamples")]
async fn create_fn(spec: &mut Value, memo: &mut Memo) {}

fn main() {}
