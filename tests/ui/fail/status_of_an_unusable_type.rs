#![allow(unused)]

use kopf_rs::prelude::*;

struct NoJson;

#[on_create("kopfexamples")]
async fn create_fn(status: &mut Status<NoJson>) {}

fn main() {}
