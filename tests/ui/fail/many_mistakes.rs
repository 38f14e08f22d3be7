#![allow(unused)]

use kopf_rs::prelude::*;

#[on_create("kopfexamples", retires = 3)]
#[on_update("kopfexamples", optional)]
async fn create_fn(nmae: &str, spec: &mut Value, (a, b): (u8, u8)) {}

fn still_there() {
    let _ = create_fn;
}

fn main() {}
