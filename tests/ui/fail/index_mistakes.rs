#![allow(unused)]

use kopf_rs::prelude::*;

#[index("pods")]
fn changes(patch: &mut Patch) -> (String, u8) {
    patch["a"] = json!(1);
    (String::new(), 1)
}

#[on_event("pods")]
#[index("pods")]
fn two_things_at_once(name: String) -> (String, u8) {
    (name, 1)
}

#[index("pods")]
fn names_no_type(name: String) -> impl IntoIterator<Item = (String, u8)> {
    [(name, 1)]
}

#[index("pods", optional)]
fn another_option(name: String) -> (String, u8) {
    (name, 1)
}

fn main() {}
