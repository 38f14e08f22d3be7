//! An interval is a number of seconds, a `Duration`, or what says one of them.

use kopf_rs::prelude::*;

const EVERY: &str = "5s";

#[timer("myapps", interval = EVERY)]
async fn tick() {}

fn main() {}
