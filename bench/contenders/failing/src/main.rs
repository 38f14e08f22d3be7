//! An operator whose handlers fail depending on an object's number, to measure the memory that failures leave behind.

use kopf_rs::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
struct BenchSpec {
    n: u64,
}

/// The number of attempts that fail before one succeeds.
const FAILING: u32 = 3;

#[on_create("bench.kopf.rs", "v1", "benchobjs")]
async fn created() -> HandlerResult {
    Ok(())
}

/// Sorts 0 and 1 succeed after some failures, sorts 2 and 3 never succeed, and sort 4 fails permanently at once.
#[on_update("bench.kopf.rs", "v1", "benchobjs", backoff = 1)]
async fn updated(spec: BenchSpec, retry: u32) -> HandlerResult {
    let sort = spec.n % 5;
    if sort < 2 && retry >= FAILING {
        return Ok(());
    }
    match sort {
        0 | 2 => Err(format!("the volume of number {} cannot be attached", spec.n).into()),
        1 | 3 => Err(TemporaryError::new(format!("number {} waits for its volume", spec.n)).delay(1).into()),
        _ => Err(PermanentError::new(format!("number {} is no number for a volume", spec.n)).into()),
    }
}

kopf_rs::main!();
