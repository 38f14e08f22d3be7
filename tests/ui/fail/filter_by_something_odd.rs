#![allow(unused)]

use kopf_rs::prelude::*;

struct Odd;

#[on_create("kopfexamples", field = "spec", value = Odd)]
async fn create_fn() {}

fn main() {}
