#![allow(unused)]

use kopf_rs::prelude::*;

#[on_create("kopfexamples")]
async fn create_fn() {
    let local = std::rc::Rc::new(1);
    std::future::ready(()).await;
    drop(local);
}

fn main() {}
