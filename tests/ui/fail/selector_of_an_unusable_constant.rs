#![allow(unused)]

use kopf_rs::prelude::*;

const NUMBER: u8 = 5;

#[on_create(NUMBER)]
async fn of_a_number() {}

#[on_create(UNKNOWN)]
async fn of_nothing() {}

#[on_create(NUMBER, version = "v1")]
async fn of_two() {}

fn main() {}
