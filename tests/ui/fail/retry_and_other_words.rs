#![allow(unused)]

use kopf_rs::prelude::*;

#[on_create("kopfexamples", retry = 3, label = {"app": "x"}, delay = 5, name = "other")]
async fn create_fn() {}

fn main() {}
