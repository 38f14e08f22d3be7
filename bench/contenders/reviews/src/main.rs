//! Reviews as a user of kopf-rs answers them: one function denies objects, another one sets a label.

use kopf_rs::prelude::*;
use serde::Deserialize;

/// As it is typed for controller-runtime, too.
#[derive(Deserialize)]
struct BenchSpec {
    n: i64,
    #[expect(dead_code, reason = "the rule is about the number")]
    parts: Vec<Part>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "the rule is about the number")]
struct Part {
    name: String,
    image: String,
    port: u16,
}

#[on_validate("bench.kopf.rs", "v1", "benchobjs")]
async fn valid(spec: BenchSpec) -> HandlerResult {
    if spec.n < 0 {
        return Err(AdmissionError::new("spec.n must not be negative").code(422));
    }
    Ok(())
}

#[on_mutate("bench.kopf.rs", "v1", "benchobjs")]
async fn labelled(patch: &mut Patch) {
    patch.set("metadata.labels.bench", "yes");
}

kopf_rs::main!();
