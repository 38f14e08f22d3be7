#![allow(unused)]

use kopf_rs::prelude::*;

#[on_create("kopfexamples")]
async fn without_a_return_type(retry: u32) {
    if retry > 3 {
        return Err(TemporaryError::new("x"));
    }
}

#[on_create("kopfexamples")]
async fn of_another_error() -> Result<(), std::net::AddrParseError> {
    Err(PermanentError::new("x"))
}

#[on_create("kopfexamples")]
async fn without_a_message() -> HandlerResult {
    return Err(TemporaryError::new());
}

fn main() {}
