#![allow(unused)]

use kopf_rs::prelude::*;

#[on_update("kopfexamples", field = spec.size)]
async fn with_a_path() {}

#[on_update("kopfexamples", field = spec)]
async fn with_a_word() {}

#[on_create("kopfexamples", labels = {tier: "gold", app.kubernetes.io/name: "x"})]
async fn with_labels() {}

fn main() {}
