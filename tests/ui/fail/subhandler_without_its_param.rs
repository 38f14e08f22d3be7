#![allow(unused)]

use kopf_rs::prelude::*;

#[subhandler]
async fn handle(item: &str) {}

#[on_create("kopfexamples")]
async fn create_fn(subs: Subhandlers) {
    subs.add(handle::id("a"));
}

fn main() {}
