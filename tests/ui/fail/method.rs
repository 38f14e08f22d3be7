#![allow(unused)]

use kopf_rs::prelude::*;

struct Handlers;

impl Handlers {
    #[on_create("kopfexamples")]
    async fn create_fn(&self, spec: Value) {}
}

fn main() {}
