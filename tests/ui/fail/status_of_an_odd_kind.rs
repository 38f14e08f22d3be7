#![allow(unused)]

use kopf_rs::prelude::*;

struct MyStatus;

#[on_create("kopfexamples")]
async fn of_my_type(status: &mut MyStatus) {}

#[on_create("kopfexamples")]
async fn by_value(status: Status<Value>) {}

#[on_create("kopfexamples")]
async fn lent(status: Option<&Status<Value>>) {}

#[on_create("kopfexamples")]
async fn twice(status: &mut Status<Value>, #[from(status)] other: &mut Status<Value>) {}

#[index("kopfexamples")]
fn indexed(status: &mut Status<Value>) -> (String, u8) {
    (String::new(), 0)
}

fn main() {}
