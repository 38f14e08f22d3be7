#![allow(unused)]

use kopf_rs::Subhandlers;
use kopf_rs::prelude::*;

#[on_event("kopfexamples")]
async fn watch(subs: Subhandlers) {}

#[on_startup]
fn begin(children: kopf_rs::Subhandlers) {}

#[on_event("kopfexamples")]
#[on_create("kopfexamples")]
async fn both(subs: Subhandlers) {}

#[on_update("kopfexamples")]
async fn change(subs: Subhandlers) {}

fn main() {}
