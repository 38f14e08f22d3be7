//! What servers of webhooks are asked, and what their answers must be.
//!
//! Must not know who is asked, nor how.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::bench_cluster::API_VERSION;

/// Different reviews: all are asked again and again.
const DIFFERENT: i64 = 32;
/// One of so many objects has a negative number.
const NEGATIVE: i64 = 8;

/// What an answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// Objects with a negative number are denied.
    Validating,
    /// Objects get a label.
    Mutating,
}

/// A review as the API server sends it, of the creation of an object.
#[derive(Debug)]
pub struct Asked {
    pub body: String,
    uid: String,
    is_negative: bool,
}

/// Reviews of objects of about so many bytes each.
pub fn reviews(bytes: usize) -> Vec<Asked> {
    (0..DIFFERENT).map(|number| review(number, bytes)).collect()
}

fn review(number: i64, bytes: usize) -> Asked {
    let is_negative = number % NEGATIVE == NEGATIVE - 1;
    let n = if is_negative { -number } else { number };
    let name = format!("object-{number:05}");
    let uid = format!("705ab4f5-6393-11e8-b7cc-{number:012}");
    let gvk = json!({"group": "bench.kopf.rs", "version": "v1", "kind": "BenchObj"});
    let gvr = json!({"group": "bench.kopf.rs", "version": "v1", "resource": "benchobjs"});
    let user = json!({"username": "kubernetes-admin", "groups": ["system:masters", "system:authenticated"]});
    let options = json!({"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"});
    let body = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": uid, "kind": gvk, "resource": gvr, "requestKind": gvk, "requestResource": gvr,
            "name": name, "namespace": "bench", "operation": "CREATE", "userInfo": user,
            "object": object(&name, n, bytes), "oldObject": null, "dryRun": false, "options": options,
        },
    });
    Asked { body: body.to_string(), uid, is_negative }
}

/// As large as parts of one size make it, and not larger than that.
fn object(name: &str, n: i64, bytes: usize) -> Value {
    let part = |number: usize| {
        json!({
            "name": format!("part-{number:05}"), "image": "registry.example.com/parts/part:1.29.3",
            "port": 10_000 + number % 10_000,
        })
    };
    let mut object = json!({
        "apiVersion": API_VERSION, "kind": "BenchObj",
        "metadata": {
            "name": name, "namespace": "bench", "uid": "c5b9a8f0-6393-11e8-b7cc-42010a800002", "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"app": "bench"},
        },
        "spec": {"n": n, "parts": []},
    });
    let left = bytes.saturating_sub(object.to_string().len());
    let each = part(0).to_string().len() + 1;
    object["spec"]["parts"] = (0..left / each).map(part).collect();
    object
}

impl Sort {
    /// Whether this answer is the one to this review.
    pub fn is_right(self, answer: &[u8], asked: &Asked) -> bool {
        let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
        let response = &answer["response"];
        let (is_allowed, patch) = match self {
            Self::Validating => (!asked.is_negative, None),
            Self::Mutating => {
                (true, Some(json!([{"op": "add", "path": "/metadata/labels/bench", "value": "yes"}])))
            }
        };
        response["uid"] == asked.uid && response["allowed"] == is_allowed && patched(response) == patch
    }
}

/// The patch of an answer, if it has one.
fn patched(response: &Value) -> Option<Value> {
    let patch = STANDARD.decode(response["patch"].as_str()?);
    serde_json::from_slice(&patch.ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_as_large_as_was_said() {
        for (bytes, parts) in [(1_000, 7), (100_000, 1_000)] {
            let object = object("object-00000", 3, bytes);
            let size = object.to_string().len();
            assert!(size <= bytes && size > bytes * 9 / 10, "{size}");
            assert!(object["spec"]["parts"].as_array().unwrap().len() >= parts);
        }
    }

    #[test]
    fn an_answer_is_right_for_its_own_review() {
        let all = reviews(1_000);
        let negative = all.iter().filter(|asked| asked.is_negative).count();
        assert_eq!((all.len(), negative), (32, 4));
        let answer =
            |uid: &str, allowed: bool| json!({"response": {"uid": uid, "allowed": allowed}}).to_string();
        let is_right = |answer: &str, asked| Sort::Validating.is_right(answer.as_bytes(), asked);
        assert!(is_right(&answer(&all[0].uid, true), &all[0]));
        assert!(is_right(&answer(&all[7].uid, false), &all[7]));
        assert!(!is_right(&answer(&all[7].uid, true), &all[7]));
        assert!(!is_right(&answer(&all[1].uid, true), &all[0]));
        assert!(!is_right("", &all[0]));
    }

    #[test]
    fn a_patch_must_set_the_label_and_nothing_else() {
        let asked = &reviews(1_000)[7];
        let set = json!({"op": "add", "path": "/metadata/labels/bench", "value": "yes"});
        let other = json!({"op": "remove", "path": "/spec"});
        for (patch, expected) in [(json!([set]), true), (json!([set, other]), false), (json!([]), false)] {
            let patch = STANDARD.encode(patch.to_string());
            let answer = json!({"response": {"uid": asked.uid, "allowed": true, "patch": patch}});
            let answer = answer.to_string();
            assert_eq!(Sort::Mutating.is_right(answer.as_bytes(), asked), expected);
            assert!(!Sort::Validating.is_right(answer.as_bytes(), asked));
        }
    }
}
