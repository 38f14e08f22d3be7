#![allow(unused)]

use kopf_rs::prelude::*;

struct NoResource;

#[on_create(NoResource)]
async fn create_fn() {}

fn main() {}
