#![allow(unused)]

use kopf_rs::prelude::*;

#[on_create("kopfexamples", when = |spec| spec["size"] == 5)]
async fn by_spec() {}

#[on_create("kopfexamples", when = |labels| labels.contains_key("x"))]
async fn by_labels() {}

#[on_create("kopfexamples", when = |name, namespace| name == namespace)]
async fn by_two() {}

fn main() {}
