//! Fails twice, and records on the object what each attempt knew: `it killed::` starts it.

#![expect(clippy::unused_async, reason = "handlers are async")]

use kopf_rs::prelude::*;

#[on_create("configmaps", labels = {"killed": PRESENT})]
async fn third_time_lucky(retry: u32, patch: &mut Patch) -> HandlerResult {
    info!("attempt {retry}");
    if retry < 2 {
        Err(TemporaryError::new("not yet").delay(0.2))?;
    }
    patch["metadata"]["annotations"]["attempts"] = (retry + 1).to_string().into();
    Ok(())
}

kopf_rs::main!();
