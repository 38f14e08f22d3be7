#![allow(unused)]

use kopf_rs::prelude::*;
use kopf_rs::Settings;

#[on_create("kopfexamples")]
async fn create_fn(name: &String, namespace: Option<&String>, retry: i32) {}

#[on_startup]
async fn lent(settings: &mut Settings) {}

#[on_startup]
async fn given(settings: Settings) {}

fn main() {}
