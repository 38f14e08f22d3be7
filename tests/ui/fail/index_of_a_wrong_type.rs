#![allow(unused)]

use kopf_rs::prelude::*;

#[index("pods")]
fn without_a_key(name: String) -> String {
    name
}

#[index("pods")]
fn without_anything() {}

struct Unclonable;

#[index("pods")]
fn by_name(name: String) -> (String, Unclonable) {
    (name, Unclonable)
}

#[on_event("pods")]
async fn reads(by_name: Index<String, Unclonable>) {
    drop(by_name);
}

fn main() {}
