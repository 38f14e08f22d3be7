#![allow(unused)]

use kopf_rs::prelude::*;

#[on_create("kopfexamples", kind = "KopfExample")]
async fn create_fn() {}

#[on_create(plural = "kopfexamples", kind = "KopfExample")]
async fn keywords() {}

#[on_create("a", "b", "c", "d")]
async fn four() {}

fn main() {}
