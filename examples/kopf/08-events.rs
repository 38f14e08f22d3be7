//! Raw watch events: a failure is logged but not retried, and no progress is stored on the object.
//!
//! ```sh
//! kopf-rs run examples/kopf/08-events.rs --embedded --apply examples/kopf --verbose
//! ```

use kopf_rs::prelude::*;

#[on_event("kopfexamples")]
fn event_fn_with_error() -> Result<(), std::num::ParseIntError> {
    "Oops!".parse::<i32>().map(|_| ())
}

#[on_event("kopfexamples")]
fn normal_event_fn(event_type: Option<EventType>, name: &str) {
    info!("Event received: {event_type:?} of {name}");
}
