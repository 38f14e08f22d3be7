//! Registers its kind when it starts, completes the objects of that kind and refuses some: `it cli::operators` starts it with objects to apply.

use kopf_rs::prelude::*;
use kopf_rs::register_crd;

#[on_startup]
async fn register(client: Client) -> HandlerResult {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "guardeds.programs.test"},
        "spec": {
            "scope": "Namespaced", "group": "programs.test",
            "names": {"kind": "Guarded", "plural": "guardeds", "singular": "guarded"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true
            }}}]
        }
    });
    register_crd(&client, &definition).await
}

#[on_mutate("guardeds")]
fn complete(patch: &mut Patch) {
    patch.set("spec.size", 3);
}

#[on_validate("guardeds")]
fn check(body: &Value) -> HandlerResult {
    if body["spec"]["forbidden"] == true {
        return Err(AdmissionError::new("spec.forbidden is set"));
    }
    Ok(())
}

#[on_create("guardeds")]
fn tell(body: &Value) {
    info!("its size is {}", body["spec"]["size"]);
}

kopf_rs::main!();
