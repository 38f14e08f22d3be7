#![allow(unused)]

use kopf_rs::prelude::*;

#[on_create("kopfexamples")]
async fn create_fn(nmae: &str, namspace: Option<&str>) {}

fn main() {}
