#![allow(unused)]

use kopf_rs::prelude::*;

#[on_field("kopfexamples")]
async fn field_fn() {}

fn main() {}
