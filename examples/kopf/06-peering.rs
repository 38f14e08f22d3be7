//! Several instances of one operator: the one with the highest priority handles the objects, and the others pause.
//!
//! ```sh
//! kubectl apply -f examples/kopf/peering/peering.yaml
//! kopf-rs run examples/kopf/06-peering.rs -A --peering=default --verbose
//! kopf-rs run examples/kopf/06-peering.rs -A --peering=default --priority=100
//! ```
//!
//! The first instance handles the objects until the second one starts, and again after that one has ended.

use kopf_rs::prelude::*;

#[on_create("kopfexamples")]
fn create_fn() {}
