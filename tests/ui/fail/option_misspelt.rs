#![allow(unused)]

use kopf_rs::prelude::*;

#[on_create("kopfexamples", retires = 3, backof = 1)]
async fn create_fn() {}

fn main() {}
