//! A creation handler. Its result is stored in the status.
//!
//! ```sh
//! kopf-rs run examples/kopf/01-minimal.rs --embedded --apply examples/kopf --verbose
//! ```

use kopf_rs::prelude::*;

#[on_create("kopfexamples")]
fn create_fn(spec: &Value) -> HandlerResult<Value> {
    info!("And here we are! Creating: {spec}");
    Ok(json!({"message": "hello world"}))
}
