#![allow(unused)]

use kopf_rs::prelude::*;

struct Db;

#[on_create("kopfexamples")]
async fn create_fn(db: Db) {}

fn main() {}
