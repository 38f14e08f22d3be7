//! Tenants, some of them gold.

use kopf_rs::prelude::*;

fn is_gold(cause: &Cause) -> bool {
    cause.labels().get("tier") == Some("gold") && cause.body().spec()["seats"].as_u64() > Some(10)
}

#[on_create("tenants.example.com", when = is_gold)]
#[on_resume("tenants.example.com", when = is_gold)]
fn welcome(name: &str, reason: Reason, patch: &mut Patch) {
    if reason == "create" {
        info!("{name} is new, and gold");
    }
    patch.set("metadata.labels.example.com/support", "phone");
}

#[on_field("tenants.example.com", field = "spec.seats")]
fn count(old: Option<i64>, new: Option<i64>) -> HandlerResult<Value> {
    Ok(json!({"more": new.unwrap_or(0) - old.unwrap_or(0)}))
}

#[on_delete("tenants.example.com", annotations = {"keep": "yes"})]
fn keep(name: &str) -> HandlerResult {
    retry!(60, "{name} is to be kept")
}
