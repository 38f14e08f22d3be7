//! The operator of the example on peering: several instances of it need the flags for peering, which are not there yet.
//!
//! ```sh
//! kopf-rs run examples/kopf/06-peering.rs --embedded --apply examples/kopf --verbose
//! ```

use kopf_rs::prelude::*;

#[on_create("kopfexamples")]
fn create_fn() {}
