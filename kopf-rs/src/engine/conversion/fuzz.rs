//! Posts damaged conversion reviews: each is answered with as many objects as were sent, or refused with a reason.

use kopf_rs_fuzz::{Run, Target, attack, texts};
use serde_json::{Value, json};

use super::*;
use crate::handler::conversion::conversion;
use crate::handler::registry::Registry;

const REVIEWS: &[&str] = &[
    r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":"example.com/v2","objects":[{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","annotations":{"conversion.kopf.rs/v2":"[{\"at\":[\"spec\",\"x\"],\"is\":1}]"}},"spec":{"a":1}},{"apiVersion":"example.com/v2","kind":"Thing","metadata":{"name":"b"},"spec":null}]}}"#,
    r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":"example.com/v1","objects":null}}"#,
];

const WORDS: &[&str] = &[
    "apiVersion",
    "kind",
    "ConversionReview",
    "request",
    "uid",
    "desiredAPIVersion",
    "objects",
    "metadata",
    "annotations",
    "spec",
    "example.com/v1",
    "example.com/v2",
    "example.com/",
    "conversion.kopf.rs/v1",
    "deletionTimestamp",
    "null",
    "{",
    "}",
    "[",
    "]",
    "\"",
    ":",
    ",",
];

fn reviews() -> Run {
    let through = |name| conversion(name, |spec: Value| Ok(spec));
    let of = |version| ("example.com", version, "things");
    let registry = Registry::new().on_convert(of("v1"), of("v2"), through("up")).on_convert(
        of("v2"),
        of("v1"),
        through("down"),
    );
    let kind = Conversions::of(registry.conversions()).kinds()[0].clone();
    let told = Told { told: Mutex::default(), events: None };
    let version = |name: &str| json!({"name": name, "storage": name == "v2", "schema": {"openAPIV3Schema": {"type": "object"}}});
    let rules = Rules::of(&json!({"spec": {"versions": [version("v1"), version("v2")]}}));
    let over = CancellationToken::new();
    Box::new(move |input| {
        let reply = told.answer(&kind, input, &rules, &over);
        let answer: Value = serde_json::from_slice(&reply.body).expect("an answer is JSON");
        if reply.status != 200 {
            assert_eq!((reply.status, &answer["kind"]), (400, &json!("Status")));
            return;
        }
        let review = ConversionReview::parse(input).expect("it was answered");
        let ConversionReview { uid, objects, .. } = review;
        let response = &answer["response"];
        assert_eq!(response["uid"], uid);
        let converted = response["convertedObjects"].as_array().map(Vec::len);
        let is_done = response["result"]["status"] == "Success";
        assert_eq!(converted, is_done.then_some(objects.len()));
    })
}

#[test]
fn no_review_breaks_a_conversion() {
    let target = Target {
        name: "conversion-review",
        share: 1,
        tokens: WORDS,
        samples: || texts(REVIEWS),
        begin: reviews,
    };
    attack(&[target], 2000);
}
