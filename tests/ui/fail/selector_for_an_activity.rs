#![allow(unused)]

use kopf_rs::prelude::*;

#[on_startup("kopfexamples")]
async fn begin() {}

fn main() {}
