//! All kinds of handlers for changes. Two functions may handle the same change.
//!
//! ```sh
//! kopf-rs run examples/kopf/05-handlers.rs --embedded --apply examples/kopf --verbose
//! ```

use kopf_rs::prelude::*;

#[on_resume("kopfexamples")]
fn resume_fn_1() {
    info!("RESUMED 1st");
}

#[on_create("kopfexamples")]
fn create_fn_1() {
    info!("CREATED 1st");
}

#[on_resume("kopfexamples")]
fn resume_fn_2() {
    info!("RESUMED 2nd");
}

#[on_create("kopfexamples")]
fn create_fn_2() {
    info!("CREATED 2nd");
}

#[on_update("kopfexamples")]
fn update_fn(diff: &Diff) {
    info!("UPDATED: {diff:?}");
}

#[on_delete("kopfexamples")]
fn delete_fn_1() {
    info!("DELETED 1st");
}

#[on_delete("kopfexamples")]
fn delete_fn_2() {
    info!("DELETED 2nd");
}

#[on_field("kopfexamples", field = "spec.field")]
fn field_fn(old: &Value, new: &Value) {
    info!("FIELD CHANGED: {old} -> {new}");
}
