//! Permanent errors, errors that are retried, and the number of retries.
//!
//! ```sh
//! kopf-rs run examples/kopf/03-exceptions.rs --embedded --apply examples/kopf --verbose
//! ```

use kopf_rs::prelude::*;

#[derive(Debug)]
struct Broken;

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an error that might go away")
    }
}

impl std::error::Error for Broken {}

#[on_create("kopfexamples")]
fn instant_failure_with_only_a_message() -> HandlerResult {
    fail!("Fail once and for all.")
}

#[on_create("kopfexamples")]
fn eventual_success_with_a_few_messages(retry: u32) -> HandlerResult {
    if retry < 3 {
        retry!(1, "Expected recoverable error.");
    }
    Ok(())
}

#[on_create("kopfexamples", retries = 3, backoff = 1)]
fn eventual_failure() -> Result<(), Broken> {
    Err(Broken)
}

#[on_create("kopfexamples", errors = permanent, backoff = 1)]
fn instant_failure() -> Result<(), Broken> {
    Err(Broken)
}
