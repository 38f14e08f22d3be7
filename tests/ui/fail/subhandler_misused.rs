#![allow(unused)]

use kopf_rs::prelude::*;

struct Item;

#[subhandler("kopfexamples", retry = 3)]
async fn with_a_selector() {}

#[subhandler]
async fn of_two(item: &str, size: u64) {}

#[subhandler(optional)]
async fn of_a_deletion() {}

fn main() {}
