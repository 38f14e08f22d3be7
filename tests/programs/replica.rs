//! One of several instances: each attempt records its instance on the object, and the first one fails. `it replicas::` starts it.

use std::time::Duration;

use kopf_rs::prelude::*;

/// Long enough to be hit by a kill.
const WORK: Duration = Duration::from_millis(100);

#[on_create("configmaps", labels = {"replicated": PRESENT})]
async fn second_time_lucky(retry: u32, body: &Value, patch: &mut Patch) -> HandlerResult {
    info!("attempt {retry}");
    tokio::time::sleep(WORK).await;
    let former = body["metadata"]["annotations"]["attempts"].as_str();
    let attempts = format!("{} {}/{retry}", former.unwrap_or_default(), instance());
    patch["metadata"]["annotations"]["attempts"] = attempts.trim().into();
    if retry == 0 {
        Err(TemporaryError::new("not yet").delay(0.1))?;
    }
    Ok(())
}

/// Never returns in the instance that the object names.
#[on_create("configmaps", labels = {"blocks": PRESENT})]
fn block(retry: u32, body: &Value, patch: &mut Patch) {
    info!("blocking attempt {retry}");
    while body["metadata"]["labels"]["blocks"] == *instance() {
        std::thread::park();
    }
    patch["metadata"]["annotations"]["attempts"] = format!("{}/{retry}", instance()).into();
}

/// Returns the name of the instance, as a Pod gets it from its environment.
fn instance() -> String {
    std::env::var("HOSTNAME").unwrap_or_default()
}

kopf_rs::main!();
