//! Follows the instructions in a `ConfigMap`: `it cli::operators` starts it.

use kopf_rs::prelude::*;

#[on_create("configmaps")]
#[expect(clippy::print_stdout, reason = "it is asked to print")]
fn obey(body: &Value, retry: u32) -> HandlerResult {
    match body["data"]["do"].as_str() {
        Some("block") => {
            info!("blocking");
            loop {
                std::thread::park();
            }
        }
        Some("fail") => Err(PermanentError::new("asked to fail").into()),
        Some("retry") => Err(TemporaryError::new("asked to retry").delay(1).into()),
        Some("retry once") if retry == 0 => Err(TemporaryError::new("asked to retry once").delay(1).into()),
        Some("panic") => panic!("asked to panic"),
        Some("print") => {
            println!("printed");
            Ok(())
        }
        _ => {
            tracing::info!(count = 1, "seen plainly");
            Ok(())
        }
    }
}

kopf_rs::main!();
