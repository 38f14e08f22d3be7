//! Kubernetes Events about the handled object.
//!
//! ```sh
//! kopf-rs run examples/kopf/04-events.rs --embedded --apply examples/kopf --verbose
//! ```

use kopf_rs::prelude::*;

#[on_create("kopfexamples")]
async fn create_fn(events: Events) {
    events.event(EventKind::Normal, "SomeReason", "Some message");
    events.normal("SomeOtherReason", "Some message");
    events.warning("SomeReason", "Some message");
    if let Err(error) = "many".parse::<u32>() {
        events.exception("SomeReason", &error);
    }
}
