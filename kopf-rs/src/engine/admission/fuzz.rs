//! Posts damaged admission reviews: each is answered under its uid, or refused with a reason.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kopf_rs_fuzz::{Run, Target, attack, texts};
use serde_json::{Value, json};

use super::*;
use crate::handler::denial::AdmissionError;
use crate::handler::registry::Registry;
use crate::handler::registry::callback::handler;
use crate::rt::clock::Clock;

const REVIEWS: &[&str] = &[
    r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"r","kind":{"group":"kopf.dev","version":"v1","kind":"KopfExample"},"resource":{"group":"kopf.dev","version":"v1","resource":"kopfexamples"},"name":"one","namespace":"default","operation":"CREATE","userInfo":{"username":"me"},"object":{"apiVersion":"kopf.dev/v1","kind":"KopfExample","metadata":{"name":"one","namespace":"default","labels":{"app":"x"},"annotations":null},"spec":{"size":1,"list":[1]}},"oldObject":null,"dryRun":false}}"#,
    r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"r","kind":{"kind":"KopfExample"},"resource":{"group":"kopf.dev","version":"v1","resource":"kopfexamples"},"subResource":"status","name":"","operation":"UPDATE","userInfo":{},"object":{"metadata":{"labels":{}},"spec":{"size":2}},"oldObject":{"metadata":{"name":"one"},"spec":{"size":1}},"dryRun":true}}"#,
    r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"r","kind":{"kind":"KopfExample"},"resource":{"group":"kopf.dev","version":"v1","resource":"kopfexamples"},"operation":"DELETE","userInfo":{},"oldObject":{"metadata":{"name":"one"}}}}"#,
];

const WORDS: &[&str] = &[
    "request",
    "uid",
    "operation",
    "CONNECT",
    "DELETE",
    "userInfo",
    "object",
    "oldObject",
    "subResource",
    "resource",
    "kind",
    "metadata",
    "labels",
    "annotations",
    "finalizers",
    "spec",
    "size",
    "dryRun",
    "null",
    "{}",
    "[]",
    "{",
    "}",
    "[",
    "]",
    "\"",
    ":",
    ",",
    "\\ud800",
    "1e999",
];

type HandlerResult = crate::handler::error::HandlerResult;

const KIND: &str = "kopfexamples";
const PATHS: [&str; 2] = ["/validate/deny", "/mutate/change"];

fn registry() -> Registry {
    Registry::new()
        .on_validate(
            KIND,
            handler("deny", |cause| async move {
                cause.warnings().push(format!("size {}", cause.body()["spec"]["size"]));
                HandlerResult::Err(AdmissionError::new("no").code(422).into())
            }),
        )
        .on_mutate(
            KIND,
            handler("change", |cause| async move {
                cause.patch(|patch| {
                    patch["metadata"]["labels"]["seen"] = json!("yes");
                    patch["spec"]["size"] = json!(null);
                    patch["spec"]["list"] = json!([{"a/b": "~"}]);
                });
                Ok(())
            })
            .field("spec.size"),
        )
}

fn reviews() -> Run {
    let registry = registry();
    assert_eq!(registry.check(), Ok(()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime");
    let within = runtime.enter();
    let group = HandlerGroup {
        handlers: registry.handlers().to_vec(),
        invoker: Arc::new(Invoker::new(Clock::start(), 4, None)),
        context: CauseContext::default(),
    };
    let reviewer = Reviewer::new(group, false);
    drop(within);
    Box::new(move |input| {
        for path in PATHS {
            let (connection, deadline) = (ConnectionFacts::default(), Duration::from_secs(2));
            let reply = runtime.block_on(reviewer.review(path, input, connection, deadline));
            let answer: Value = serde_json::from_slice(&reply.body).expect("an answer is JSON");
            if reply.status != 200 {
                assert_eq!(answer["kind"], "Status");
                continue;
            }
            let response = &answer["response"];
            // The parts of a review that the operator skips may be nested deeper than a parsed tree allows.
            if let Ok(review) = serde_json::from_slice::<Value>(input) {
                assert_eq!(response["uid"], review["request"]["uid"]);
            }
            if let Some(patch) = response["patch"].as_str() {
                let patch = STANDARD.decode(patch).expect("a patch is base64");
                let patch: Value = serde_json::from_slice(&patch).expect("a patch is JSON");
                assert!(patch.is_array(), "{patch}");
            }
        }
    })
}

#[test]
fn no_review_breaks_the_webhooks() {
    let target = Target {
        name: "admission-review",
        share: 1,
        tokens: WORDS,
        samples: || texts(REVIEWS),
        begin: reviews,
    };
    attack(&[target], 2000);
}
