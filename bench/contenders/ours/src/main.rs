//! The benchmark job as a user of kopf-rs writes it: the framework itself records that an object was handled.

use kopf_rs::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
struct BenchSpec {
    n: i64,
    text: String,
}

#[on_create("bench.kopf.rs", "v1", "benchobjs")]
async fn created(spec: BenchSpec) -> HandlerResult {
    if spec.n < 0 || spec.text.is_empty() {
        return Err(PermanentError::new("field spec.text must be provided").into());
    }
    Ok(())
}

kopf_rs::main!();
