#![allow(unused)]

use kopf_rs::prelude::*;

struct Item;

#[subhandler]
async fn handle(item: Item) {}

fn main() {}
