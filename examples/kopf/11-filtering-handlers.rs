//! Filters: by labels, annotations, fields and their changes, and by functions.
//!
//! ```sh
//! kopf-rs run examples/kopf/11-filtering-handlers.rs --embedded --apply examples/kopf --verbose
//! ```

use std::time::Duration;

use kopf_rs::prelude::*;

fn is_some_value(value: Option<&Value>) -> bool {
    value.is_some_and(|value| value == "somevalue")
}

fn is_another_value(value: Option<&Value>) -> bool {
    value.is_some_and(|value| value == "not-this-value-for-sure")
}

#[on_create("kopfexamples", labels = {"somelabel": "somevalue"})]
fn create_with_labels_matching() {
    info!("Label is matching.");
}

#[on_create("kopfexamples", labels = {"somelabel": PRESENT})]
fn create_with_labels_present() {
    info!("Label is present.");
}

#[on_create("kopfexamples", labels = {"nonexistent": ABSENT})]
fn create_with_labels_absent() {
    info!("Label is absent.");
}

#[on_create("kopfexamples", labels = {"somelabel": is_some_value})]
fn create_with_labels_callback_matching() {
    info!("Label callback matching.");
}

#[on_create("kopfexamples", annotations = {"someannotation": "somevalue"})]
fn create_with_annotations_matching() {
    info!("Annotation is matching.");
}

#[on_create("kopfexamples", annotations = {"someannotation": PRESENT})]
fn create_with_annotations_present() {
    info!("Annotation is present.");
}

#[on_create("kopfexamples", annotations = {"nonexistent": ABSENT})]
fn create_with_annotations_absent() {
    info!("Annotation is absent.");
}

#[on_create("kopfexamples", annotations = {"someannotation": is_another_value})]
fn create_with_annotations_callback_matching() {
    info!("Annotation callback mismatch.");
}

#[on_create("kopfexamples", when = |cause| cause.body().spec()["field"] == "value")]
fn create_with_filter_satisfied() {
    info!("Filter satisfied.");
}

#[on_create("kopfexamples", when = |_| false)]
fn create_with_filter_not_satisfied() {
    info!("Filter not satisfied.");
}

#[on_create("kopfexamples", field = "spec.field", value = "value")]
fn create_with_field_value_satisfied() {
    info!("Field value is satisfied.");
}

#[on_create("kopfexamples", field = "spec.field", value = "something-else")]
fn create_with_field_value_not_satisfied() {
    info!("Field value is not satisfied.");
}

#[on_create("kopfexamples", field = "spec.field", value = PRESENT)]
fn create_with_field_presence_satisfied() {
    info!("Field presence is satisfied.");
}

#[on_create("kopfexamples", field = "spec.inexistent", value = PRESENT)]
fn create_with_field_presence_not_satisfied() {
    info!("Field presence is not satisfied.");
}

#[on_update("kopfexamples", field = "spec.field", old = "value", new = "changed")]
fn update_with_field_change_satisfied() {
    info!("Field change is satisfied.");
}

#[daemon("kopfexamples", field = "spec.field", value = "value")]
async fn daemon_with_field(stopped: &Stopped) {
    while !stopped.wait_for(Duration::from_secs(1)).await {
        info!("Field daemon is satisfied.");
    }
}
