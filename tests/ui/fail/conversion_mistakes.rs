#![allow(unused)]

use kopf_rs::prelude::*;

#[on_convert("votes.example.com", from = "v1alpha1", to = "v1")]
async fn waits(spec: Value) -> Value {
    spec
}

#[on_convert("votes.example.com", from = "v1alpha1")]
fn goes_nowhere(spec: Value) -> Value {
    spec
}

#[on_convert(from = "v1alpha1", to = "v1")]
fn of_what(spec: Value) -> Value {
    spec
}

#[on_convert("example.com", "v1", "votes", form = "v1", from = "v1", to = "v1")]
fn much(spec: Value) -> Value {
    spec
}

#[on_convert("votes.example.com", from = v1, to = "v2")]
fn no_version(spec: Value) -> Value {
    spec
}

#[on_convert("votes.example.com", from = "v1", to = "v2")]
fn of_another_name(old: Value) -> Value {
    old
}

#[on_convert("votes.example.com", from = "v1", to = "v2")]
fn of_two(spec: Value, name: &str) -> Value {
    spec
}

#[on_convert("votes.example.com", from = "v1", to = "v2")]
fn in_place(spec: &mut Value) {}

#[on_create("votes")]
#[on_convert("votes.example.com", from = "v1", to = "v2")]
fn both(spec: Value) -> Value {
    spec
}

#[on_convert("votes.example.com", from = "v1", to = "v2")]
#[on_create("votes")]
fn likewise(spec: Value) -> Value {
    spec
}

struct Opaque;

#[on_convert("votes.example.com", from = "v1", to = "v2")]
fn unreadable(spec: Opaque) -> Value {
    Value::Null
}

#[on_convert("votes.example.com", from = "v1", to = "v2")]
fn unwritable(spec: Value) -> Opaque {
    Opaque
}

#[on_convert(from = Opaque, to = Opaque)]
fn of_no_resource(spec: Value) -> Value {
    spec
}

fn main() {}
