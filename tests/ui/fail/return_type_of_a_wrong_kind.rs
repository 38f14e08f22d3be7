#![allow(unused)]

use kopf_rs::prelude::*;

#[on_create("kopfexamples")]
async fn number() -> u32 {
    1
}

struct Opaque;

#[on_create("kopfexamples")]
async fn opaque() -> HandlerResult<Opaque> {
    Ok(Opaque)
}

#[on_create("kopfexamples")]
async fn odd_error() -> Result<(), Opaque> {
    Ok(())
}

fn main() {}
