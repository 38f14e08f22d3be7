#![allow(unused)]

use kopf_rs::prelude::*;

#[on_create("kopfexamples")]
const fn constant() {}

#[on_create("kopfexamples")]
unsafe fn careless() {}

#[on_create("kopfexamples")]
extern "C" fn foreign() {}

#[on_create("kopfexamples")]
async fn endless() -> ! {
    loop {}
}

fn main() {}
