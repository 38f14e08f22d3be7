#![allow(unused)]

use kopf_rs::prelude::*;

#[on_create(everthing)]
async fn create_fn() {}

#[on_create(kopfexamples)]
async fn unquoted() {}

#[on_create(kindd = "KopfExample")]
async fn keyword() {}

fn main() {}
