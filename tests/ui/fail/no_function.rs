#![allow(unused)]

use kopf_rs::prelude::*;

#[on_create("kopfexamples")]
struct CreateFn;

fn main() {}
