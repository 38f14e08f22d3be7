#![allow(unused)]

use kopf_rs::prelude::*;

#[on_update("kopfexamples", value = 1)]
#[on_update("kopfexamples", old = 1, new = 2)]
async fn update_fn() {}

fn main() {}
