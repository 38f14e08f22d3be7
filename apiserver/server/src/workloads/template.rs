//! Creates Pods from a Pod template, and computes the template's hash.
//!
//! Guarantees that equal templates have equal hashes. Must not depend on controllers.

use serde_json::{Value, json};

use super::tell::owned_by;
use crate::kind::Kind;
use crate::object::{Body, Stored, at_path};

const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Returns the hash of a template, as a label value.
pub(super) fn word(template: &Value) -> String {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in template.to_string().bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    }
    let mut word = String::new();
    for _ in 0..10 {
        let at = usize::try_from(hash % 27).unwrap_or_default();
        word.push(char::from(LETTERS[at]));
        hash /= 27;
    }
    word
}

/// Returns the Pod template of a workload.
pub(super) fn of(body: &Body) -> Value {
    at_path(body, ".spec.template")
        .cloned()
        .unwrap_or_else(|| json!({}))
}

/// Creates a Pod from its controller's template; the caller adds the name.
pub(super) fn pod(kind: &Kind, owner: &Stored, template: &Value) -> Value {
    let mut meta = json!({
        "namespace": owner.slim.namespace,
        "ownerReferences": owned_by(kind, owner),
    });
    for field in ["labels", "annotations", "finalizers"] {
        if let Some(found) = template["metadata"].get(field) {
            meta[field] = found.clone();
        }
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": template.get("spec").cloned().unwrap_or_else(|| json!({})),
    })
}
